"""The machine code of the gradient of filters by Winograd's algorithm, for channels-last images.

dW is itself a correlation: of X with dY as the filter. For tiles of m x m outputs and a x a inputs, with A^T, G and B^T
of F(r, m),

    V[x][c / L][tile][L] = B^T X B      Z[x][k / L][tile][L] = G dY G^T       for a block of tiles
    U[x][unit]          += V[x]^T Z[x]    summed over the tiles
    dW[k, c]             = A^T U A

There are two ways to share this. Each thread takes some of the tiles and has a U of its own; at the end they are added
up: nothing that a thread wrote is read by another before, since that is slow where they have no cache in common. Or,
where so many U would not stay in the caches, or a thread would have one block at most, the threads transform a block
together, wait for each other, and each adds up some k and c; of one block U never leaves the caches then.

U is kept as register tiles (units): ROWS channels c by 2 vectors of k. Units are taken in groups whose U stays in the
cache of a core, and those of a group are computed for one x after the other: what they read of V and Z is little then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tazza.codegen.fields import Fields
from tazza.codegen.loop import carry_loop, count_loop, lanes_below, share, when
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.writer import scatter
from tazza.data_class import dataclass
from tazza.engines.native.winograd.algorithm import Algorithm
from tazza.engines.native.winograd.transform import apply_twice
from tazza.engines.native.winograd.writer import TILES, Expected, ImageWriter, Source

ROWS = 8
"""Input channels of a register tile; it divides the lanes of a vector, or is divided by them."""
BLOCK = Fields(
    "N block w_k w_c w_y w_x thread_floats group v_matrix z_matrix u_matrix", addresses="X dY dW db", after=TILES
)
"""block: tiles of a block. w_k ... w_x: steps in dW, in elements. thread_floats: of scratch memory,
0 where threads share it. group: units of a group. v_matrix ... u_matrix: floats from one x to the next in V, in Z, and
in the U of a group."""


def unit_floats(lanes: int) -> int:
    """Return the floats of a unit."""
    return min(ROWS, lanes) * 2 * lanes


@dataclass(frozen=True)
class WeightsCode:
    """What tells the code of one kernel from that of another; `algorithm` is F(r, m).

    `alone`: each thread has tiles and sums of its own. There is a tile for each of them: the first begins the sums.
    """

    algorithm: Algorithm
    bias: bool
    alone: bool

    @property
    def description(self) -> str:
        """A text that only equal codes have."""
        return f"winograd weights {self.algorithm.m} {self.algorithm.r} {self.bias} {self.alone}"

    def write(self, lines: Lines) -> None:
        """Write the work of one thread."""
        _Writer(self, lines).write()


class _Writer(ImageWriter):
    """Writes one kernel; V, Z and U begin `thread_floats` later with each thread."""

    def __init__(self, code: WeightsCode, lines: Lines) -> None:
        super().__init__(lines, BLOCK)
        w, L = self.w, self.v.count
        self.code = code
        self.rows = min(ROWS, L)
        self.size = unit_floats(L)
        self.products = code.algorithm.a**2
        groups, vectors = w.C.pieces(L), w.K.pieces(self.panel)
        self.c_tiles = groups * (L // self.rows)
        self.units = self.c_tiles * vectors
        self.piece = w.block * L
        self.V = w.scratch.at(lines.who * w.thread_floats)
        self.Z = self.V.at(w.v_matrix * self.products)
        self.U = self.Z.at(w.z_matrix * self.products)

    def write(self) -> None:
        if self.code.alone:
            self.each_alone()
        else:
            self.all_together()
        if self.code.bias:
            self.bias()

    # -- blocks --------------------------------------------------------------------------------------------------------

    def each_alone(self) -> None:
        """Each thread takes some of the tiles and has sums of its own, which are added up at the end."""
        w, lines = self.w, self.lines
        start, end = share(lines, w.tiles)

        # For each block of the tiles [start, end) of this thread: V and Z of it, and U += V^T Z of all units.
        def block(i: Term) -> None:
            begin, count = self.tiles(i, start, end)
            self.transform(begin, 0, count)
            expected = self.expected(*self.tiles(i + 1, start, end), self.products)
            self.add_products((0, self.units), self.U, count, i.equals(0), expected)

        # The first block begins the sums, so U is not cleared before.
        count_loop(lines, 0, (end - start).pieces(w.block), block)
        self.wait()
        # Behind the last block of all: U = the sum over threads, dW = A^T U A, each thread for some units.
        count_loop(lines, *share(lines, self.units), self.join)

    def all_together(self) -> None:
        """All threads transform a block, and each has the sums of some of the units."""
        w, lines = self.w, self.lines
        blocks = w.tiles.pieces(w.block)
        one = blocks.equals(1)
        first, last = share(lines, self.units)
        start = first // w.group

        # For each block of all tiles: a thread transforms some of them, then all wait for V and Z.
        def block(i: Term) -> None:
            begin, count = self.tiles(i, 0, w.tiles)
            place, end = share(lines, count)
            self.transform(begin + place, place, end - place)
            self.wait()
            starts, ends = i.equals(0), i.equals(blocks - 1)

            # For each group that has units of this thread: U += V^T Z, over the tiles of the block.
            def group(number: Term) -> None:
                origin = number * w.group
                units = first.at_least(origin), last.at_most(origin + w.group)
                place = one.choose(lines.who, number)  # of one block: never needed again
                U = self.unit(self.U.at(place * (w.u_matrix * self.products)), units[0] - origin)
                self.add_products(units, U, count, starts)

                # Behind the last block: dW = A^T U A for each unit.
                def finish(unit: Term) -> None:
                    self.finish(unit, self.unit(U, unit - units[0]))

                when(ends, lambda: count_loop(lines, *units, finish))

            # Groups first / group ... last / group; then V and Z may be written anew.
            count_loop(lines, start, last.pieces(w.group), group)
            self.wait()

        count_loop(lines, 0, blocks, block)

    def tiles(self, block: Term, start: Number, end: Term) -> tuple[Term, Term]:
        """Return the first tile of a block, and the number of its tiles: none behind the last block."""
        begin = (start + block * self.w.block).at_most(end)
        return begin, (end - begin).at_most(self.w.block)

    def expected(self, begin: Term, count: Term, turns: Number) -> Expected:
        """Return what is read of the images for some tiles."""
        w, plan = self.w, self.code.algorithm
        shared = plan.a - plan.r
        x = Source(w.X, "x", w.top - shared, w.left - shared)
        return Expected(begin, count, plan.r, (x, Source(w.dY, "y")), turns)

    def unit(self, U: Term, number: Term) -> Term:
        """Return where the sums of a unit lie, from those of another on."""
        return U.at(number * self.size)

    def add_products(
        self, units: tuple[Number, Term], U: Term, count: Term, starts: Term, expected: Expected | None = None
    ) -> None:
        """Add the products of a block, or begin with them; ask for what is expected meanwhile."""
        work = partial(self.multiply, units, U, count, expected)
        when(starts, partial(work, begin=True), partial(work, begin=False))

    def join(self, unit: Term) -> None:
        """Add up the sums of all threads, and write dW."""
        v, U = self.v, self.unit(self.U, unit)
        vectors = self.size // v.count

        # For each vector of the unit, in each of the a * a matrices x: i = x * vectors + its place.
        def vector(i: Term) -> None:
            at = i // vectors * self.w.u_matrix + i % vectors * v.count
            # U[x] = sum over threads of U[x].
            self.put(self.over_threads(U, self.w.thread_floats, at), U, at)

        count_loop(self.lines, 0, self.products * vectors, vector)
        self.finish(unit, U)

    # -- the steps -----------------------------------------------------------------------------------------------------

    def transform(self, begin: Term, place: Number, count: Term) -> None:
        """Write V and Z for tiles begin, begin + 1 ..., at `place` and behind it."""
        w, plan, m = self.w, self.code.algorithm, self.code.algorithm.r

        # For each tile t = place + i of the block.
        def tile(i: Term, image: Term, row: Term, column: Term) -> None:
            where = (place + i) * self.v.count
            # X: a x a pixels from the padding on. V = B^T X B, for each vector of input channels.
            y, x = row - w.top, column - w.left
            edges = self.inside(y, plan.a, w.H), self.inside(x, plan.a, w.W)
            keep = self.keeper(self.V, w.v_matrix, where)
            self.transform_tile(self.at(w.X, "x", image, y, x), "x", edges, w.C, plan.data, keep)
            # dY: m x m pixels, the filter of this correlation. Z = G dY G^T, for each vector of output channels.
            edges = self.inside(row, m, w.oH), self.inside(column, m, w.oW)
            keep = self.keeper(self.Z, w.z_matrix, where)
            self.transform_tile(self.at(w.dY, "y", image, row, column), "y", edges, w.K, plan.filters, keep)

        self.each_tile(begin, count, m, tile)

    def keeper(self, pointer: Term, matrix: Term, where: Term) -> Callable[[Term, int, Term], None]:
        """Return what writes vectors of a tile, at `where` in its piece, to V or Z."""

        def keep(group: Term, number: int, value: Term) -> None:
            # x = number, c / L (or k / L) = group: V[x][c / L][tile].
            within = group * self.piece + where
            self.put(value, pointer, matrix * number + within)

        return keep

    def multiply(
        self, units: tuple[Number, Term], U: Term, count: Term, expected: Expected | None, *, begin: bool
    ) -> None:
        """Write the products of a block of tiles for some units, or add them."""

        # U[x] += V[x]^T Z[x] for each of the a * a places x of a tile, which are independent of each other.
        def matrix(x: Term) -> None:
            if expected is not None:
                self.expect(expected, x)
            V, Z, sums = self.V.at(x * self.w.v_matrix), self.Z.at(x * self.w.z_matrix), U.at(x * self.w.u_matrix)

            # For each unit: ROWS channels c by 2 L channels k.
            def tile(unit: Term) -> None:
                self.register_tile(unit, (V, Z), self.unit(sums, unit - units[0]), count, begin=begin)

            count_loop(self.lines, *units, tile)

        count_loop(self.lines, 0, self.products, matrix)

    def register_tile(self, unit: Term, sources: tuple[Term, Term], U: Term, count: Term, *, begin: bool) -> None:
        """Write the products of a block of tiles, or add them, for one unit and matrix."""
        v, L = self.v, self.v.count
        # Unit = k / (2 L) * c_tiles + c / ROWS.
        k, c = unit // self.c_tiles, unit % self.c_tiles
        group, part = c // (L // self.rows), c % (L // self.rows) * self.rows
        V = sources[0].at(group * self.piece + part)
        Z = [sources[1].at((k * 2 + half) * self.piece) for half in range(2)]

        # For each tile t of the block: U[c][k] += V[t][c] * Z[t][k].
        def add(t: Term, sums: Sequence[Term]) -> Sequence[Term]:
            tile = t * L
            pair = [v.load(one, tile, None) for one in Z]
            pixel = V.at(tile)
            # One number c of V with both vectors k of Z, for ROWS channels c.
            return self.add_outer(sums, (pixel.at(r) for r in range(self.rows)), pair)

        # U[x][unit]: ROWS channels c, each 2 vectors of k.
        self.add_to((U, 2 * self.rows), count, add, begin=begin)

    def finish(self, unit: Term, U: Term) -> None:
        """Write dW for one register tile of channels."""
        w, v, a = self.w, self.v, self.code.algorithm.a
        k = unit // self.c_tiles * self.panel
        c = unit % self.c_tiles * self.rows

        # For each channel c of the unit, and both vectors of k: dW[k, c] = A^T U A, r x r taps.
        def channel(r: Term) -> None:
            channel = c + r
            there = channel < w.C
            # For each of the two vectors of k.
            for half in range(2):
                start = k + half * v.count
                mask = lanes_below(v, there.choose(w.K - start, 0))
                within = r * 2 * v.count + half * v.count
                # U of c and k, a x a: place x = y * a + x.
                sums = [[v.load(U, within + self.w.u_matrix * (y * a + x), None) for x in range(a)] for y in range(a)]
                at = channel * w.w_c + start * w.w_k
                # Tap (y, x) goes to dW for L output channels, w_k apart.
                for y, line in enumerate(apply_twice(self.code.algorithm.inverse, sums)):
                    for x, value in enumerate(line):
                        scatter(v, value, w.dW.at(at + (w.w_y * y + w.w_x * x)), w.w_k, mask)

        count_loop(self.lines, 0, self.rows, channel)

    def bias(self) -> None:
        """db: each thread sums up some of the output channels."""
        w, v = self.w, self.v
        pixels = w.N * w.oH * w.oW

        # For each vector of k: db[k] = sum over images, rows and columns of dY[k]; pixels lie y_pixel apart.
        def channels(i: Term) -> None:
            k = i * v.count
            mask, dY = lanes_below(v, w.K - k), w.dY.at(k)

            def add(pixel: Term, sums: Sequence[Term]) -> Sequence[Term]:
                return [sums[0] + v.load(dY, pixel * w.y_pixel, mask)]

            v.store(carry_loop(0, pixels, [v.constant(0.0)], add)[0], w.db, k, mask)

        count_loop(self.lines, *share(self.lines, w.K.pieces(v.count)), channels)
