"""C = A^T B for tall matrices, of many more rows than columns: gradients of filters of one pixel are such products.

Letters: A has P rows and M columns, B has P rows and K columns, C is (M, K), all float32. The columns of each row are
dense; rows of A follow each other, those of B may be pixels that lie apart in an image. L lanes of a vector, panels of
2 L columns of B.

Threads share the rows. For each of its blocks of rows a thread, alone, with everything in the cache of its core,

    T[row][2 L]             = B                for one panel after the other
    G[panel][m][2 L]       += A^T T            by a register tile of R columns of A

and meanwhile asks for what comes next of A and B: it lies in memory, and the processor does not foresee it. At the end
threads wait for each other and share the sum of their G, which is C. So nothing that a thread wrote is read by another
before, as where they have no cache in common that is slow.

The sum depends on the number of threads, by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tazza.engines.jit.block import BlockLaunch, Slot, Word
from tazza.engines.jit.block import Scratch as ScratchWord
from tazza.engines.jit.emit import Lines
from tazza.engines.jit.loop import (
    carry_loop,
    compiled,
    count_loop,
    lane_count,
    lanes_below,
    load,
    load_one,
    share,
    store,
)
from tazza.engines.jit.rows import element, when
from tazza.engines.jit.writer import FLOAT, LINE, Writer

COLUMNS = {16: 8, 8: 4, 4: 4}
"""L -> R: twice as many vectors of sums stay in registers."""
FEW, MANY, FEW_BYTES = 64, 256, 2 << 20
"""Rows of a block: few, so that a panel of them leaves room in the first cache; many where G is large, as every block
reads and writes it."""
TALL, BLOCKS = 2, 4
"""How many times as many rows as columns there are at the least, and how many blocks for each thread."""
LEAST_COLUMNS = 24
"""Of A: each number of B that is packed is used once for every column."""
MOST_BYTES = 32 << 20
"""What G, T and the places of rows may take in all threads."""
ADDRESSES = ("A", "B", "C", "scratch")
WORDS = (
    "threads",
    *ADDRESSES,
    *("P", "M", "K", "H", "W", "image", "row", "pixel", "block", "own"),
)
"""Names of the words. H, W: of the grid of the rows of B; image, row, pixel: steps in it, in floats. block: rows of a
block. own: floats of scratch memory of one thread."""


@dataclass(frozen=True)
class Grid:
    """Where the rows of B lie: N images of H x W pixels, with the steps from one to the next in floats."""

    extents: tuple[int, int, int]
    steps: tuple[int, int, int]


def tall_product(names: tuple[str, str, str], M: int, K: int, grid: Grid, threads: int) -> BlockLaunch | None:
    """Return the launch for the letters of A, B and C.

    None where M is no multiple of R or small, so that packing takes longest; and where there are so few rows, for the
    threads or for the sums, that G takes longer than the products.

    >>> tall_product(("dY", "X", "dW"), 3, 16, Grid((1, 2, 2), (64, 32, 16)), 1) is None
    True
    """
    P, L = math.prod(grid.extents), lane_count()
    block = FEW if 4 * M * K <= FEW_BYTES else MANY
    if P < max(TALL * max(M, K), BLOCKS * block * threads):
        return None
    panels = -(-K // (2 * L))
    own = 4 * block + 2 * L * block + 2 * L * panels * M + LINE
    if M % COLUMNS[L] or M < LEAST_COLUMNS or 4 * own * threads > MOST_BYTES:
        return None
    words: dict[str, Word] = {
        **{"threads": threads, "A": Slot(names[0]), "B": Slot(names[1]), "C": Slot(names[2]), "scratch": ScratchWord()},
        **{"P": P, "M": M, "K": K, "H": grid.extents[1], "W": grid.extents[2]},
        **dict(zip(("image", "row", "pixel"), grid.steps, strict=True)),
        **{"block": block, "own": own},
    }
    address = compiled("tall product", lambda lines: _Writer(lines).write(), rewrite=False)
    block_words = tuple(words[name] for name in WORDS)
    return BlockLaunch(address, block_words, 4 * own * threads, implementation="tall product")


class _Writer(Writer):
    """Writes the kernel."""

    def __init__(self, lines: Lines) -> None:
        super().__init__(lines, WORDS, ADDRESSES)
        w = self.w
        self.columns = COLUMNS[self.v.count]
        self.panels, self.tiles = self.pieces(w["K"], self.panel), self.div(w["M"], self.columns)
        self.places = element(lines, w["scratch"], self.mul("%who", w["own"]))  # of two blocks of rows of B, as int64
        self.T = element(lines, self.places, self.mul(w["block"], 4))
        self.G = element(lines, self.T, self.mul(w["block"], self.panel))

    def write(self) -> None:
        w, lines = self.w, self.lines
        start, end = share(lines, w["P"])
        self.locate(start, self.places_of("0"))

        def block(i: str) -> None:
            begin = self.add(start, self.mul(i, w["block"]))
            count = self.least(self.sub(end, begin), w["block"])
            following = self.least(self.add(begin, w["block"]), self.sub(w["P"], 1))
            here, there = self.places_of(i), self.places_of(self.add(i, 1))
            self.locate(following, there)
            starts = lines.let(f"icmp eq i64 {i}, 0")

            def panel(p: str) -> None:
                self.pack(p, here, count)
                last = lines.let(f"icmp eq i64 {self.add(p, 1)}, {self.panels}")
                asked = lines.let(f"select i1 {last}, ptr {there}, ptr {here}")
                column = self.mul(lines.let(f"select i1 {last}, i64 0, i64 {self.add(p, 1)}"), self.panel)

                def tile(number: str) -> None:
                    self.expect_panel(number, asked, column)
                    self.expect_rows(self.add(self.mul(p, self.tiles), number), following)
                    self.tile(number, p, (begin, count), starts)

                count_loop(lines, "0", self.tiles, tile)

            count_loop(lines, "0", self.panels, panel)

        count_loop(lines, "0", self.pieces(self.sub(end, start), w["block"]), block)
        self.wait()
        first, last = share(lines, self.mul(self.panels, w["M"]))
        count_loop(lines, first, last, self.join)

    # -- rows of B -----------------------------------------------------------------------------------------------------

    def places_of(self, block: str) -> str:
        """Return the table of a block: there are two, used in turn."""
        return element(self.lines, self.places, self.mul(self.mul(self.rem(block, 2), self.w["block"]), 2))

    def locate(self, begin: str, table: str) -> None:
        """Write where rows of B from `begin` on lie; behind the last row that is the last one again."""
        w = self.w

        def one(t: str) -> None:
            number = self.least(self.add(begin, t), self.sub(w["P"], 1))
            line, x = self.div(number, w["W"]), self.rem(number, w["W"])
            image, y = self.div(line, w["H"]), self.rem(line, w["H"])
            at = self.add(self.mul(image, w["image"]), self.add(self.mul(y, w["row"]), self.mul(x, w["pixel"])))
            self.lines.do(f"store i64 {at}, ptr {element(self.lines, table, t, 'i64')}")

        count_loop(self.lines, "0", w["block"], one)

    def row_of(self, table: str, t: str) -> str:
        """Return the address of a row of B."""
        place = self.lines.let(f"load i64, ptr {element(self.lines, table, t, 'i64')}")
        return element(self.lines, self.w["B"], place)

    def pack(self, panel: str, table: str, count: str) -> None:
        """Write T for a panel; columns that are not there are 0."""
        v, k = self.v, self.mul(panel, self.panel)
        columns = [self.add(k, half * v.count) for half in range(2)]
        masks = [lanes_below(v, self.sub(self.w["K"], column)) for column in columns]

        def one(t: str) -> None:
            source = self.row_of(table, t)
            for half, (column, mask) in enumerate(zip(columns, masks, strict=True)):
                at = self.add(self.mul(t, self.panel), half * v.count)
                self.put(load(v, FLOAT, source, column, mask), self.T, at)

        count_loop(self.lines, "0", count, one)

    # -- what comes next -----------------------------------------------------------------------------------------------

    def expect_panel(self, turn: str, table: str, column: str) -> None:
        """Ask for a part of the panel that is packed next, in one of as many turns as there are tiles."""

        def row(t: str) -> None:
            start = element(self.lines, self.row_of(table, t), column)
            for line in range(0, self.panel, LINE):
                self.lines.prefetch(start, 4 * line)

        self.each_of_turn(turn, self.tiles, row)

    def expect_rows(self, turn: str, begin: str) -> None:
        """Ask for a part of the rows of A of the next block, in one of as many turns as it has register tiles."""
        w = self.w
        start = element(self.lines, w["A"], self.mul(begin, w["M"]))

        def row(t: str) -> None:
            here = element(self.lines, start, self.mul(t, w["M"]))

            def line(i: str) -> None:
                self.lines.prefetch(element(self.lines, here, self.mul(i, LINE)), 0)

            count_loop(self.lines, "0", self.pieces(w["M"], LINE), line)

        self.each_of_turn(turn, self.mul(self.panels, self.tiles), row)

    def each_of_turn(self, turn: str, turns: str, row: Callable[[str], None]) -> None:
        """Run row(t) for a part of the rows of a block."""
        some = self.pieces(self.w["block"], turns)
        first = self.mul(turn, some)
        count_loop(self.lines, first, self.least(self.w["block"], self.add(first, some)), row)

    # -- G and C -------------------------------------------------------------------------------------------------------

    def sums(self, panel: str, m: str) -> str:
        """Return where the sums of a panel and columns m, m + 1 ... of A lie."""
        return element(self.lines, self.G, self.mul(self.add(self.mul(panel, self.w["M"]), m), self.panel))

    def tile(self, number: str, panel: str, rows: tuple[str, str], starts: str) -> None:
        """Add the products of a block, from its first row and for so many, or begin with them."""
        m = self.mul(number, self.columns)
        A = element(self.lines, self.w["A"], self.add(self.mul(rows[0], self.w["M"]), m))
        G = self.sums(panel, m)
        when(
            self.lines,
            starts,
            lambda: self.register_tile(A, G, rows[1], begin=True),
            lambda: self.register_tile(A, G, rows[1], begin=False),
        )

    def register_tile(self, A: str, G: str, count: str, *, begin: bool) -> None:
        """Add the products of so many rows to two vectors for each of R columns of A."""
        v = self.v

        def row(t: str, sums: Sequence[str]) -> Sequence[str]:
            pair = [load(v, FLOAT, self.T, self.add(self.mul(t, self.panel), half * v.count), None) for half in (0, 1)]
            numbers = element(self.lines, A, self.mul(t, self.w["M"]))
            found: list[str] = []
            for r in range(self.columns):
                one = load_one(v, FLOAT, element(self.lines, numbers, str(r)))
                found += [v.fma(one, value, sums[2 * r + half]) for half, value in enumerate(pair)]
            return found

        places = [str(i * v.count) for i in range(2 * self.columns)]
        before = [v.constant(0.0) if begin else load(v, FLOAT, G, place, None) for place in places]
        for place, value in zip(places, carry_loop(v, "0", count, before, row), strict=True):
            self.put(value, G, place)

    def join(self, line: str) -> None:
        """Write a panel of a row of C: the sum over all threads."""
        v, w = self.v, self.w
        panel, m = self.div(line, w["M"]), self.rem(line, w["M"])
        own = self.sums(panel, m)
        for half in range(2):
            k = self.add(self.mul(panel, self.panel), half * v.count)

            def thread(who: str, total: Sequence[str], half: int = half) -> Sequence[str]:
                there = self.add(self.mul(self.sub(who, "%who"), w["own"]), half * v.count)
                return [v.add(total[0], load(v, FLOAT, own, there, None))]

            (total,) = carry_loop(v, "0", "%many", [v.constant(0.0)], thread)
            mask = lanes_below(v, self.sub(w["K"], k))
            store(v, FLOAT, total, w["C"], self.add(self.mul(m, w["K"]), k), mask)
