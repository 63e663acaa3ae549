"""From where to where blobs live, by position in a list of operators.

A blob lives from the operator that makes it to the last one that reads it. What nets within an operator touch counts
(`operator.touches`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tazza.operator import Effects, effects_of, read_first, touches
from tazza.operator.nested import nested_nets
from tazza.proto import NetDef, OperatorDef


class LiveRange(NamedTuple):
    """Positions of the first operator that writes a blob and of the last one that reads it; its size in bytes.

    None where nobody writes it, where nobody reads it, where nobody knows.
    """

    defined: int | None
    used: int | None
    size: int | None

    def is_before(self, other: LiveRange) -> bool:
        """Whether it has surely ended when another one begins.

        >>> LiveRange(0, 1, 4).is_before(LiveRange(2, 3, 4)), LiveRange(0, 1, 4).is_before(LiveRange(1, 3, 4))
        (True, False)
        """
        if self.defined is None or self.used is None or other.defined is None:
            return False
        return self.used < other.defined


def live_ranges(ops: Iterable[OperatorDef], sizes: Mapping[str, int] | None = None) -> dict[str, LiveRange]:
    """Return the live range of each blob, in the order in which operators touch them; `sizes` in bytes.

    >>> from tazza.graph.text import parse_net
    >>> live_ranges(parse_net("in: x", "a = Relu(x)", "a = Relu(a)", "b = Relu(a)").op, {"a": 12})["a"]
    LiveRange(defined=0, used=2, size=12)

    Raises:
        SchemaError, ArgumentError, FormatError: an operator with nets is not legal.
    """
    defined: dict[str, int] = {}
    used: dict[str, int] = {}
    found: dict[str, None] = {}
    for position, op in enumerate(ops):
        touched = touches(op)
        found.update(dict.fromkeys(touched.named))
        used.update(dict.fromkeys((*touched.reads, *touched.after), position))
        for name in touched.writes:
            defined.setdefault(name, position)
    known: Mapping[str, int] = {} if sizes is None else sizes
    return {name: LiveRange(defined.get(name), used.get(name), known.get(name)) for name in found}


def last_readers(net: NetDef) -> dict[str, int]:
    """Return the blobs that a run need not keep, with the position of the last operator that reads each.

    Kept is what somebody may look at afterwards, or what the next run goes on from: external inputs and outputs, what
    no operator reads, what the net reads before it writes it, and what operators keep in the workspace.

    >>> from tazza.graph.text import parse_net
    >>> net = parse_net("in: x", "a = Relu(x)", "b = Relu(a)", "a = Relu(a)", "c = Relu(b)")
    >>> last_readers(net)
    {'a': 2, 'b': 3}
    """
    kept = {*net.external_output, *net.external_input, *read_first(net.op), *carried(net.op)}
    return {
        name: life.used
        for name, life in live_ranges(net.op).items()
        if life.used is not None and life.defined is not None and name not in kept
    }


def carried(ops: Iterable[OperatorDef]) -> set[str]:
    """Return the blobs that may hold what was there before a run, or that an operator goes on from in the next one.

    What a branch leaves as it is, and nobody reads any more, has to be as it was. An operator with state may look at
    what its outputs hold; of one with nets inside these are asked.

    >>> from tazza.graph.text import parse_net
    >>> sorted(carried(parse_net("in: x", "y = Accumulate(x)", "z = Relu(y)", "t = Iter(t)").op))
    ['t', 'y']
    """
    found: set[str] = set()
    for op in ops:
        touched = touches(op)
        found.update(name for name in touched.writes if name not in touched.certain and name not in op.input)
        found.update(_looked_at(op))
    return found


def _looked_at(op: OperatorDef) -> Iterator[str]:
    """Yield the outputs that an operator may look at before it writes them."""
    nets = list(nested_nets(op))
    for net in nets:
        for inner in net.op:
            yield from _looked_at(inner)
    if not nets and effects_of(op) >= Effects.STATE:
        yield from op.output
