"""How the threads of a GPU share rows, and what those of one row do together.

Letters as in `operator.row_program`: B x D x K, O times. Of each of the B * K rows a team of T threads takes the O * D
elements in turn: member m has m, m + T, m + 2 T .... Rows that lie side by side belong to threads side by side, so what
a warp asks for lies together. A block has several teams where these are small; a row that is long has several blocks
where there are few of them, each of which takes a part.

How threads are dealt out follows from the shape alone, so the result is the same on any device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from tazza.codegen.fields import Fields
from tazza.codegen.loop import carry_loop
from tazza.codegen.nvptx import WARP, barrier, exchange, place, shared, warp_barrier
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.data_class import dataclass
from tazza.operator.row_program import Cut
from tazza.tensor import DataType


@dataclass(frozen=True, slots=True)
class Limits:
    """What decides how threads are dealt out.

    Attributes:
        warp: threads that exchange numbers.
        block: threads of a block, where nothing speaks for more, and the most that there can be.
        most: the most that there can be.
        held: elements that a thread keeps in registers.
        short: so long rows leave it half of these, where their elements are written too: more threads are there then
            which load while others compute and write.
        apart: elements that a thread loads before it computes with them, where it does not keep them.
        busy: threads that fill a device.
        long: so many elements for each thread are worth several blocks.
    """

    warp: int = WARP
    block: int = 256
    most: int = 1024
    held: int = 32
    short: int = 8192
    apart: int = 8
    busy: int = 1 << 18
    long: int = 256


SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Of turns: kernels differ in these, and not in each length of a row."""


@dataclass(frozen=True, slots=True)
class Deal:
    """How rows are dealt out to threads.

    Attributes:
        team: T, a power of two.
        side: rows side by side that a block has, a power of two; 1 where K is 1.
        groups: of so many rows in a block, more than 1 only where each is within a warp.
        each: elements of a thread in one turn.
        sure: those of them that are there in every row, where one turn is all.
        kept: whether one turn is all, so that what was loaded once is kept.
        parts: whether each row has several blocks.
    """

    team: int
    side: int
    groups: int
    each: int
    sure: int = 0
    kept: bool = False
    parts: bool = False

    @property
    def threads(self) -> int:
        """Of a block."""
        return self.team * self.side * self.groups

    def blocks(self, cut: Cut) -> int:
        """Return how many there are for each part of all rows."""
        return -(-cut.before * self.tiles(cut) // self.groups)

    def tiles(self, cut: Cut) -> int:
        """Return how many blocks go over rows that lie side by side."""
        return -(-cut.behind // self.side)

    def warps(self, limits: Limits) -> int:
        """Return how many warps work on a row together; 0 where one or a part of it is enough."""
        together = self.team * self.side
        return together // limits.warp if together > limits.warp else 0


def ceiling_power(n: int) -> int:
    """Return the smallest power of two that is not smaller.

    >>> ceiling_power(1), ceiling_power(5), ceiling_power(8)
    (1, 8, 8)
    """
    return 1 << max(0, n - 1).bit_length()


def deal_of(cut: Cut, loads: int, limits: Limits, *, written: bool = False) -> Deal:
    """Return how rows are dealt out of whose elements so many letters are read, and maybe some `written`.

    >>> deal_of(Cut(1 << 18, 1024), 1, Limits())
    Deal(team=32, side=1, groups=8, each=32, sure=24, kept=True, parts=False)
    >>> deal_of(Cut(1 << 18, 1024), 1, Limits(), written=True)
    Deal(team=64, side=1, groups=1, each=16, sure=12, kept=True, parts=False)
    >>> deal_of(Cut(1000, 10), 1, Limits())
    Deal(team=2, side=1, groups=128, each=6, sure=4, kept=True, parts=False)
    """
    n, rows, loads = cut.along * cut.outer, max(1, cut.before * cut.behind), max(1, loads)
    side = min(limits.warp, ceiling_power(cut.behind))
    few = ceiling_power(n + 1) // 8  # so that each thread has four or more
    team = ceiling_power(limits.busy // rows)  # or enough to fill the device
    if side == 1:
        team = max(team, limits.warp)
    team = max(1, min(team, few, limits.most // side))
    held = max(1, limits.held // (2 * loads if written and n <= limits.short else loads))
    if side == 1 and team * held < n <= limits.most * held:
        team = max(2 * limits.warp, ceiling_power(-(-n // held)))
    elif side == 1 and n > limits.most * held:
        team = max(team, limits.block)
    groups = max(1, limits.block // (team * side)) if team * side <= limits.warp else 1
    turn = -(-n // team)
    if 0 < turn <= held:
        size = next(k for k, size in enumerate(SIZES) if size >= turn)
        return Deal(team, side, groups, SIZES[size], SIZES[size - 1] if size else 0, True)
    return Deal(team, side, groups, max(1, limits.apart // loads))


def parts_of(cut: Cut, deal: Deal, limits: Limits) -> int:
    """Return how many blocks are worth while for each row: 1 where a row is short, or rows fill the device."""
    n, rows = cut.along * cut.outer, max(1, cut.before * cut.behind)
    if deal.kept or n < limits.long * deal.team or rows * deal.team >= limits.busy:
        return 1
    return max(1, min(4 * limits.busy // (rows * deal.team), 2 * n // (limits.long * deal.team)))


Element: TypeAlias = "tuple[int, Term, Term, Term | None]"
"""An element that a thread has in a turn: its number there, its place in a blob, that along the row, and whether it is
one at all, where that is not sure: another is loaded in its place."""
Turn: TypeAlias = "Callable[[Sequence[Element], Sequence[Term]], Sequence[Term]]"
"""`carried = turn(elements, carried)`."""
Join: TypeAlias = "Callable[[Vector, Term, Term], Term]"
"""`join(lanes, a, b)` joins two numbers."""


class Team:
    """Writes what a thread does as a member of its team; `w` are the words of `WORDS`."""

    WORDS = Fields("all tiles blocks along behind outer plane chunk")
    """Rows of a block in all, tiles and blocks of a part; extents; the elements of an O, and those of a part."""

    def __init__(self, lines: Lines, deal: Deal, limits: Limits, *, outer: bool, small: bool) -> None:
        """Find the row and the member; `outer` where O is not 1, `small` where 32 bits count the elements."""
        self.lines, self.deal, self.limits = lines, deal, limits
        self.outer, self.small = outer, small
        self.w = self.WORDS.loaded(lines)
        self.numbers = Vector(lines, 1, DataType.DOUBLE)
        self.elements = self.w.outer * self.w.along if outer else self.w.along
        self.thread, block = place(lines)
        self.part, block = self.split(block, self.w.blocks) if deal.parts else (lines.number(0), block)
        column = self.thread & (deal.side - 1)
        self.member = (self.thread // deal.side) & (deal.team - 1)
        group = self.thread // (deal.side * deal.team)
        self.inside: Term | None = None
        """Whether there is a row for this thread; where there is none it does the same with another."""
        self.row = self._row(block * deal.groups + group, column)

    def _row(self, group: Term, column: Term) -> Term:
        if self.deal.groups > 1:
            group = self._within(group, self.w.all)
        if self.deal.side == 1:
            self.start = group * self.w.along
            return group
        b, tile = self.split(group, self.w.tiles)
        k = self._within(tile * self.deal.side + column, self.w.behind)
        self.start = b * (self.w.along * self.w.behind) + k
        return b * self.w.behind + k

    def _within(self, i: Term, count: Term) -> Term:
        there = i < count
        self.inside = there if self.inside is None else self.inside & there
        return there.choose(i, count - 1)

    def leads(self) -> Term:
        """Return whether this thread writes what there is one of for a row."""
        first = self.member.equals(0)
        if self.deal.parts:
            first &= self.part.equals(0)
        return first.within(self.inside)

    # -- whole numbers -------------------------------------------------------------------------------------------------

    def split(self, i: Term, extent: Term) -> tuple[Term, Term]:
        """Return i // extent and i % extent, in 32 bits where that is enough: what has 64 is a loop on a GPU."""
        if not self.small:
            return i // extent, i % extent
        a, b = (one.to("i32") for one in (i, extent))
        whole, rest = a // b, a % b
        return whole.to_unsigned("i64"), rest.to_unsigned("i64")

    # -- elements ------------------------------------------------------------------------------------------------------

    def sweep(self, starts: Sequence[Term], turn: Turn) -> list[Term]:
        """Return what a turn makes of numbers in float64, turn by turn over the elements of this thread."""
        if self.deal.kept:
            return list(turn([self._kept(c) for c in range(self.deal.each)], starts))
        team, each = self.deal.team, self.deal.each
        begin, end = self.lines.number(0), self.elements
        if self.deal.parts:
            begin = self.part * self.w.chunk
            begin, end = (one.at_most(self.elements) for one in (begin, begin + self.w.chunk))
        whole = (end - begin) // (team * each)

        def several(k: Term, carried: Sequence[Term]) -> Sequence[Term]:
            first = begin + k * (team * each) + self.member
            return turn([self._element(c, first + c * team) for c in range(each)], carried)

        carried = carry_loop(0, whole, starts, several)
        if each == 1 and team == 1:
            return carried
        first = begin + whole * (team * each) + self.member
        left = (end + (team - 1) - first).op("sdiv", team)

        def one(k: Term, carried: Sequence[Term]) -> Sequence[Term]:
            return turn([self._element(0, first + k * team)], carried)

        return carry_loop(0, left, carried, one)

    def _kept(self, c: int) -> Element:
        e = self.member + c * self.deal.team
        if c < self.deal.sure:
            return self._element(c, e)
        there = e < self.elements
        return self._element(c, there.choose(e, self.elements - 1), there)

    def _element(self, c: int, e: Term, there: Term | None = None) -> Element:
        start, r = self.start, e
        if self.outer:
            o, r = self.split(e, self.w.along)
            start += o * self.w.plane
        return c, start + (r if self.deal.side == 1 else r * self.w.behind), r, there

    # -- together ------------------------------------------------------------------------------------------------------

    def meet(self) -> None:
        """Let all threads of the team come here."""
        if self.deal.warps(self.limits):
            barrier(self.lines)
        elif self.deal.team > 1:
            warp_barrier(self.lines)

    def joined(self, first: int, values: Sequence[Term], joins: Sequence[Join]) -> list[Term]:
        """Return float64 numbers of all members joined, for all of them; `first` is how many were joined before."""
        found = [self._over_warp(value, join) for value, join in zip(values, joins, strict=True)]
        warps, lines = self.deal.warps(self.limits), self.lines
        if not warps:
            return found
        S, side = shared(lines), self.deal.side
        warp, column = self.thread // self.limits.warp, self.thread & (side - 1)

        def part(w: Term, k: int) -> Term:
            return S.at(w * side + column + (first + k) * warps * side).of(self.numbers.type)

        for k, value in enumerate(found):  # lanes of one column have the same
            part(warp, k).store(value, 8)
        barrier(lines)

        def turn(w: Term, carried: Sequence[Term]) -> Sequence[Term]:
            each = enumerate(zip(carried, joins, strict=True))
            return [join(self.numbers, one, part(w, k).load(8)) for k, (one, join) in each]

        return carry_loop(1, warps, [part(lines.number(0), k).load(8) for k in range(len(joins))], turn)

    def _over_warp(self, value: Term, join: Join) -> Term:
        """Return the number joined over the members within a warp, which all of them get."""
        distance, end = self.deal.side, min(self.limits.warp, self.deal.side * self.deal.team)
        while distance < end:
            value = join(self.numbers, value, self._other(value, distance))
            distance *= 2
        return value

    def _other(self, value: Term, distance: int) -> Term:
        """Return the float64 of another thread."""
        halves = value.bitcast("<2 x i32>")
        for k in range(2):
            halves = halves.with_lane(k, exchange(halves.lane(k), distance))
        return halves.bitcast(self.numbers.type)


def team_words(cut: Cut, deal: Deal, *, blocks: int = 1, chunk: int = 0) -> dict[str, int]:
    """Return the words of `Team.WORDS` by name: `blocks` of a part, of so many elements of each row."""
    tiles, plane = deal.tiles(cut), cut.before * cut.along * cut.behind
    extents = {"along": cut.along, "behind": max(1, cut.behind), "outer": cut.outer, "plane": plane, "chunk": chunk}
    return {"all": cut.before * tiles, "tiles": max(1, tiles), "blocks": blocks, **extents}
