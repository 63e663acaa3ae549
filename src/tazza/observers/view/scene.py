"""What is drawn of a net: items on levels, those that repeat or lie within others folded into one.

    operators of a net -> `scene_of` -> Level(items, arrangement) -> page, picture

A level is laid out by itself. Its items are operators, inputs and outputs of the net, and groups: repeated blocks, and
nets within an operator (branches, bodies of loops). A group has a level of its own, which is drawn in its place when it
is unfolded. Edges that lead into a group or out of it come in at its top and leave at its bottom, so that no level
needs to know what is folded on another one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any, TypeAlias

from tazza.data_class import dataclass
from tazza.observers.view.layout import ENTRY, Arrangement, arrange
from tazza.observers.view.repeats import Repeat, find_repeats
from tazza.observers.view.wiring import Wiring

Facts: TypeAlias = dict[str, Any]
"""What the page tells of an operator, as JSON."""
Blob: TypeAlias = str


@dataclass(frozen=True, slots=True)
class Drawn:
    """An operator to draw.

    Operators of equal `key` are the same but for the blobs that they work on; `stays` tells an operator from others in
    every picture of the same net, `origins` those that it stands for, itself included. `nets` are those within it, by
    the arguments that hold them.
    """

    key: Hashable
    stays: Hashable
    facts: Facts
    origins: tuple[Hashable, ...] = ()
    nets: tuple[tuple[str, NetDrawn], ...] = ()


@dataclass(frozen=True, slots=True)
class NetDrawn:
    """Operators in order; `inputs` are the blobs from outside that are no parameters, `outputs` those asked for."""

    ops: tuple[Drawn, ...]
    wiring: Wiring
    inputs: tuple[Blob, ...] = ()
    outputs: tuple[Blob, ...] = ()


class Kind(StrEnum):
    """What an item is."""

    OPERATOR = "op"
    GROUP = "group"
    NET = "net"
    INPUT = "in"
    OUTPUT = "out"


@dataclass(frozen=True, slots=True)
class Item:
    """Something on a level. `op` numbers an operator of the scene; a group has `times` blocks of equal structure.

    `first` is the position of its operator, or of its first one, in the net; `inside` what is shown when it unfolds.
    """

    kind: Kind
    name: str = ""
    op: int | None = None
    inside: Level | None = None
    first: int = 0
    times: int = 1
    stays: Hashable = None
    origins: tuple[Hashable, ...] = ()


@dataclass(frozen=True, slots=True)
class Level:
    """Items, where they lie, and the edges between them; -1 is where edges from outside come in."""

    items: tuple[Item, ...]
    arrangement: Arrangement


@dataclass(frozen=True, slots=True)
class Scene:
    """All that is drawn of a net: operators, those of nets within them too, and the uppermost level.

    `lanes` are those of operators, for the next picture of the net.
    """

    ops: tuple[Facts, ...]
    root: Level
    lanes: Mapping[Hashable, int]


def scene_of(net: NetDrawn, before: Mapping[Hashable, int] | None = None) -> Scene:
    """Return the scene of a net; `before` has the lanes of an earlier one, which operators keep."""
    making = _Making({} if before is None else before)
    root = making.net(net, frozenset(), root=True)
    return Scene(tuple(making.facts), root, making.lanes)


def _crossing(count: int, wiring: Wiring) -> list[int]:
    """Return for each position, and the end, how badly a block would end there.

    It is twice the number of operators before it that are read at it or behind it, and one more where the next operator
    works in place: it belongs to the one before.
    """
    reach = [-1] * count
    for source, target in wiring.edges:
        reach[source] = max(reach[source], target)
    steps = [0] * (count + 2)
    for source, target in enumerate(reach):
        if target > source:
            steps[source + 1] += 1
            steps[target + 1] -= 1
    total, found = 0, list[int]()
    for position, step in enumerate(steps[: count + 1]):
        total += step
        found.append(2 * total + (position in wiring.in_place))
    return found


@dataclass(slots=True)
class _Making:
    """A scene under way: facts so far, names of blocks by what they consist of, and lanes before and now."""

    before: Mapping[Hashable, int]
    facts: list[Facts] = field(default_factory=list[Facts])
    within: dict[int, Level] = field(default_factory=dict[int, Level])
    blocks: dict[tuple[Hashable, ...], str] = field(default_factory=dict[tuple[Hashable, ...], str])
    lanes: dict[Hashable, int] = field(default_factory=dict[Hashable, int])

    def net(self, net: NetDrawn, outer: frozenset[Blob], *, root: bool) -> Level:
        """Return the level of a net; `outer` are the blobs that operators around it make."""
        outside, wiring, count = outer.union(net.inputs), net.wiring, len(net.ops)
        around = outside.union(wiring.last) if any(op.nets for op in net.ops) else outside
        numbers = [self._operator(op, around) for op in net.ops]
        entering = [
            (ENTRY, reader) for name, readers in wiring.readers.items() if name in outside for reader in readers
        ]
        edges = list(dict.fromkeys((*wiring.edges, *entering)))
        if not root:
            ends = {last for name, last in wiring.last.items() if name in net.outputs or not net.outputs}
            edges.extend((last, count) for last in sorted(ends))
        part = _Part(net, edges, _crossing(count, wiring), numbers)
        return self._level(part, 0, count, tuple(_ends(net)) if root else ())

    def _operator(self, op: Drawn, outer: frozenset[Blob]) -> int:
        """Add an operator and the nets within it; return its number."""
        number = len(self.facts)
        self.facts.append(op.facts)
        nets = [(name, net) for name, net in op.nets if net.ops]
        if nets:
            items = [
                Item(Kind.NET, name, inside=self.net(net, outer, root=False), stays=(op.stays, name))
                for name, net in nets
            ]
            edges = [(ENTRY, each) for each in range(len(items))] + [(each, len(items)) for each in range(len(items))]
            self.within[number] = Level(tuple(items), arrange(len(items), edges))
        return number

    def _level(self, part: _Part, first: int, end: int, ends: Sequence[_End]) -> Level:
        """Return the level of the operators from `first` to `end`, with inputs and outputs of the net around them."""
        middle, where = self._blocks(part, first, end)
        sources = [one.item for one in ends if not one.is_output]
        items = [*sources, *middle, *(one.item for one in ends if one.is_output)]
        shift, count = len(sources), len(items)
        place = {position: shift + item for position, item in where.items()}
        edges: dict[tuple[int, int], None] = {}
        for number, one in enumerate(each for each in ends if not each.is_output):
            edges.update(dict.fromkeys((number, place[reader]) for reader in one.ops))
        for source, target in part.edges(first, end):
            pair = place.get(source, ENTRY), place.get(target, count)
            if pair[0] != pair[1] and not (ends and source == ENTRY):
                edges[pair] = None
        for number, one in enumerate(each for each in ends if each.is_output):
            edges.update(dict.fromkeys((place[maker], shift + len(middle) + number) for maker in one.ops))
        known: dict[int, int] = {}
        for number, item in enumerate(items):
            lanes = [self.before[one] for one in (item.stays, *item.origins) if one in self.before]
            if lanes:
                known[number] = min(lanes)
        arrangement = arrange(count, edges, known)
        self.lanes.update((item.stays, lane) for item, lane in zip(items, arrangement.lanes, strict=True))
        return Level(tuple(items), arrangement)

    def _blocks(self, part: _Part, first: int, end: int) -> tuple[list[Item], dict[int, int]]:
        """Return the items of some operators, repeated blocks being one each, and which item each operator is in."""
        keys = [op.key for op in part.net.ops[first:end]]
        items: list[Item] = []
        where: dict[int, int] = {}
        at = first
        for repeat in find_repeats(keys, part.crossing[first : end + 1]):
            begin = first + repeat.first
            self._single(part, at, begin, items, where)
            at = first + repeat.end
            where.update(dict.fromkeys(range(begin, at), len(items)))
            items.append(self._repeated(part, begin, repeat))
        self._single(part, at, end, items, where)
        return items, where

    def _single(self, part: _Part, first: int, end: int, items: list[Item], where: dict[int, int]) -> None:
        for position in range(first, end):
            where[position] = len(items)
            number, op = part.numbers[position], part.net.ops[position]
            inside = self.within.get(number)
            items.append(Item(Kind.OPERATOR, "", number, inside, position, stays=op.stays, origins=op.origins))

    def _repeated(self, part: _Part, begin: int, repeat: Repeat) -> Item:
        """Return the group of blocks that repeat each other; of single operators, of these."""
        end = begin + repeat.length * repeat.count
        if repeat.length == 1:
            items: list[Item] = []
            where: dict[int, int] = {}
            self._single(part, begin, end, items, where)
            name = ""
        else:
            own = tuple(op.key for op in part.net.ops[begin : begin + repeat.length])
            name = self.blocks.setdefault(own, _letters(len(self.blocks)))
            items = []
            where = {}
            for number in range(repeat.count):
                first = begin + number * repeat.length
                where.update(dict.fromkeys(range(first, first + repeat.length), number))
                inside = self._level(part, first, first + repeat.length, ())
                stays = number, repeat.length, part.net.ops[first].stays
                items.append(Item(Kind.GROUP, name, None, inside, first, stays=stays))
        pairs = ((where.get(source, ENTRY), where.get(target, len(items))) for source, target in part.edges(begin, end))
        inside = Level(tuple(items), arrange(len(items), (pair for pair in pairs if pair[0] != pair[1])))
        stays = "blocks", part.net.ops[begin].stays
        return Item(Kind.GROUP, name, None, inside, begin, repeat.count, stays)


@dataclass(frozen=True, slots=True)
class _End:
    """An input of the net with the operators that read it, or an output with the one that makes it."""

    item: Item
    ops: tuple[int, ...]
    is_output: bool


@dataclass(slots=True)
class _Part:
    """A net that is drawn: who reads from whom, what leads over each position, and the number of each operator."""

    net: NetDrawn
    all_edges: list[tuple[int, int]]
    crossing: list[int]
    numbers: list[int]
    _around: dict[int, list[tuple[int, int]]] = field(default_factory=dict[int, list[tuple[int, int]]])

    def edges(self, first: int, end: int) -> list[tuple[int, int]]:
        """Return the edges that begin or end in a stretch of operators, in order."""
        if not self._around:
            for edge in self.all_edges:
                for position in {*edge}:
                    self._around.setdefault(position, []).append(edge)
        found = {edge: None for position in range(first, end) for edge in self._around.get(position, ())}
        return list(found)


def _ends(net: NetDrawn) -> Iterator[_End]:
    """Yield the inputs and outputs of a whole net, each with the operators that read or make it."""
    for name in net.inputs:
        if name in net.wiring.readers:
            yield _End(Item(Kind.INPUT, name, stays=(Kind.INPUT, name)), net.wiring.readers[name], is_output=False)
    for name in net.outputs:
        if name in net.wiring.last:
            yield _End(Item(Kind.OUTPUT, name, stays=(Kind.OUTPUT, name)), (net.wiring.last[name],), is_output=True)


def _letters(number: int) -> str:
    """Return A, B ... Z, AA, AB ...

    >>> _letters(0), _letters(25), _letters(26)
    ('A', 'Z', 'AA')
    """
    text = ""
    number += 1
    while number:
        number, digit = divmod(number - 1, 26)
        text = chr(ord("A") + digit) + text
    return text
