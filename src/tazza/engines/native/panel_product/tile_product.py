"""Products in panels by tile registers, where the processor has them: float32 numbers in three pieces of bfloat16.

Each product of two pieces is exact in float32, and sums of 32 of them are rounded apart, so that the result is as near
as that of sums in float32, at three times their rate. Panels hold pieces; rows are split by each thread for itself, a
block of them for some chunks of k at a time, as many as stay in the cache of a core:

    A[rows / 16][k / 32][piece][16][32]

Sums of a tile of 32 rows and a panel stay in registers for a chunk. Where there are several, those of a whole block
wait for the next pass over the panels. Chunks are summed up apart, which keeps sums small that are rounded often.

Sums that are not finite are computed anew in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, product
from operator import itemgetter
from typing import Protocol

from tazza.codegen.loop import carry_loop, count_loop, lanes_below
from tazza.codegen.term import Number, Term
from tazza.codegen.tiles import (
    DEPTH,
    PIECES,
    PRODUCTS,
    ROW_BYTES,
    ROWS,
    TILE_BYTES,
    Tiles,
    halves,
    is_special,
    paired,
    pieces,
    transposed,
)
from tazza.codegen.writer import Writer
from tazza.data_class import dataclass
from tazza.engines.native.panel_product.taking import Taking
from tazza.runtime.tile_registers import tile_registers

VECTORS = 2
"""Of a panel."""
TALL = 2 * ROWS
"""Rows that are computed together: their sums fill half of the registers, what is multiplied the other half."""
A, B = 2 * VECTORS, 2 * VECTORS + 2
"""Registers of what is multiplied, behind those of the sums."""
STEP_BYTES, PANEL_STEP_BYTES = PIECES * TILE_BYTES, PIECES * VECTORS * TILE_BYTES
"""Pieces of 32 numbers of 16 rows, and of a panel."""
WIDTH = VECTORS * ROW_BYTES
SUMS_BYTES = TALL * WIDTH
ASKED = 2
"""Rows that are asked for with 32 k."""
LEAST_ROWS, LEAST_SHARE = 24, 0.78
"""Fewer rows are multiplied in half a tile, and registers that are less full compute too much."""


def tiled(rows: int, vectors: int, K: int) -> bool:
    """Whether tile registers compute products of so many rows with panels of so many vectors, and faster."""
    filled = rows / (-(-rows // ROWS) * ROWS)
    worth = rows > LEAST_ROWS and filled >= LEAST_SHARE
    return worth and vectors == VECTORS and K % DEPTH == 0 and tile_registers()


class Sums(Protocol):
    """What becomes of sums."""

    def put(self, panel: Term, rows: Sequence[Term], sums: Sequence[Sequence[Term]]) -> None:
        """Take the sums of some rows, of each a vector for each of the panel."""
        ...

    def asked(self, panel: Term, row: Term) -> Sequence[tuple[Term, bool]]:
        """Return where that lies which is asked for early: what `put` and `end` read of a row, and write (True)."""
        ...

    def end(self, panel: Term, first: Term, height: Number) -> None:
        """Go on with so many rows: those panels are done that hold the same rows of all parts, `panel` is the first."""
        ...


RowSums = Callable[[Term, Term, Term], None]
"""Takes sums of 16 rows over some k: the first row, a vector, and whether there were others before."""


@dataclass(frozen=True)
class _Part:
    """What is computed at a time: rows of a block, chunks of k, their steps of 32 k, and 1 if they are the last ones.

    Chunks end before `chunks_end`, and so on.
    """

    begin: Term
    behind: Term
    chunk: Term
    chunks_end: Term
    first: Term
    last: Term
    ends: Term


@dataclass(frozen=True)
class _Tile:
    """Some rows: the first, the one behind the last, how many registers they fill, where pieces and sums lie."""

    first: Term
    behind: Term
    heights: int
    pieces: Term
    sums: Term


class TileProduct:
    """Writes the products of one kernel, whose words say where the room of all threads lies.

    `turned`: X lies with its rows as columns, (K, N).
    """

    def __init__(self, writer: Writer, *, turned: bool = False) -> None:
        """Find the room of this thread."""
        self.writer, self.turned = writer, turned
        self.tiles = Tiles(writer.lines)
        lines, w = writer.lines, writer.w
        self.room = w.room.at(lines.who * w.room_bytes)
        self.steps = w.K // DEPTH
        most = self.steps.pieces(w.chunks) * w.chunks.pieces(w.passes)
        self.row_bytes = most * STEP_BYTES
        self.A = self.room.at(w.sums_bytes)
        self.several, self.kept = ((count > 1).to_unsigned("i64") for count in (w.chunks, w.passes))

    def _border(self, chunk: Term) -> Term:
        """Return the first step of a chunk."""
        return self.steps * chunk // self.writer.w.chunks

    def each_panel(self, target: Sums, turn: Number, row_sums: RowSums | None = None) -> None:
        """Write the work of one thread: see `PanelWriter.each_panel`.

        Args:
            target: what becomes of the sums.
            turn: a number; where it is odd, it begins at the last panel.
            row_sums: what becomes of the sums of rows of X, where it is turned.
        """
        writer, w, lines = self.writer, self.writer.w, self.writer.lines
        groups, by_rows = w.panels // w.parts, w.by_rows.differs(0)
        by_panels = ~by_rows
        # Sums that wait for the next pass are the thread's own.
        panels_shared = by_panels & (w.blocks * w.passes).equals(1)
        of_blocks, of_panels = Taking(writer, w.taken), Taking(writer, w.taken)
        tall = w.N.pieces(TALL)
        self.tiles.begin(w.shape)

        def one_pass(number: Term, block: Term) -> None:
            rows = [(tall * b // w.blocks * TALL).at_most(w.N) for b in (block, block + 1)]
            chunks = [w.chunks * p // w.passes for p in (number, number + 1)]
            ends = chunks[1].equals(w.chunks).to_unsigned("i64")
            steps = [self._border(chunk) for chunk in chunks]
            part = _Part(rows[0], rows[1], chunks[0], chunks[1], steps[0], steps[1], ends)
            self._split_turned(part, row_sums) if self.turned else self._split(part)
            back = (block + number + turn).to("i1")
            of_panels.each(groups, (by_rows, panels_shared), back, lambda i, n: self._group(i, n, part, target))

        def each_pass(block: Term, _: Term) -> None:
            count_loop(lines, 0, w.passes, partial(one_pass, block=block))

        of_blocks.each(w.blocks, (by_panels, by_rows), lines.number(False, "i1"), each_pass)
        self.tiles.end()

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _put_pieces(self, low: Term, high: Term, there: Term) -> None:
        """Write the pieces of two vectors of a row, k apart by 16, into the first tile of those of a step."""
        v = self.writer.v
        for piece, both in enumerate(zip(pieces(v, low), pieces(v, high), strict=True)):
            words = paired(*both)
            there.at(piece * TILE_BYTES).of(v.integer).store(words, 4)

    def _split(self, part: _Part) -> None:
        """Write the pieces of some rows into the room, tile by tile; the last row again where they fill none."""
        w, lines, v = self.writer.w, self.writer.lines, self.writer.v

        def some(group: Term) -> None:
            first = part.begin + group * ROWS
            start = self.A.at(group * self.row_bytes)

            def step(s: Term) -> None:
                there = start.at((s - part.first) * STEP_BYTES)

                def row(r: Term) -> None:
                    n = (first + r).at_most(part.behind - 1)
                    k = n * w.K + s * DEPTH
                    low, high = (v.load(w.X, k + half * v.count, None) for half in range(2))
                    self._put_pieces(low, high, there.at(r * ROW_BYTES))

                count_loop(lines, 0, ROWS, row)

            count_loop(lines, part.first, part.last, step)

        count_loop(lines, 0, (part.behind - part.begin).pieces(ROWS), some)

    def _split_turned(self, part: _Part, row_sums: RowSums | None) -> None:
        """Write the same of rows that lie as columns, 16 at a time: those are read that lie side by side."""
        w, lines, v = self.writer.w, self.writer.lines, self.writer.v

        def step(s: Term) -> None:
            def some(group: Term) -> None:
                first = part.begin + group * ROWS
                mask = lanes_below(v, part.behind - first)
                X = w.X.at(first)
                total, both = v.constant(0.0), list[list[Term]]()
                for half in range(2):
                    k = s * DEPTH + half * v.count
                    columns = [v.load(X, (k + i) * w.N, mask) for i in range(v.count)]
                    total = sum(columns, total)
                    both.append(transposed(v, columns))
                place = (s - part.first) * STEP_BYTES
                there = self.A.at(group * self.row_bytes + place)
                for r, (low, high) in enumerate(zip(*both, strict=True)):
                    self._put_pieces(low, high, there.at(r * ROW_BYTES))
                if row_sums is not None:
                    row_sums(first, total, s > 0)

            count_loop(lines, 0, (part.behind - part.begin).pieces(ROWS), some)

        count_loop(lines, part.first, part.last, step)

    # -- products ------------------------------------------------------------------------------------------------------

    def _group(self, group: Term, number: Term, part: _Part, target: Sums) -> None:
        """Write the tiles of a block for all panels of a group, which is that one of the thread's."""
        w, lines = self.writer.w, self.writer.lines
        count = (part.behind - part.begin).pieces(ROWS)
        pairs, first = count // 2, group * w.parts

        def each(i: Term) -> None:
            panel = first + i
            kept = (number * w.parts + i) * w.tiles
            P = w.P.of("i8").at(panel * self.steps * PANEL_STEP_BYTES)

            def tile(t: Term, *, heights: int) -> None:
                begin = part.begin + t * TALL
                behind = (begin + heights * ROWS).at_most(part.behind)
                found = self.A.at(t * self.row_bytes * 2)
                sums = self.room.at(((kept + t) * self.kept + self.several) * SUMS_BYTES)
                self._tile(_Tile(begin, behind, heights, found, sums), part, P, (panel, target))

            count_loop(lines, 0, pairs, partial(tile, heights=2))
            count_loop(lines, pairs, count - pairs, partial(tile, heights=1))

        count_loop(lines, 0, w.parts, each)
        height = part.behind - part.begin
        count_loop(lines, 0, part.ends, lambda _: target.end(first, part.begin, height))

    def _tile(self, tile: _Tile, part: _Part, P: Term, goes: tuple[Term, Sums]) -> None:
        """Write what chunks add to the sums of one tile; behind the last one they are given away.

        Each row goes to a place that is far from the one before, and asked for meanwhile.
        """
        tiles, lines, (panel, target) = self.tiles, self.writer.lines, goes
        sums = [(r, j, VECTORS * r + j) for r in range(tile.heights) for j in range(VECTORS)]
        asks = part.ends.to("i1")

        def step(s: Term) -> None:
            number = s - part.first
            a = tile.pieces.at(number * STEP_BYTES)
            for i in range(ASKED):
                row = tile.first + (number * ASKED + i)
                for there, write in target.asked(panel, row.at_most(tile.behind - 1)):
                    wanted = asks.choose(there, a)
                    for j in range(VECTORS):
                        wanted.prefetch(j * ROW_BYTES, write=write)
            self._multiply(tile.heights, (a, a.at(self.row_bytes)), P.at(s * PANEL_STEP_BYTES))

        def chunk(number: Term) -> None:
            for _, _, register in sums:
                tiles.zero(register)
            count_loop(lines, self._border(number), self._border(number + 1), step)
            others = number > 0
            there = others.choose(self.room, tile.sums)
            for r, j, register in sums:
                tiles.store(register, there.at(r * ROWS * WIDTH + j * ROW_BYTES), WIDTH)
            count_loop(lines, 0, others.to_unsigned("i64"), lambda _: self._add(tile))

        count_loop(lines, part.chunk, part.chunks_end, chunk)
        count_loop(lines, 0, part.ends, lambda _: self._put(P, tile, partial(target.put, panel)))

    def _add(self, tile: _Tile) -> None:
        """Add the sums of a chunk to those that wait."""
        v = self.writer.v

        def vector(i: Term) -> None:
            at = i * v.count
            before, more = (v.load(pointer, at, None) for pointer in (tile.sums, self.room))
            self.writer.put(before + more, tile.sums, at)

        count_loop(self.writer.lines, 0, tile.heights * ROWS * VECTORS, vector)

    def _multiply(self, heights: int, rows: Sequence[Term], panel: Term) -> None:
        """Write the products of 32 k: of each two pieces in turn, of which one is another than before.

        A register is loaded anew as soon as nothing needs it any more, while others are multiplied still.
        """
        tiles = self.tiles

        def load_rows(r: int, pair: tuple[int, int]) -> None:
            tiles.load(A + r, rows[r].at(pair[0] * TILE_BYTES))

        def load_panel(j: int, pair: tuple[int, int]) -> None:
            tiles.load(B + j, panel.at((VECTORS * pair[1] + j) * TILE_BYTES))

        for r in range(heights):
            load_rows(r, PRODUCTS[0])
        for j in range(VECTORS):
            load_panel(j, PRODUCTS[0])
        for pair, following in pairwise((*PRODUCTS, PRODUCTS[-1])):
            by_rows = following[0] != pair[0]
            for r, j in sorted(product(range(heights), range(VECTORS)), key=None if by_rows else itemgetter(1)):
                tiles.multiply(VECTORS * r + j, A + r, B + j)
                if following is not pair and (j + 1 == VECTORS if by_rows else r + 1 == heights):
                    load_rows(r, following) if by_rows else load_panel(j, following)

    def _put(self, P: Term, tile: _Tile, put: Callable[[Sequence[Term], Sequence[Sequence[Term]]], None]) -> None:
        """Give the sums of a tile away, row by row."""
        writer, v = self.writer, self.writer.v

        def row(n: Term) -> None:
            at = (n - tile.first) * (VECTORS * v.count)
            found: list[Term] = []
            for j in range(VECTORS):
                value = v.load(tile.sums, at + j * v.count, None)
                found.append(is_special(value).rarely(partial(self._anew, P, n, j), value))
            put([n], [found])

        count_loop(writer.lines, tile.first, tile.behind, row)

    def _anew(self, P: Term, n: Term, vector: int) -> Term:
        """Return the sums of one row and one vector, in float32."""
        v, w = self.writer.v, self.writer.w
        first, further = (n, w.N) if self.turned else (n * w.K, 1)
        X = w.X.at(first)

        def add(pair: Term, sums: Sequence[Term]) -> Sequence[Term]:
            step, within = pair // ROWS, pair % ROWS
            there = step * PANEL_STEP_BYTES + within * ROW_BYTES
            places = (P.at(there + (VECTORS * piece + vector) * TILE_BYTES) for piece in range(PIECES))
            found = [halves(place.of(v.integer).load(4)) for place in places]
            total = sums[0]
            for half, (first, second, third) in enumerate(zip(*found, strict=True)):
                k = step * DEPTH + within + half * ROWS
                x = v.load_one(X.at(k * further))
                total = x.fma(first + second + third, total)
            return [total]

        return carry_loop(0, w.K // 2, [v.constant(0.0)], add)[0]
