"""The machine code of the gradient of filters by Winograd's algorithm, for channels-last images.

dW is itself a correlation: of X with dY as the filter. For tiles of m x m outputs and a x a inputs, with A^T, G and B^T
of F(r, m),

    V[x][c / L][tile][L] = B^T X B      Z[x][k / L][tile][L] = G dY G^T       all threads, for a block of tiles
    U[k][c][x]          += V[x]^T Z[x]    summed over the tiles                 each thread some k and c
    dW[k, c]             = A^T U A                                              with the last block

Threads wait for each other between the steps. U is kept as register tiles: ROWS channels c by 2 vectors of k, all x of
which lie together. Where there is one block it never leaves the caches: each thread has the tiles of one k and c.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tazza.engines.jit.emit import Lines
from tazza.engines.jit.loop import carry_loop, count_loop, lanes_below, load, load_one, share, store
from tazza.engines.jit.rows import element, when
from tazza.engines.jit.writer import FLOAT, scatter
from tazza.engines.winograd.algorithm import Algorithm
from tazza.engines.winograd.transform import apply_twice
from tazza.engines.winograd.writer import GAP, Expected, ImageWriter, Source

ROWS = 8
"""Input channels of a register tile; it divides the lanes of a vector, or is divided by them."""
ADDRESSES = ("X", "dY", "dW", "db", "scratch")
WORDS = (
    "threads",
    *ADDRESSES,
    *("H", "W", "C", "oH", "oW", "K", "N"),
    *("top", "left", "tiles_down", "tiles_across", "tiles", "block"),
    *("x_image", "x_row", "x_pixel", "y_image", "y_row", "y_pixel"),
    *("w_k", "w_c", "w_y", "w_x"),
)
"""Names of the words; block: tiles of a block. w_k ... w_x: steps in dW, in elements."""


@dataclass(frozen=True)
class WeightsCode:
    """What tells the code of one kernel from that of another; `algorithm` is F(r, m)."""

    algorithm: Algorithm
    bias: bool

    @property
    def description(self) -> str:
        """A text that only equal codes have."""
        return f"winograd weights {self.algorithm.m} {self.algorithm.r} {self.bias}"

    def write(self, lines: Lines) -> None:
        """Write the work of one thread."""
        _Writer(self, lines).write()


class _Writer(ImageWriter):
    """Writes one kernel."""

    def __init__(self, code: WeightsCode, lines: Lines) -> None:
        super().__init__(lines, WORDS, ADDRESSES)
        w, L = self.w, self.v.count
        self.code = code
        self.rows = min(ROWS, L)
        self.size = 2 * self.rows * L
        self.products = code.algorithm.a**2
        groups, vectors = self.pieces(w["C"], L), self.pieces(w["K"], self.panel)
        self.c_tiles, self.k_tiles = self.mul(groups, L // self.rows), vectors
        self.piece = self.mul(w["block"], L)
        self.v_matrix = self.add(self.mul(groups, self.piece), GAP)
        self.z_matrix = self.add(self.mul(self.mul(vectors, 2), self.piece), GAP)
        self.V = w["scratch"]
        self.Z = element(lines, self.V, self.mul(self.v_matrix, self.products))
        self.U = element(lines, self.Z, self.mul(self.z_matrix, self.products))
        self.first, self.last = share(lines, self.mul(self.c_tiles, self.k_tiles))

    def write(self) -> None:
        w, lines = self.w, self.lines
        blocks = self.pieces(w["tiles"], w["block"])

        def block(i: str) -> None:
            count, begin, place, own = self.block(i)
            self.transform(begin, place, own)
            self.wait()
            expected = self.expected(self.add(i, 1))
            starts = lines.let(f"icmp eq i64 {i}, 0")
            ends = lines.let(f"icmp eq i64 {i}, {self.sub(blocks, 1)}")

            def unit(number: str) -> None:
                U = self.sums(number, blocks)
                work = partial(self.multiply, number, U, count, expected)
                when(lines, starts, work, partial(work, sums=U))
                when(lines, ends, lambda: self.finish(number, U))

            count_loop(lines, self.first, self.last, unit)
            self.wait()

        count_loop(lines, "0", blocks, block)
        if self.code.bias:
            self.bias()

    def block(self, number: str) -> tuple[str, str, str, str]:
        """Return how many tiles a block has; the first one of this thread, its place in the block, and how many."""
        begin = self.mul(number, self.w["block"])
        count = self.least(self.sub(self.w["tiles"], begin), self.w["block"])
        start, end = share(self.lines, count)
        return count, self.add(begin, start), start, self.sub(end, start)

    def expected(self, block: str) -> Expected:
        """Return what this thread transforms for a block; there may be none of that number."""
        w, plan = self.w, self.code.algorithm
        _, begin, _, count = self.block(block)
        shared = plan.a - plan.r
        x = Source(w["X"], "x", self.sub(w["top"], shared), self.sub(w["left"], shared))
        turns = self.mul(self.sub(self.last, self.first), self.products)
        return Expected(begin, count, plan.r, (x, Source(w["dY"], "y")), turns)

    def sums(self, unit: str, blocks: str) -> str:
        """Return where the sums of a register tile lie: in a place of the thread where nobody needs them later."""
        one = self.lines.let(f"icmp eq i64 {blocks}, 1")
        place = self.lines.let(f"select i1 {one}, i64 %who, i64 {unit}")
        return element(self.lines, self.U, self.mul(place, self.products * self.size))

    def transform(self, begin: str, place: str, count: str) -> None:
        """Write V and Z for tiles begin, begin + 1 ..., at `place` and behind it."""
        w, plan = self.w, self.code.algorithm
        m = plan.r

        def tile(i: str, image: str, row: str, column: str) -> None:
            where = self.mul(self.add(place, i), self.v.count)

            y, x = self.sub(row, w["top"]), self.sub(column, w["left"])
            edges = self.inside(y, plan.a, w["H"]), self.inside(x, plan.a, w["W"])
            keep = self.keeper(self.V, self.v_matrix, where)
            self.transform_tile(self.at(w["X"], "x", image, y, x), "x", edges, w["C"], plan.data, keep)
            edges = self.inside(row, m, w["oH"]), self.inside(column, m, w["oW"])
            keep = self.keeper(self.Z, self.z_matrix, where)
            self.transform_tile(self.at(w["dY"], "y", image, row, column), "y", edges, w["K"], plan.filters, keep)

        self.each_tile(begin, count, m, tile)

    def keeper(self, pointer: str, matrix: str, where: str) -> Callable[[str, int, str], None]:
        """Return what writes vectors of a tile, at `where` in its piece, to V or Z."""

        def keep(group: str, number: int, value: str) -> None:
            within = self.add(self.mul(group, self.piece), where)
            self.put(value, pointer, self.add(self.mul(matrix, number), within))

        return keep

    def multiply(self, unit: str, U: str, count: str, expected: Expected, sums: str | None = None) -> None:
        """Write the products of a block of tiles, added to `sums` if given, for all matrices of a register tile."""
        v, L = self.v, self.v.count
        k, c = self.div(unit, self.c_tiles), self.rem(unit, self.c_tiles)
        group, part = self.div(c, L // self.rows), self.mul(self.rem(c, L // self.rows), self.rows)
        first = element(self.lines, self.V, self.add(self.mul(group, self.piece), part))
        seconds = [
            element(self.lines, self.Z, self.mul(self.add(self.mul(k, 2), half), self.piece)) for half in range(2)
        ]

        turn = self.mul(self.sub(unit, self.first), self.products)

        def matrix(number: str) -> None:
            self.expect(expected, self.add(turn, number))
            V = element(self.lines, first, self.mul(number, self.v_matrix))
            Z = [element(self.lines, second, self.mul(number, self.z_matrix)) for second in seconds]
            at = self.mul(number, self.size)

            def add(t: str, sums: Sequence[str]) -> Sequence[str]:
                tile = self.mul(t, L)
                pair = [load(v, FLOAT, one, tile, None) for one in Z]
                pixel = element(self.lines, V, tile)
                found: list[str] = []
                for r in range(self.rows):
                    one = load_one(v, FLOAT, element(self.lines, pixel, str(r)))
                    found += [v.fma(one, vector, sums[2 * r + half]) for half, vector in enumerate(pair)]
                return found

            places = [self.add(at, i * L) for i in range(2 * self.rows)]
            starts = [v.constant(0.0) if sums is None else load(v, FLOAT, sums, place, None) for place in places]
            for place, value in zip(places, carry_loop(v, "0", count, starts, add), strict=True):
                self.put(value, U, place)

        count_loop(self.lines, "0", str(self.products), matrix)

    def finish(self, unit: str, U: str) -> None:
        """Write dW for one register tile of channels."""
        w, v, a = self.w, self.v, self.code.algorithm.a
        k = self.mul(self.div(unit, self.c_tiles), self.panel)
        c = self.mul(self.rem(unit, self.c_tiles), self.rows)

        def channel(r: str) -> None:
            channel = self.add(c, r)
            there = self.lines.let(f"icmp slt i64 {channel}, {w['C']}")
            for half in range(2):
                start = self.add(k, half * v.count)
                left = self.lines.let(f"select i1 {there}, i64 {self.sub(w['K'], start)}, i64 0")
                mask = lanes_below(v, left)
                within = self.add(self.mul(self.mul(r, 2), v.count), half * v.count)
                sums = [
                    [load(v, FLOAT, U, self.add(within, (y * a + x) * self.size), None) for x in range(a)]
                    for y in range(a)
                ]
                at = self.add(self.mul(channel, w["w_c"]), self.mul(start, w["w_k"]))
                for y, line in enumerate(apply_twice(v, self.code.algorithm.inverse, sums)):
                    for x, value in enumerate(line):
                        tap = self.add(self.mul(w["w_y"], y), self.mul(w["w_x"], x))
                        scatter(v, value, element(self.lines, w["dW"], self.add(at, tap)), w["w_k"], mask)

        count_loop(self.lines, "0", str(self.rows), channel)

    def bias(self) -> None:
        """db: each thread sums up some of the output channels."""
        w, v, lines = self.w, self.v, self.lines
        first, last = share(lines, self.pieces(w["K"], v.count))
        pixels = self.mul(self.mul(w["N"], w["oH"]), w["oW"])

        def channels(i: str) -> None:
            k = self.mul(i, v.count)
            mask = lanes_below(v, self.sub(w["K"], k))
            dY = element(lines, w["dY"], k)

            def add(pixel: str, sums: Sequence[str]) -> Sequence[str]:
                return [v.add(sums[0], load(v, FLOAT, dY, self.mul(pixel, w["y_pixel"]), mask))]

            store(v, FLOAT, carry_loop(v, "0", pixels, [v.constant(0.0)], add)[0], w["db"], k, mask)

        count_loop(lines, first, last, channels)
