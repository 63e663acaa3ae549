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

from tazza.codegen.fields import Fields
from tazza.codegen.function import finished
from tazza.codegen.loop import carry_loop, count_loop, lanes_below, share, when
from tazza.codegen.term import Lines, Term
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
HELD = 272
"""Channels whose filters the first cache holds beside V: those of a panel, and those that were asked for early."""
PACE_BITS = 16
"""Of the fraction by which channels that are asked for follow those that are used."""


@dataclass(frozen=True)
class Turn:
    """One of those in which the tiles of a block read a panel of U.

    With channel c of it channel `begin` + c * `pace` is asked for; `behind` the panel, in floats, is what is read next.
    """

    is_first: Term
    begin: Term
    pace: Term
    behind: Term


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
        self.V = self.w.scratch.at(lines.who * self.w.scratch_floats)
        self.tiles_of_block = self.w.block_rows * code.rows
        self.groups = self.w.C.pieces(self.v.count)
        self.v_matrix = self.groups * self.tiles_of_block * self.v.count + GAP
        self.m_matrix = self.w.slice_panels * self.tiles_of_block * self.panel + GAP
        self.M = self.V.at(self.v_matrix * self.code.algorithm.a**2)

    def write(self) -> None:
        w, lines = self.w, self.lines
        # Items i = block * slices + slice: those of one block stand side by side.
        first, last = share(lines, w.tiles.pieces(self.tiles_of_block) * w.slices)

        def item(i: Term) -> None:
            # Tiles begin ... begin + count of the block, panels panel ... panel + some of the slice.
            begin = i // w.slices * self.tiles_of_block
            count = (w.tiles - begin).at_most(self.tiles_of_block)
            panel = i % w.slices * w.slice_panels
            some = (w.K.pieces(self.panel) - panel).at_most(w.slice_panels)
            # V of a block is written with the first of its slices that this thread has; for the others it is there.
            when(i.equals(first) | panel.equals(0), lambda: self.transform(begin, count))
            self.multiply(count, panel, some, [self.expected(i + 1, last), self.results(begin, count)])
            self.gather(begin, count, panel, some)

        count_loop(lines, first, last, item)

    def transform(self, begin: Term, count: Term) -> None:
        """Write V for tiles begin, begin + 1 ..."""
        w, plan = self.w, self.code.algorithm

        def tile(place: Term, image: Term, row: Term, column: Term) -> None:
            # d: a x a pixels of X that begin in the padding, so far above and left of the outputs; 0 beyond H x W.
            y, x = row - w.top, column - w.left
            edges = self.inside(y, plan.a, w.H), self.inside(x, plan.a, w.W)

            def keep(group: Term, number: int, value: Term) -> None:
                # x = number and c / L = group: V[x][c / L][place].
                within = (group * self.tiles_of_block + place) * self.v.count
                self.put(value, self.V, self.v_matrix * number + within)

            # B^T d B for each vector of channels.
            self.transform_tile(self.at(w.X, "x", image, y, x), "x", edges, w.C, plan.data, keep)

        # All tiles of the block, which lie m outputs apart.
        self.each_tile(begin, count, plan.m, tile)

    def expected(self, item: Term, last: Term) -> Expected:
        """Return the tiles that an item transforms: none from the last on, and where it is of the same block."""
        w, plan = self.w, self.code.algorithm
        begin = item // w.slices * self.tiles_of_block
        there = (item < last) & (item % w.slices).equals(0)
        count = (there.choose(w.tiles, begin) - begin).at_most(self.tiles_of_block)
        shared = plan.a - plan.m
        source = Source(w.X, "x", w.top - shared, w.left - shared)
        return Expected(begin, count, plan.m, (source,), plan.a**2)

    def results(self, begin: Term, count: Term) -> Expected:
        """Return the outputs of a block; none of them where other threads write a part of each pixel."""
        plan, some = self.code.algorithm, self.w.slices.equals(1).choose(count, 0)
        return Expected(begin, some, plan.m, (Source(self.w.Y, "y", write=True),), plan.a**2)

    def multiply(self, count: Term, panel: Term, panels: Term, expected: Sequence[Expected]) -> None:
        """Write M for the panels of a slice."""
        w, L, rows = self.w, self.v.count, self.code.rows
        u_panel = self.groups * L * self.panel
        # From the last panel of the slice to the first of the next matrix.
        apart = w.u_matrix - panels * u_panel
        blocks = count.pieces(rows)
        early, pace = self.early(blocks), self.lines.number(1 << PACE_BITS) // blocks

        # M[x] = V[x] U[x] for each of the a * a places x of a tile: the sum over c of their products at that place is
        # a product of matrices by itself (Algorithm 1 of Lavin and Gray, where x is a pair of indices).
        def matrix(x: Term) -> None:
            for one in expected:
                self.expect(one, x)
            U = w.U.at(x * w.u_matrix + panel * u_panel)
            V, M = self.V.at(x * self.v_matrix), self.M.at(x * self.m_matrix)

            # For each panel of the slice: U[x][panel], C x 2 L, is read by all tiles of the block.
            def columns(p: Term) -> None:
                filters = U.at(p * u_panel)
                behind = (p + 1).equals(panels).choose(apart, 0)

                # For each register tile: R tiles of V, R x C, give R x 2 L of M[x][panel].
                def block(r: Term) -> None:
                    tile = r * rows
                    target = M.at((p * self.tiles_of_block + tile) * self.panel)
                    turn = Turn(r.equals(0), r * self.groups * L // blocks + early, pace, behind)
                    self.register_tile(V.at(tile * L), filters, target, turn)

                count_loop(self.lines, 0, blocks, block)

            count_loop(self.lines, 0, panels, columns)

        count_loop(self.lines, 0, self.code.algorithm.a**2, matrix)

    def register_tile(self, V: Term, U: Term, M: Term, turn: Turn) -> None:
        """M = V @ U for R tiles and one panel: 2 R vectors of sums, that the loop over the channels carries."""
        v, L, rows = self.v, self.v.count, self.code.rows
        step = self.tiles_of_block * L

        # For each vector of L channels: V[x][c / L] has L numbers of a tile side by side, U[x][panel] L rows.
        def channels(group: Term, sums: Sequence[Term]) -> Sequence[Term]:
            found = list(sums)
            tiles, filters = V.at(group * step), U.at(group * (L * self.panel))
            coming = self.coming(U, group * L, turn)
            # For each channel c of the vector, its row of filters: two vectors of output channels, k and k + L.
            for c in range(L):
                for half in range(2):
                    coming.prefetch(4 * (c * self.panel + half * L))
                pair = self.pair(filters.at(c * self.panel))
                # M[r][k] += V[r][c] * U[c][k] for each of the R tiles.
                found = self.add_outer(found, [tiles.at(r * L + c) for r in range(rows)], pair)
            return found

        # The sum over c / L; channels beyond C are 0 in V and in U.
        sums = carry_loop(0, self.groups, [v.constant(0.0)] * (2 * rows), channels)
        # M[x][panel][tile + i / 2], half i % 2.
        for i, value in enumerate(sums):
            self.put(value, M, i * L)

    def early(self, turns: Term) -> Term:
        """Return how many channels before they are used filters are asked for, where tiles take so many turns.

        The first tiles that read a panel wait for memory, the others find it in a cache. So each asks for its part:
        what is read next comes while all of them compute.
        """
        depth = self.groups * self.v.count
        return (depth - depth // turns).at_most((HELD - depth).at_least(0))

    def coming(self, U: Term, c: Term, turn: Turn) -> Term:
        """Return where the filters lie that are asked for while those of channels c, c + 1 ... are used."""
        depth = self.groups * self.v.count
        least = turn.is_first.choose(c, 0)
        row = (turn.begin + (c * turn.pace).shifted_down(PACE_BITS)).at_least(least).at_most(depth) + AHEAD
        return U.at(row * self.panel + (row < depth).choose(0, turn.behind))

    def gather(self, begin: Term, count: Term, panel: Term, panels: Term) -> None:
        """Write Y for the panels of a slice."""
        w, v, plan = self.w, self.v, self.code.algorithm
        k_begin = panel * self.panel
        vectors = (w.K.at_most((panel + panels) * self.panel) - k_begin).pieces(v.count)

        def tile(place: Term, image: Term, row: Term, column: Term) -> None:
            # Outputs of the tile that there are: fewer than m x m at the lower and right edge.
            down, across = self.inside(row, plan.m, w.oH), self.inside(column, plan.m, w.oW)
            Y, *S = (self.at(start, "y", image, row, column) for start in (w.Y, *self.S))

            def lanes(i: Term) -> None:
                # For each vector of output channels k of the slice: half i % 2 of panel i / 2.
                k = k_begin + i * v.count
                some = lanes_below(v, w.K - k)
                masks = self.masks(down, across, some)
                within = i // 2 * self.tiles_of_block + place
                half = i % 2 * v.count
                source = within * self.panel + half
                # M of the tile, a x a: place x = y * a + x of M[x][panel][tile].
                products = [
                    [v.load(self.M, self.m_matrix * (y * plan.a + x) + source, None) for x in range(plan.a)]
                    for y in range(plan.a)
                ]
                # b[k], once for all outputs of the tile.
                bias = v.load(w.b, k, some) if self.code.bias else None
                # Y = epilogue(A^T M A + b): for each row y and column x of the m x m outputs.
                for y, line in enumerate(apply_twice(plan.inverse, products)):
                    for x, value in enumerate(line):
                        found = value if bias is None else value + bias
                        others = [v.load(self.pixel(s, y, x, "y"), k, masks[y][x]) for s in S]
                        found = finished(v, self.code.epilogue, found, others)
                        v.store(found, self.pixel(Y, y, x, "y"), k, masks[y][x])

            count_loop(self.lines, 0, vectors, lanes)

        self.each_tile(begin, count, plan.m, tile)
