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
from tazza.codegen.rows import element
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

    def put(self, panel: str, rows: Sequence[str], sums: Sequence[Sequence[str]]) -> None:
        """Take the sums of some rows, of each a vector for each of the panel."""
        ...

    def asked(self, panel: str, row: str) -> Sequence[tuple[str, bool]]:
        """Return where that lies which is asked for early: what `put` and `end` read of a row, and write (True)."""
        ...

    def end(self, panel: str, first: str, height: str | int) -> None:
        """Go on with so many rows: those panels are done that hold the same rows of all parts, `panel` is the first."""
        ...


RowSums = Callable[[str, str, str], None]
"""Takes sums of 16 rows over some k: the first row, a vector, and whether there were others before."""


@dataclass(frozen=True)
class _Part:
    """What is computed at a time: rows of a block, chunks of k, their steps of 32 k, and 1 if they are the last ones.

    Chunks end before `chunks_end`, and so on.
    """

    begin: str
    behind: str
    chunk: str
    chunks_end: str
    first: str
    last: str
    ends: str


@dataclass(frozen=True)
class _Tile:
    """Some rows: the first, the one behind the last, how many registers they fill, where pieces and sums lie."""

    first: str
    behind: str
    heights: int
    pieces: str
    sums: str


class TileProduct:
    """Writes the products of one kernel, whose words say where the room of all threads lies.

    `turned`: X lies with its rows as columns, (K, N).
    """

    def __init__(self, writer: Writer, *, turned: bool = False) -> None:
        """Find the room of this thread."""
        self.writer, self.turned = writer, turned
        self.tiles = Tiles(writer.lines)
        lines, w = writer.lines, writer.w
        self.room = element(lines, w["room"], writer.mul("%who", w["room_bytes"]), "i8")
        self.steps = writer.div(w["K"], DEPTH)
        most = writer.mul(writer.pieces(self.steps, w["chunks"]), writer.pieces(w["chunks"], w["passes"]))
        self.row_bytes = writer.mul(most, STEP_BYTES)
        self.A = self._at(self.room, w["sums_bytes"])
        self.several = self._one_if(lines.let(f"icmp sgt i64 {w['chunks']}, 1"))
        self.kept = self._one_if(lines.let(f"icmp sgt i64 {w['passes']}, 1"))

    def _at(self, pointer: str, offset: str | int) -> str:
        return element(self.writer.lines, pointer, str(offset), "i8")

    def _one_if(self, condition: str) -> str:
        return self.writer.lines.let(f"zext i1 {condition} to i64")

    def _border(self, chunk: str) -> str:
        """Return the first step of a chunk."""
        return self.writer.div(self.writer.mul(self.steps, chunk), self.writer.w["chunks"])

    def each_panel(self, target: Sums, turn: str, row_sums: RowSums | None = None) -> None:
        """Write the work of one thread: see `PanelWriter.each_panel`.

        Args:
            target: what becomes of the sums.
            turn: a number; where it is odd, it begins at the last panel.
            row_sums: what becomes of the sums of rows of X, where it is turned.
        """
        writer, w, lines = self.writer, self.writer.w, self.writer.lines
        groups = writer.div(w["panels"], w["parts"])
        by_rows = lines.let(f"icmp ne i64 {w['by_rows']}, 0")
        by_panels = lines.let(f"xor i1 {by_rows}, true")
        once = lines.let(f"icmp eq i64 {writer.mul(w['blocks'], w['passes'])}, 1")
        # Sums that wait for the next pass are the thread's own.
        panels_shared = lines.let(f"and i1 {by_panels}, {once}")
        of_blocks, of_panels = Taking(writer, w["taken"]), Taking(writer, w["taken"])
        tall = writer.pieces(w["N"], TALL)
        self.tiles.begin(w["shape"])

        def one_pass(number: str, block: str) -> None:
            rows = [
                writer.least(writer.mul(writer.div(writer.mul(tall, b), w["blocks"]), TALL), w["N"])
                for b in (block, writer.add(block, 1))
            ]
            chunks = [writer.div(writer.mul(w["chunks"], p), w["passes"]) for p in (number, writer.add(number, 1))]
            ends = self._one_if(lines.let(f"icmp eq i64 {chunks[1]}, {w['chunks']}"))
            steps = [self._border(chunk) for chunk in chunks]
            part = _Part(rows[0], rows[1], chunks[0], chunks[1], steps[0], steps[1], ends)
            (self._split_turned(part, row_sums) if self.turned else self._split(part))
            back = lines.let(f"trunc i64 {writer.add(writer.add(block, number), turn)} to i1")
            of_panels.each(groups, (by_rows, panels_shared), back, lambda i, n: self._group(i, n, part, target))

        def each_pass(block: str, _: str) -> None:
            count_loop(lines, "0", w["passes"], partial(one_pass, block=block))

        of_blocks.each(w["blocks"], (by_panels, by_rows), "false", each_pass)
        self.tiles.end()

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _put_pieces(self, low: str, high: str, there: str) -> None:
        """Write the pieces of two vectors of a row, k apart by 16, into the first tile of those of a step."""
        v, lines = self.writer.v, self.writer.lines
        for piece, both in enumerate(zip(pieces(v, low), pieces(v, high), strict=True)):
            lines.do(f"store {v.integer} {paired(v, *both)}, ptr {self._at(there, piece * TILE_BYTES)}, align 4")

    def _split(self, part: _Part) -> None:
        """Write the pieces of some rows into the room, tile by tile; the last row again where they fill none."""
        writer, w, lines, v = self.writer, self.writer.w, self.writer.lines, self.writer.v

        def some(group: str) -> None:
            first = writer.add(part.begin, writer.mul(group, ROWS))
            start = self._at(self.A, writer.mul(group, self.row_bytes))

            def step(s: str) -> None:
                there = self._at(start, writer.mul(writer.sub(s, part.first), STEP_BYTES))

                def row(r: str) -> None:
                    n = writer.least(writer.add(first, r), writer.sub(part.behind, 1))
                    k = writer.add(writer.mul(n, w["K"]), writer.mul(s, DEPTH))
                    low, high = (v.load(w["X"], writer.add(k, half * v.count), None) for half in range(2))
                    self._put_pieces(low, high, self._at(there, writer.mul(r, ROW_BYTES)))

                count_loop(lines, "0", str(ROWS), row)

            count_loop(lines, part.first, part.last, step)

        count_loop(lines, "0", writer.pieces(writer.sub(part.behind, part.begin), ROWS), some)

    def _split_turned(self, part: _Part, row_sums: RowSums | None) -> None:
        """Write the same of rows that lie as columns, 16 at a time: those are read that lie side by side."""
        writer, w, lines, v = self.writer, self.writer.w, self.writer.lines, self.writer.v

        def step(s: str) -> None:
            def some(group: str) -> None:
                first = writer.add(part.begin, writer.mul(group, ROWS))
                mask = lanes_below(v, writer.sub(part.behind, first))
                X = element(lines, w["X"], first)
                total, both = v.constant(0.0), list[list[str]]()
                for half in range(2):
                    k = writer.add(writer.mul(s, DEPTH), half * v.count)
                    columns = [v.load(X, writer.mul(writer.add(k, i), w["N"]), mask) for i in range(v.count)]
                    for column in columns:
                        total = v.add(total, column)
                    both.append(transposed(v, columns))
                place = writer.mul(writer.sub(s, part.first), STEP_BYTES)
                there = self._at(self.A, writer.add(writer.mul(group, self.row_bytes), place))
                for r, (low, high) in enumerate(zip(*both, strict=True)):
                    self._put_pieces(low, high, self._at(there, r * ROW_BYTES))
                if row_sums is not None:
                    row_sums(first, total, lines.let(f"icmp sgt i64 {s}, 0"))

            count_loop(lines, "0", writer.pieces(writer.sub(part.behind, part.begin), ROWS), some)

        count_loop(lines, part.first, part.last, step)

    # -- products ------------------------------------------------------------------------------------------------------

    def _group(self, group: str, number: str, part: _Part, target: Sums) -> None:
        """Write the tiles of a block for all panels of a group, which is that one of the thread's."""
        writer, w, lines = self.writer, self.writer.w, self.writer.lines
        count = writer.pieces(writer.sub(part.behind, part.begin), ROWS)
        pairs = writer.div(count, 2)
        first = writer.mul(group, w["parts"])

        def each(i: str) -> None:
            panel = writer.add(first, i)
            kept = writer.mul(writer.add(writer.mul(number, w["parts"]), i), w["tiles"])
            P = self._at(w["P"], writer.mul(writer.mul(panel, self.steps), PANEL_STEP_BYTES))

            def tile(t: str, *, heights: int) -> None:
                begin = writer.add(part.begin, writer.mul(t, TALL))
                behind = writer.least(writer.add(begin, heights * ROWS), part.behind)
                found = self._at(self.A, writer.mul(writer.mul(t, self.row_bytes), 2))
                place = writer.add(writer.mul(writer.add(kept, t), self.kept), self.several)
                sums = self._at(self.room, writer.mul(place, SUMS_BYTES))
                self._tile(_Tile(begin, behind, heights, found, sums), part, P, (panel, target))

            count_loop(lines, "0", pairs, partial(tile, heights=2))
            count_loop(lines, pairs, writer.sub(count, pairs), partial(tile, heights=1))

        count_loop(lines, "0", w["parts"], each)
        height = writer.sub(part.behind, part.begin)
        count_loop(lines, "0", part.ends, lambda _: target.end(first, part.begin, height))

    def _tile(self, tile: _Tile, part: _Part, P: str, goes: tuple[str, Sums]) -> None:
        """Write what chunks add to the sums of one tile; behind the last one they are given away.

        Each row goes to a place that is far from the one before, and asked for meanwhile.
        """
        writer, tiles, lines, (panel, target) = self.writer, self.tiles, self.writer.lines, goes
        sums = [(r, j, VECTORS * r + j) for r in range(tile.heights) for j in range(VECTORS)]
        asks = lines.let(f"trunc i64 {part.ends} to i1")

        def step(s: str) -> None:
            number = writer.sub(s, part.first)
            a = self._at(tile.pieces, writer.mul(number, STEP_BYTES))
            for i in range(ASKED):
                row = writer.add(tile.first, writer.add(writer.mul(number, ASKED), i))
                for there, write in target.asked(panel, writer.least(row, writer.sub(tile.behind, 1))):
                    wanted = lines.let(f"select i1 {asks}, ptr {there}, ptr {a}")
                    for j in range(VECTORS):
                        lines.prefetch(wanted, j * ROW_BYTES, write=write)
            self._multiply(tile.heights, (a, self._at(a, self.row_bytes)), self._at(P, writer.mul(s, PANEL_STEP_BYTES)))

        def chunk(number: str) -> None:
            for _, _, register in sums:
                tiles.zero(register)
            count_loop(lines, self._border(number), self._border(writer.add(number, 1)), step)
            others = lines.let(f"icmp sgt i64 {number}, 0")
            there = lines.let(f"select i1 {others}, ptr {self.room}, ptr {tile.sums}")
            for r, j, register in sums:
                tiles.store(register, self._at(there, r * ROWS * WIDTH + j * ROW_BYTES), WIDTH)
            count_loop(lines, "0", self._one_if(others), lambda _: self._add(tile))

        count_loop(lines, part.chunk, part.chunks_end, chunk)
        count_loop(lines, "0", part.ends, lambda _: self._put(P, tile, partial(target.put, panel)))

    def _add(self, tile: _Tile) -> None:
        """Add the sums of a chunk to those that wait."""
        v = self.writer.v

        def vector(i: str) -> None:
            at = self.writer.mul(i, v.count)
            before, more = (v.load(pointer, at, None) for pointer in (tile.sums, self.room))
            self.writer.put(v.add(before, more), tile.sums, at)

        count_loop(self.writer.lines, "0", str(tile.heights * ROWS * VECTORS), vector)

    def _multiply(self, heights: int, rows: Sequence[str], panel: str) -> None:
        """Write the products of 32 k: of each two pieces in turn, of which one is another than before.

        A register is loaded anew as soon as nothing needs it any more, while others are multiplied still.
        """
        tiles = self.tiles

        def load_rows(r: int, pair: tuple[int, int]) -> None:
            tiles.load(A + r, self._at(rows[r], pair[0] * TILE_BYTES))

        def load_panel(j: int, pair: tuple[int, int]) -> None:
            tiles.load(B + j, self._at(panel, (VECTORS * pair[1] + j) * TILE_BYTES))

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

    def _put(self, P: str, tile: _Tile, put: Callable[[Sequence[str], Sequence[Sequence[str]]], None]) -> None:
        """Give the sums of a tile away, row by row."""
        writer, v = self.writer, self.writer.v

        def row(n: str) -> None:
            at = writer.mul(writer.sub(n, tile.first), VECTORS * v.count)
            found: list[str] = []
            for j in range(VECTORS):
                value = v.load(tile.sums, writer.add(at, j * v.count), None)
                found.append(v.rarely(is_special(v, value), value, partial(self._anew, P, n, j)))
            put([n], [found])

        count_loop(writer.lines, tile.first, tile.behind, row)

    def _anew(self, P: str, n: str, vector: int) -> str:
        """Return the sums of one row and one vector, in float32."""
        writer, v, lines, w = self.writer, self.writer.v, self.writer.lines, self.writer.w
        first, further = (n, w["N"]) if self.turned else (writer.mul(n, w["K"]), "1")
        X = element(lines, w["X"], first)

        def add(pair: str, sums: Sequence[str]) -> Sequence[str]:
            step, within = writer.div(pair, ROWS), writer.rem(pair, ROWS)
            there = writer.add(writer.mul(step, PANEL_STEP_BYTES), writer.mul(within, ROW_BYTES))
            found: list[tuple[str, str]] = []
            for piece in range(PIECES):
                place = self._at(P, writer.add(there, (VECTORS * piece + vector) * TILE_BYTES))
                found.append(halves(v, lines.let(f"load {v.integer}, ptr {place}, align 4")))
            total = sums[0]
            for half, (first, second, third) in enumerate(zip(*found, strict=True)):
                k = writer.add(writer.add(writer.mul(step, DEPTH), within), half * ROWS)
                x = v.load_one(element(lines, X, writer.mul(k, further)))
                total = v.fma(x, v.add(v.add(first, second), third), total)
            return [total]

        return carry_loop(v, "0", writer.div(w["K"], 2), [v.constant(0.0)], add)[0]
