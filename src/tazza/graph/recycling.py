"""Blobs that live one after the other get one name, so that they lie in one memory: a net becomes a net.

    a = Relu(x), b = Relu(a), c = Relu(b), d = Relu(c)    ->    m = Relu(x), d = Relu(m), m = Relu(d), d = Relu(m)

Whether a blob has ended when another one begins is asked of the dependencies between operators (`graph.dependency`):
every operator that touches it has to come before the first one that writes the other, whatever runs at the same time.
So the new net has no dependency that the old one had not, and runs as parallel as it did; `in_order` takes the order in
which operators stand for one besides, for nets that run so. How blobs are divided among names: `graph.turns`.

Which blobs keep out of it:

- those that may hold what was there before a run: they are read first, or perhaps left as they are;
- what operators go on from in the next run; what holds no tensor; what is touched on several devices;
- second names of blobs, and these blobs: where nets of Caffe2 run otherwise, they lie in one memory.

Some blobs take part under their own names: outputs of the net and what nobody reads, which are looked at afterwards
and come last; and what an operator mentions otherwise than among its inputs and outputs, or shows to the world. A net
that declares no output has to, once what nobody reads comes under the name of something that is read: else nobody could
tell any more.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import count

from tazza.data_class import dataclass
from tazza.device import merge
from tazza.graph.dependency import Access, dependencies
from tazza.graph.live_range import carried
from tazza.graph.turns import Berth, Tenant, cost, fewest, smallest
from tazza.graph.verify import check_operators
from tazza.operator import Effects, Touched, effects_of, find_schema, read_first
from tazza.operator.nested import all_operators, nested_nets
from tazza.operator.touches import each_touched
from tazza.proto import NetDef, OperatorDef


@dataclass(frozen=True, slots=True)
class Recycled:
    """A net, and the new names of those blobs that got one."""

    net: NetDef
    names: dict[str, str]


@dataclass(slots=True)
class _Life:
    """Who touches a blob: positions of operators, all of them as bits, and where they run."""

    first: int
    last: int = -1
    touched: int = 0
    last_read: int = -1
    last_written: int = -1
    devices: set[tuple[int, int, str]] = field(default_factory=set[tuple[int, int, str]])

    @property
    def is_left(self) -> bool:
        """Whether nobody reads its last value."""
        return self.last_written >= self.last_read


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is asked of blobs before they take part.

    Args:
        lives: of all blobs.
        earlier: of each operator, those that surely end before it begins, as bits.
        ends: blobs behind which nobody may come.
        own: blobs that keep their names.
        lent: blobs that keep their names unless they share one with an own one.
        sizes: of blobs.
    """

    lives: dict[str, _Life]
    earlier: list[int]
    ends: set[str]
    own: set[str]
    lent: set[str]
    sizes: Mapping[str, int] | None


def recycle(
    net: NetDef,
    blobs: Collection[str],
    *,
    hosts: Collection[str] = (),
    prefix: str = "",
    sizes: Mapping[str, int] | None = None,
    in_order: bool = False,
) -> Recycled:
    """Return the net with blobs under fewer names.

    >>> from tazza.graph.text import parse_net
    >>> net = parse_net("in: x", "out: d", "a = Relu(x)", "b = Relu(a)", "c = Relu(b)", "d = Relu(c)")
    >>> recycle(net, {"a", "b", "c", "d"}).names
    {'a': '__m0_shared', 'b': 'd', 'c': '__m0_shared'}

    Args:
        net: stays as it is.
        blobs: may get other names.
        hosts: lend their memory to some of `blobs`, which come under their names; one may come under that of an output.
        prefix: stands in front of new names.
        sizes: of blobs, in any unit; with them the memory of all is made small, without them the number of names.
        in_order: whether operators run in the order in which they stand, and in no other.

    Raises:
        TazzaError: an operator is not legal.
    """
    check_operators(net)
    touched = each_touched(net)
    lives = _lives(net, touched)
    apart = kept_apart(net)
    able = [name for name in lives if (name in blobs or name in hosts) and name not in apart]
    ends = {name for name in able if lives[name].is_left or name in net.external_output}
    asked = _Asked(lives, _earlier(touched, in_order), ends, mentioned(net) | ends, {*hosts} - {*blobs}, sizes)
    turns = [berth for alike in _by_device(able, lives) for berth in _turns(alike, asked)]
    turns.sort(key=lambda berth: berth[0].begins)
    fresh = _fresh_names(net, prefix)
    names: dict[str, str] = {}
    for berth in turns:
        owners = [tenant.name for tenant in berth if tenant.settled] + [one.name for one in berth if one.lending]
        name = owners[0] if owners else next(fresh)
        names.update((tenant.name, name) for tenant in berth if tenant.name != name)
    made = _renamed(net, names)
    if not net.external_output and ends.intersection(names.values()):
        made.external_output.extend(name for name in lives if lives[name].last_read < 0)
    return Recycled(made, {name: names[name] for name in lives if name in names})


def behind(net: NetDef, heads: Collection[str]) -> list[int]:
    """Return the positions of the operators to which something leads from one of these blobs.

    >>> from tazza.graph.text import parse_net
    >>> behind(parse_net("a = Relu(x)", "b = Relu(y)", "c = Sum(a, b)"), ["x"])
    [0, 2]

    Raises:
        SchemaError, ArgumentError, FormatError: an operator with nets is not legal.
    """
    reached = {*heads}
    found: list[int] = []
    for position, one in enumerate(each_touched(net)):
        if reached.intersection(one.reads):
            found.append(position)
            reached.update(one.writes)
    return found


def by_device(net: NetDef) -> list[list[str]]:
    """Return the blobs that are touched on one device alone, for each of them, as they end.

    >>> from tazza.graph.text import parse_net
    >>> by_device(parse_net("a = Relu(x)", "b = Relu(a) @cuda:0"))
    [['x'], ['b']]

    Raises:
        SchemaError, ArgumentError, FormatError: an operator with nets is not legal.
    """
    lives = _lives(net, each_touched(net))
    return _by_device([*lives], lives)


def kept_apart(net: NetDef) -> set[str]:
    """Return the blobs of a net whose memory nobody else may use; what arguments of the net name is among them.

    >>> from tazza.graph.text import parse_net
    >>> sorted(kept_apart(parse_net("in: x", "a = Relu(x)", "b = Alias(a)", "t = Iter(t)", "c = Relu(b)")))
    ['a', 'b', 't', 'x']

    Raises:
        TazzaError: an operator is not legal.
    """
    found = {*net.external_input, *read_first(net.op), *carried(net.op)}
    found.update(text.decode(errors="replace") for argument in net.arg for text in argument.strings)
    for op in net.op:
        view = find_schema(op.type).view(op)
        declared = view.schema.outputs_by_letter
        found.update(
            name
            for letter, name in zip(view.output_letters, op.output, strict=True)
            if not declared[letter].only_tensors
        )
        if view.schema.second_name and op.output:
            found.update((op.input[0], op.output[0]))
    return found


def kept_by_name(net: NetDef) -> set[str]:
    """Return the blobs of a net that keep name and memory where others share by live ranges (`graph.assignment`).

    To those that are kept apart come outputs, what is mentioned elsewhere, and what is written again behind its last
    reader: its range ends too early.

    >>> from tazza.graph.text import parse_net
    >>> sorted(kept_by_name(parse_net("in: x", "out: c", "a = Relu(x)", "b = Relu(a)", "a = Relu(b)", "c = Relu(b)")))
    ['a', 'c', 'x']

    Raises:
        TazzaError: an operator is not legal.
    """
    lives = _lives(net, each_touched(net))
    again = {name for name, life in lives.items() if -1 < life.last_read <= life.last_written}
    return again | kept_apart(net) | mentioned(net) | {*net.external_output}


def mentioned(net: NetDef) -> set[str]:
    """Return the blobs whose names say something beside which blob it is: nets within operators or the world know them.

    >>> from tazza.graph.text import parse_net
    >>> mentioned(parse_net("in: x", "a = Relu(x)", "Save(a; db='file', db_type='minidb')"))
    {'a'}
    """
    found: set[str] = set()
    for op in net.op:
        if next(nested_nets(op), None) is not None:
            found.update(_names_within(op))
        elif effects_of(op) >= Effects.WORKSPACE:
            found.update((*op.input, *op.output))
    return found


def _names_within(op: OperatorDef) -> Iterator[str]:
    """Yield all texts among the arguments of an operator, and all blobs of nets there."""
    for argument in op.arg:
        yield from (text.decode(errors="replace") for text in (argument.s, *argument.strings))
    for net in nested_nets(op):
        yield from (*net.external_input, *net.external_output)
        for inner, _ in all_operators(net):
            yield from (*inner.input, *inner.output, *inner.control_input)
            yield from (text.decode(errors="replace") for one in inner.arg for text in (one.s, *one.strings))


def _lives(net: NetDef, touched: Sequence[Touched]) -> dict[str, _Life]:
    lives: dict[str, _Life] = {}
    for position, (op, one) in enumerate(zip(net.op, touched, strict=True)):
        option = merge(net.device_option, op.device_option)
        for name in one.named:
            life = lives.setdefault(name, _Life(position))
            life.last = position
            life.touched |= 1 << position
            life.devices.add((option.device_type, option.device_id, option.node_name))
        for name in (*one.reads, *one.after):
            lives[name].last_read = position
        for name in one.writes:
            lives[name].last_written = position
    return lives


def _earlier(touched: Sequence[Touched], in_order: bool) -> list[int]:
    """Return for each operator those that surely end before it begins, as bits."""
    if in_order:
        return [(1 << position) - 1 for position in range(len(touched))]
    found = dependencies(Access((*one.reads, *one.after), one.writes) for one in touched)
    earlier: list[int] = []
    for parents in found.parents:
        bits = 0
        for parent in parents:
            bits |= earlier[parent] | 1 << parent
        earlier.append(bits)
    return earlier


def _by_device(names: Sequence[str], lives: Mapping[str, _Life]) -> list[list[str]]:
    """Return the blobs that are touched on one device, for each of them, as they end."""
    found: dict[tuple[int, int, str], list[str]] = {}
    for name in sorted(names, key=lambda name: lives[name].last):
        if len(lives[name].devices) == 1:
            found.setdefault(next(iter(lives[name].devices)), []).append(name)
    return list(found.values())


def _turns(names: Sequence[str], asked: _Asked) -> list[list[Tenant]]:
    """Return which blobs share a name, in turn."""
    lives = [asked.lives[name] for name in names]
    tenants: list[Tenant] = []
    for name, life in zip(names, lives, strict=True):
        earlier = asked.earlier[life.first]
        before = sum(
            1 << i for i, other in enumerate(lives) if not other.touched & ~earlier and names[i] not in asked.ends
        )
        size = 1 if asked.sizes is None else asked.sizes.get(name, 0)
        tenants.append(Tenant(name, life.first, before, size, name in asked.own, name in asked.lent - asked.own))
    ways: list[Callable[[Sequence[Tenant]], list[Berth]]] = [fewest] if asked.sizes is None else [smallest, fewest]
    best = min((way(tenants) for way in ways), key=lambda berths: (cost(tenants, berths), len(berths)))
    return [[tenants[i] for i in berth] for berth in best if len(berth) > 1]


def _fresh_names(net: NetDef, prefix: str) -> Iterator[str]:
    """Yield names that nobody in the net has, or mentions."""
    taken = {*net.external_input, *net.external_output}
    for op in net.op:
        taken.update((*op.input, *op.output, *op.control_input, *_names_within(op)))
    names = (f"{prefix}__m{number}_shared" for number in count())
    return (name for name in names if name not in taken)


def _renamed(net: NetDef, names: Mapping[str, str]) -> NetDef:
    """Return a net with blobs under other names, none of which a net within mentions."""
    made = NetDef()
    made.CopyFrom(net)
    for op in made.op:
        for listed in (op.input, op.output, op.control_input):
            listed[:] = [names.get(name, name) for name in listed]
    return made
