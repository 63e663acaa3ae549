"""The machine code of a convolution by Winograd's algorithm, for channels-last images.

Letters: N images of H x W with C channels give oH x oW with K channels; tiles of m x m outputs, T of them in all, each
made from a x a inputs (a = m + r - 1). Channels come in vectors of L lanes, and outputs in panels of 2 L.

Threads share items: a block of B tiles (rows * R) and a slice of the panels. For each item a thread, alone,

    V[x][c / L][tile][L]      = B^T d B      a * a matrices (x) of one block, zero beyond C
    M[x][panel][tile][2 L]    = V[x] U[x]    by a register tile of R tiles x 2 vectors
    Y                         = epilogue(A^T M A + b)

with U[x][panel][c][2 L], the filters, and a gap behind each of these matrices. V and M stay in the cache of the core;
no thread waits for another.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.loop import carry_loop, count_loop, lanes_below, share
from tazza.codegen.rows import element, when
from tazza.codegen.vector import finished
from tazza.data_class import dataclass
from tazza.engines.native.winograd.algorithm import Algorithm
from tazza.engines.native.winograd.transform import apply_twice
from tazza.engines.native.winograd.writer import GAP, TILES, Expected, ImageWriter, Source
from tazza.operator import Expression

BLOCK = Fields("block_rows slice_panels slices u_matrix scratch_floats", addresses="X U b Y", after=TILES)
"""Behind them stand the addresses of S.

block_rows: register tiles in a block. slice_panels, slices:
panels in a slice, and slices. u_matrix: floats from one matrix of U to the next. scratch_floats: of one thread.
"""


AHEAD = 32
"""Channels ahead for which filters are asked for: the time that memory takes to answer."""


@dataclass(frozen=True)
class Code:
    """What tells the code of one kernel from that of another."""

    algorithm: Algorithm
    rows: int
    bias: bool
    epilogue: Expression | None
    operands: int

    @property
    def description(self) -> str:
        """A text that only equal codes have."""
        after = "" if self.epilogue is None else self.epilogue.text()
        return f"winograd {self.algorithm.m} {self.algorithm.r} {self.rows} {self.bias} {self.operands} {after}"

    def write(self, lines: Lines) -> None:
        """Write the work of one thread."""
        _Writer(self, lines).write()


class _Writer(ImageWriter):
    """Writes one kernel."""

    def __init__(self, code: Code, lines: Lines) -> None:
        super().__init__(lines, BLOCK)
        self.code = code
        self.S = self.tail.take(code.operands, "ptr")
        self.V = element(lines, self.w.scratch, self.mul("%who", self.w.scratch_floats))
        self.tiles_of_block = self.mul(self.w.block_rows, code.rows)
        self.groups = self.pieces(self.w.C, self.v.count)
        self.v_matrix = self.add(self.mul(self.mul(self.groups, self.tiles_of_block), self.v.count), GAP)
        self.m_matrix = self.add(self.mul(self.mul(self.w.slice_panels, self.tiles_of_block), self.panel), GAP)
        self.M = element(lines, self.V, self.mul(self.v_matrix, self.code.algorithm.a**2))

    def write(self) -> None:
        w, lines = self.w, self.lines
        blocks = self.pieces(w.tiles, self.tiles_of_block)
        # Items i = block * slices + slice: those of one block stand side by side.
        first, last = share(lines, self.mul(blocks, w.slices))

        def item(i: str) -> None:
            # Tiles begin ... begin + count of the block, panels panel ... panel + some of the slice.
            begin = self.mul(self.div(i, w.slices), self.tiles_of_block)
            count = self.least(self.sub(w.tiles, begin), self.tiles_of_block)
            panel = self.mul(self.rem(i, w.slices), w.slice_panels)
            some = self.least(self.sub(self.pieces(w.K, self.panel), panel), w.slice_panels)
            # V of a block is written with the first of its slices that this thread has; for the others it is there.
            begins = lines.let(f"icmp eq i64 {i}, {first}")
            anew = lines.let(f"icmp eq i64 {panel}, 0")
            when(lines, lines.let(f"or i1 {begins}, {anew}"), lambda: self.transform(begin, count))
            self.multiply(count, panel, some, [self.expected(self.add(i, 1), last), self.results(begin, count)])
            self.gather(begin, count, panel, some)

        count_loop(lines, first, last, item)

    def transform(self, begin: str, count: str) -> None:
        """Write V for tiles begin, begin + 1 ..."""
        w, plan = self.w, self.code.algorithm

        def tile(place: str, image: str, row: str, column: str) -> None:
            # d: a x a pixels of X that begin in the padding, so far above and left of the outputs; 0 beyond H x W.
            y, x = self.sub(row, w.top), self.sub(column, w.left)
            edges = self.inside(y, plan.a, w.H), self.inside(x, plan.a, w.W)

            def keep(group: str, number: int, value: str) -> None:
                # x = number and c / L = group: V[x][c / L][place].
                within = self.mul(self.add(self.mul(group, self.tiles_of_block), place), self.v.count)
                self.put(value, self.V, self.add(self.mul(self.v_matrix, number), within))

            # B^T d B for each vector of channels.
            self.transform_tile(self.at(w.X, "x", image, y, x), "x", edges, w.C, plan.data, keep)

        # All tiles of the block, which lie m outputs apart.
        self.each_tile(begin, count, plan.m, tile)

    def expected(self, item: str, last: str) -> Expected:
        """Return the tiles that an item transforms: none from the last on, and where it is of the same block."""
        w, plan = self.w, self.code.algorithm
        begin = self.mul(self.div(item, w.slices), self.tiles_of_block)
        follows = self.lines.let(f"icmp slt i64 {item}, {last}")
        begins = self.lines.let(f"icmp eq i64 {self.rem(item, w.slices)}, 0")
        there = self.lines.let(f"and i1 {follows}, {begins}")
        end = self.lines.let(f"select i1 {there}, i64 {w.tiles}, i64 {begin}")
        count = self.least(self.sub(end, begin), self.tiles_of_block)
        shared = plan.a - plan.m
        source = Source(w.X, "x", self.sub(w.top, shared), self.sub(w.left, shared))
        return Expected(begin, count, plan.m, (source,), str(plan.a**2))

    def results(self, begin: str, count: str) -> Expected:
        """Return the outputs of a block; none of them where other threads write a part of each pixel."""
        alone = self.lines.let(f"icmp eq i64 {self.w.slices}, 1")
        some = self.lines.let(f"select i1 {alone}, i64 {count}, i64 0")
        plan = self.code.algorithm
        return Expected(begin, some, plan.m, (Source(self.w.Y, "y", write=True),), str(plan.a**2))

    def multiply(self, count: str, panel: str, panels: str, expected: Sequence[Expected]) -> None:
        """Write M for the panels of a slice."""
        w, L, rows = self.w, self.v.count, self.code.rows
        depth = self.mul(self.groups, L)
        u_panel = self.mul(depth, self.panel)
        blocks = self.pieces(count, rows)

        # M[x] = V[x] U[x] for each of the a * a places x of a tile: the sum over c of their products at that place is
        # a product of matrices by itself (Algorithm 1 of Lavin and Gray, where x is a pair of indices).
        def matrix(x: str) -> None:
            for one in expected:
                self.expect(one, x)
            U = element(self.lines, w.U, self.add(self.mul(x, w.u_matrix), self.mul(panel, u_panel)))
            V = element(self.lines, self.V, self.mul(x, self.v_matrix))
            M = element(self.lines, self.M, self.mul(x, self.m_matrix))

            # For each panel of the slice: U[x][panel], C x 2 L, is read by all tiles of the block.
            def columns(p: str) -> None:
                filters = element(self.lines, U, self.mul(p, u_panel))

                # For each register tile: R tiles of V, R x C, give R x 2 L of M[x][panel].
                def block(r: str) -> None:
                    tile = self.mul(r, rows)
                    target = element(
                        self.lines, M, self.mul(self.add(self.mul(p, self.tiles_of_block), tile), self.panel)
                    )
                    self.register_tile(element(self.lines, V, self.mul(tile, L)), filters, target)

                count_loop(self.lines, "0", blocks, block)

            count_loop(self.lines, "0", panels, columns)

        count_loop(self.lines, "0", str(self.code.algorithm.a**2), matrix)

    def register_tile(self, V: str, U: str, M: str) -> None:
        """M = V @ U for R tiles and one panel: 2 R vectors of sums, that the loop over the channels carries."""
        v, L, rows = self.v, self.v.count, self.code.rows
        step = self.mul(self.tiles_of_block, L)

        # For each vector of L channels: V[x][c / L] has L numbers of a tile side by side, U[x][panel] L rows.
        def channels(group: str, sums: Sequence[str]) -> Sequence[str]:
            found = list(sums)
            tiles = element(self.lines, V, self.mul(group, step))
            filters = element(self.lines, U, self.mul(group, L * self.panel))
            # For each channel c of the vector, its row of filters: two vectors of output channels, k and k + L.
            for c in range(L):
                for half in range(2):
                    self.lines.prefetch(filters, 4 * ((c + AHEAD) * self.panel + half * L))
                pair = self.pair(element(self.lines, filters, str(c * self.panel)))
                # M[r][k] += V[r][c] * U[c][k] for each of the R tiles.
                numbers = [element(self.lines, tiles, str(r * L + c)) for r in range(rows)]
                found = self.add_outer(found, numbers, pair)
            return found

        # The sum over c / L; channels beyond C are 0 in V and in U.
        sums = carry_loop(v, "0", self.groups, [v.constant(0.0)] * (2 * rows), channels)
        # M[x][panel][tile + i / 2], half i % 2.
        for i, value in enumerate(sums):
            v.store(value, M, str(i * L), None)

    def gather(self, begin: str, count: str, panel: str, panels: str) -> None:
        """Write Y for the panels of a slice."""
        w, v, plan = self.w, self.v, self.code.algorithm
        k_begin = self.mul(panel, self.panel)
        k_end = self.least(w.K, self.mul(self.add(panel, panels), self.panel))
        vectors = self.pieces(self.sub(k_end, k_begin), v.count)

        def tile(place: str, image: str, row: str, column: str) -> None:
            # Outputs of the tile that there are: fewer than m x m at the lower and right edge.
            down = self.inside(row, plan.m, w.oH)
            across = self.inside(column, plan.m, w.oW)
            Y, *S = (self.at(start, "y", image, row, column) for start in (w.Y, *self.S))

            def lanes(i: str) -> None:
                # For each vector of output channels k of the slice: half i % 2 of panel i / 2.
                k = self.add(k_begin, self.mul(i, v.count))
                some = lanes_below(v, self.sub(w.K, k))
                masks = self.masks(down, across, some)
                within = self.add(self.mul(self.div(i, 2), self.tiles_of_block), place)
                half = self.mul(self.rem(i, 2), v.count)
                source = self.add(self.mul(within, self.panel), half)
                # M of the tile, a x a: place x = y * a + x of M[x][panel][tile].
                products = [
                    [
                        v.load(self.M, self.add(self.mul(self.m_matrix, y * plan.a + x), source), None)
                        for x in range(plan.a)
                    ]
                    for y in range(plan.a)
                ]
                # b[k], once for all outputs of the tile.
                bias = v.load(w.b, k, some) if self.code.bias else None
                # Y = epilogue(A^T M A + b): for each row y and column x of the m x m outputs.
                for y, line in enumerate(apply_twice(v, plan.inverse, products)):
                    for x, value in enumerate(line):
                        found = value if bias is None else v.add(value, bias)
                        others = [v.load(self.pixel(s, y, x, "y"), k, masks[y][x]) for s in S]
                        v.store(
                            finished(self.v, self.code.epilogue, found, others),
                            self.pixel(Y, y, x, "y"),
                            k,
                            masks[y][x],
                        )

            count_loop(self.lines, "0", vectors, lanes)

        self.each_tile(begin, count, plan.m, tile)
