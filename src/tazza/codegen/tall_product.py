"""C = A^T B for tall matrices, of many more rows than columns: gradients of filters are such products.

Letters: A has P rows and M columns, B has P rows and K columns for each of its taps, C is (M, taps, K), all float32.
The columns of each row are dense; rows of A follow each other, those of B may be pixels that lie apart in an image, or
windows: so many pixels of it, taps, and zeros outside of it. L lanes of a vector, panels of 2 L columns of one tap.

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
from functools import partial

from tazza.codegen.block import BlockLaunch, Slot
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import compiled, lane_count
from tazza.codegen.loop import count_loop, lanes_below, share, when
from tazza.codegen.term import Lines, Term
from tazza.codegen.writer import LINE, Writer
from tazza.data_class import dataclass

COLUMNS = {16: 8, 8: 4, 4: 4}
"""L -> R: twice as many vectors of sums stay in registers."""
FEW, MANY, FEW_BYTES = 64, 256, 2 << 20
"""Rows of a block: few, so that a panel of them leaves room in the first cache; many where G is large, as every block
reads and writes it."""
LEAST_COLUMNS = 24
"""Of A: each number of B that is packed is used once for every column."""
MOST_BYTES = 32 << 20
"""What G, T and the places of rows may take in all threads."""
BLOCK = Fields("threads P M K H W image row pixel block own taps", addresses="A B C scratch")
"""H, W: of the grid of the rows of B; image, row, pixel: steps in it, in floats. block: rows of a
block. own: floats of scratch memory of one thread."""


@dataclass(frozen=True)
class Kind:
    """What rows of B are, which makes two kernels.

    There are at least `tall` times as many rows as columns of a tap, `blocks` blocks for each thread, and a part `fill`
    of all panels holds columns. `record` numbers say where a row lies: its first float and, of windows, row and column
    of that pixel of the image.
    """

    name: str
    tall: int
    blocks: int
    fill: float
    record: int
    fields: Fields = BLOCK


PIXELS = Kind("tall product", tall=2, blocks=4, fill=0, record=1)
WINDOWS = Kind(
    "tall product of windows",
    tall=1,
    blocks=1,
    fill=0.8,
    record=3,
    fields=Fields("kW image_H image_W top left down across tap_row tap_pixel", after=BLOCK),
)
"""Libraries have slower code for them. The words are the fields of Windows."""


@dataclass(frozen=True)
class Windows:
    """What makes windows of the rows of B: kH x kW pixels of an image of H x W pixels, and zeros around it.

    Those of neighbours begin `strides` pixels apart, the first one `pads` above and left of the image. `steps` lead
    from a tap to the one below and to the next, in floats.
    """

    kernel: tuple[int, int]
    image: tuple[int, int]
    pads: tuple[int, int]
    strides: tuple[int, int]
    steps: tuple[int, int]

    @property
    def words(self) -> dict[str, int]:
        """Those that the kernel has for windows."""
        return {
            **{"kW": self.kernel[1], "image_H": self.image[0], "image_W": self.image[1]},
            **{"top": self.pads[0], "left": self.pads[1], "down": self.strides[0], "across": self.strides[1]},
            **{"tap_row": self.steps[0], "tap_pixel": self.steps[1]},
        }


@dataclass(frozen=True)
class Grid:
    """Where the rows of B lie: N images of H x W of them, with the steps from one to the next in floats.

    Without `windows` a row is one pixel.
    """

    extents: tuple[int, int, int]
    steps: tuple[int, int, int]
    windows: Windows | None = None

    @property
    def taps(self) -> int:
        """Pixels of a row."""
        return 1 if self.windows is None else math.prod(self.windows.kernel)


def tall_product(names: tuple[str, str, str], M: int, K: int, grid: Grid, threads: int) -> BlockLaunch | None:
    """Return the launch for the letters of A, B and C.

    None where M is no multiple of R or small, so that packing takes longest; where columns of a window leave much of
    its panels empty; where there are so few rows, for the threads or for the sums, that G takes longer than the
    products; and where the G of all threads take more memory than they are worth.

    >>> tall_product(("dY", "X", "dW"), 3, 16, Grid((1, 2, 2), (64, 32, 16)), 1) is None
    True
    """
    P, L = math.prod(grid.extents), lane_count()
    taps, windows = grid.taps, grid.windows
    block = FEW if 4 * M * K * taps <= FEW_BYTES else MANY
    kind = PIXELS if windows is None else WINDOWS
    panels = -(-K // (2 * L))
    if P < max(kind.tall * max(M, K), kind.blocks * block * threads) or K < kind.fill * panels * 2 * L:
        return None
    own = 4 * block * kind.record + 2 * L * block + 2 * L * panels * taps * M + LINE
    if M % COLUMNS[L] or M < LEAST_COLUMNS or 4 * own * threads > MOST_BYTES:
        return None
    words = kind.fields.words(
        **{"threads": threads, "A": Slot(names[0]), "B": Slot(names[1]), "C": Slot(names[2])},
        **{"P": P, "M": M, "K": K, "H": grid.extents[1], "W": grid.extents[2]},
        **{"image": grid.steps[0], "row": grid.steps[1], "pixel": grid.steps[2]},
        **{"block": block, "own": own, "taps": taps},
        **({} if windows is None else windows.words),
    )
    address = compiled(kind.name, lambda lines: _Writer(lines, kind).write(), rewrite=False)
    return BlockLaunch(address, words, 4 * own * threads, implementation=kind.name)


class _Writer(Writer):
    """Writes the kernel for rows of one kind."""

    def __init__(self, lines: Lines, kind: Kind) -> None:
        super().__init__(lines, kind.fields)
        w = self.w
        self.windows, self.record = kind.fields is not BLOCK, kind.record
        self.columns = COLUMNS[self.v.count]
        self.tap_panels, self.tiles = w.K.pieces(self.panel), w.M // self.columns
        self.panels = self.tap_panels * w.taps
        self.places = w.scratch.at(lines.who * w.own)  # of two blocks of rows of B, as int64
        self.T = self.places.at(w.block * (4 * self.record))
        self.G = self.T.at(w.block * self.panel)

    def write(self) -> None:
        w, lines = self.w, self.lines
        start, end = share(lines, w.P)
        self.locate(start, self.places_of(lines.number(0)))

        # For each block of the rows [start, end) of this thread: where those of the next one lie is found as well.
        def block(i: Term) -> None:
            begin = start + i * w.block
            count = (end - begin).at_most(w.block)
            following = (begin + w.block).at_most(w.P - 1)
            here, there = self.places_of(i), self.places_of(i + 1)
            self.locate(following, there)
            starts = i.equals(0)

            # T of each panel, and G[panel] += A^T T, a register tile after the other.
            def panel(p: Term) -> None:
                self.pack(p, here, count)
                last = (p + 1).equals(self.panels)
                asked = last.choose(there, here)
                within = self.within_row(last.choose(0, p + 1))

                def tile(number: Term) -> None:
                    self.expect_panel(number, asked, within)
                    self.expect_rows(p * self.tiles + number, following)
                    self.tile(number, p, (begin, count), starts)

                count_loop(lines, 0, self.tiles, tile)

            count_loop(lines, 0, self.panels, panel)

        count_loop(lines, 0, (end - start).pieces(w.block), block)
        self.wait()
        count_loop(lines, *share(lines, self.panels * w.M), self.join)

    # -- rows of B -----------------------------------------------------------------------------------------------------

    def places_of(self, block: Term) -> Term:
        """Return the table of a block: there are two, used in turn."""
        return self.places.at(block % 2 * self.w.block * (2 * self.record))

    def locate(self, begin: Term, table: Term) -> None:
        """Write where rows of B from `begin` on lie; behind the last row that is the last one again."""
        w = self.w

        def one(t: Term) -> None:
            number = (begin + t).at_most(w.P - 1)
            line, x = number // w.W, number % w.W
            image, y = line // w.H, line % w.H
            at = image * w.image + (y * w.row + x * w.pixel)
            numbers = [at]
            if self.windows:
                above, before = w.top * w.tap_row, w.left * w.tap_pixel
                first = y * w.down - w.top, x * w.across - w.left
                numbers = [at - (above + before), *first]
            for i, value in enumerate(numbers):
                self.place(table, t, i).store(value)

        count_loop(self.lines, 0, w.block, one)

    def place(self, table: Term, t: Term, i: int = 0) -> Term:
        """Return the address of number i of what says where a row lies."""
        return table.of("i64").at(t * self.record + i)

    def row_of(self, table: Term, t: Term) -> Term:
        """Return the address of a row of B."""
        return self.w.B.at(self.place(table, t).load())

    def tap(self, panel: Term) -> tuple[Term, Term]:
        """Return row and column of the tap of a panel in its window."""
        number = panel // self.tap_panels
        return number // self.w.kW, number % self.w.kW

    def column(self, panel: Term) -> Term:
        """Return the first column of a panel in its tap."""
        return panel % self.tap_panels * self.panel

    def within_row(self, panel: Term) -> Term:
        """Return how far behind the begin of a row its part of a panel lies."""
        if not self.windows:
            return self.column(panel)
        down, across = self.tap(panel)
        return down * self.w.tap_row + across * self.w.tap_pixel + self.column(panel)

    def pack(self, panel: Term, table: Term, count: Term) -> None:
        """Write T for a panel; columns that are not there are 0, and taps outside of the image."""
        v, within, left = self.v, self.within_row(panel), self.w.K - self.column(panel)
        tap = self.tap(panel) if self.windows else None
        whole = self.masks(left)

        def one(t: Term) -> None:
            source = self.row_of(table, t).at(within)
            masks = whole if tap is None else self.masks(self.inside(table, t, tap, left))
            for half, mask in enumerate(masks):
                at = t * self.panel + half * v.count
                self.put(v.load(source, half * v.count, mask), self.T, at)

        count_loop(self.lines, 0, count, one)

    def masks(self, left: Term) -> list[Term]:
        """Return the lanes of the two vectors of a panel, of which so many columns are there."""
        return [lanes_below(self.v, left - half * self.v.count) for half in range(2)]

    def inside(self, table: Term, t: Term, tap: tuple[Term, Term], left: Term) -> Term:
        """Return how many columns of a panel are there: none if the tap lies outside of the image."""
        # Unsigned: a row above the image is too large.
        down = (self.place(table, t, 1).load() + tap[0]).below(self.w.image_H)
        across = (self.place(table, t, 2).load() + tap[1]).below(self.w.image_W)
        return (down & across).choose(left, 0)

    # -- what comes next -----------------------------------------------------------------------------------------------

    def expect_panel(self, turn: Term, table: Term, within: Term) -> None:
        """Ask for a part of the panel that is packed next, in one of as many turns as there are tiles."""

        def row(t: Term) -> None:
            start = self.row_of(table, t).at(within)
            for line in range(0, self.panel, LINE):
                start.prefetch(4 * line)

        self.each_of_turn(turn, self.tiles, row)

    def expect_rows(self, turn: Term, begin: Term) -> None:
        """Ask for a part of the rows of A of the next block, in one of as many turns as it has register tiles."""
        w = self.w
        start = w.A.at(begin * w.M)

        def row(t: Term) -> None:
            here = start.at(t * w.M)
            count_loop(self.lines, 0, w.M.pieces(LINE), lambda i: here.at(i * LINE).prefetch(0))

        self.each_of_turn(turn, self.panels * self.tiles, row)

    def each_of_turn(self, turn: Term, turns: Term, row: Callable[[Term], None]) -> None:
        """Run row(t) for a part of the rows of a block."""
        some = self.w.block.pieces(turns)
        first = turn * some
        count_loop(self.lines, first, self.w.block.at_most(first + some), row)

    # -- G and C -------------------------------------------------------------------------------------------------------

    def sums(self, panel: Term, m: Term) -> Term:
        """Return where the sums of a panel and columns m, m + 1 ... of A lie."""
        return self.G.at((panel * self.w.M + m) * self.panel)

    def tile(self, number: Term, panel: Term, rows: tuple[Term, Term], starts: Term) -> None:
        """Add the products of a block, from its first row and for so many, or begin with them."""
        m = number * self.columns
        A = self.w.A.at(rows[0] * self.w.M + m)
        G = self.sums(panel, m)
        work = partial(self.register_tile, A, G, rows[1])
        when(starts, partial(work, begin=True), partial(work, begin=False))

    def register_tile(self, A: Term, G: Term, count: Term, *, begin: bool) -> None:
        """Add the products of so many rows to two vectors for each of R columns of A."""

        # G[m][k] += A[t][m] * T[t][k] for each row t of the block: R columns m, two vectors k.
        def row(t: Term, sums: Sequence[Term]) -> Sequence[Term]:
            numbers, vectors = A.at(t * self.w.M), self.pair(self.T.at(t * self.panel))
            return self.add_outer(sums, (numbers.at(r) for r in range(self.columns)), vectors)

        self.add_to((G, 2 * self.columns), count, row, begin=begin)

    def join(self, line: Term) -> None:
        """Write a panel of a row of C: the sum over all threads."""
        v, w = self.v, self.w
        panel, m = line // w.M, line % w.M
        own = self.sums(panel, m)
        tap, column = panel // self.tap_panels, self.column(panel)
        row = (m * w.taps + tap) * w.K
        for half, mask in enumerate(self.masks(w.K - column)):
            total = self.over_threads(own, w.own, half * v.count)
            v.store(total, w.C, row + (column + half * v.count), mask)
