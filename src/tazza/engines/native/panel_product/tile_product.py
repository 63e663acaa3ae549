"""Products in panels by tile registers, where the processor has them: float32 numbers in three pieces of bfloat16.

Each product of two pieces is exact in float32, and sums of 32 of them are rounded apart, so that the result is as near
as that of sums in float32, at twice their rate. Panels are the same, and split while the first tile is multiplied: what
is read from behind the cache of a core is as little as before. Rows of a block are split first, by each thread for
itself:

    A[rows / 16][k / 32][piece][16][32]    B[k / 32][piece][vector][16][L][2]

The pair of k is k + 16. Where a block is one tile, B is only of the 32 k that are multiplied and of the next.

Sums that are not finite are computed anew in float32.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from tazza.codegen.loop import carry_loop, count_loop, load, load_one
from tazza.codegen.rows import element
from tazza.codegen.tiles import DEPTH, PIECES, PRODUCTS, ROWS, TILE_BYTES, Tiles, is_special, paired, pieces
from tazza.codegen.writer import FLOAT, Writer
from tazza.runtime.tile_registers import tile_registers

VECTORS = 2
"""Of a panel."""
TALL = 2 * ROWS
"""Rows that are computed together: their sums fill half of the registers, what is multiplied the other half."""
A, B = 2 * VECTORS, 2 * VECTORS + 2
"""Registers of what is multiplied, behind those of the sums."""
STEP_BYTES, SPLIT_BYTES = PIECES * TILE_BYTES, PIECES * VECTORS * TILE_BYTES
"""Pieces of 32 numbers of 16 rows, and of a panel."""
PANEL_STEP_BYTES = 4 * DEPTH * VECTORS * ROWS
"""A panel, of 32 k."""
SPLIT_TOGETHER = -(-DEPTH // 2 * VECTORS // len(PRODUCTS))
"""Pairs of vectors that are split behind each two pieces, so that all are behind the last."""
LINE_BYTES = 64
SUMS_BYTES = 4 * TALL * VECTORS * ROWS
RATE = 1.4
"""How much faster than by vectors of float32, at the least."""
LEAST_ROWS, LEAST_SHARE = 48, 0.78
"""Of fewer rows, a panel is split for too few products, and registers that are less full compute too much."""


def tiled(rows: int, vectors: int, K: int) -> bool:
    """Whether tile registers compute products of so many rows with panels of so many vectors, and faster."""
    filled = rows / (-(-rows // ROWS) * ROWS)
    worth = rows > LEAST_ROWS and filled >= LEAST_SHARE
    return worth and vectors == VECTORS and K % DEPTH == 0 and tile_registers()


def room_bytes(rows: int, K: int) -> int:
    """Return what a thread needs for the sums of a tile, and the pieces of a panel and of so many rows."""
    tiles, steps = -(-rows // TALL), K // DEPTH
    return SUMS_BYTES + (2 if tiles == 1 else steps) * SPLIT_BYTES + tiles * 2 * steps * STEP_BYTES


class Sums(Protocol):
    """What becomes of sums."""

    def put(self, panel: str, rows: Sequence[str], sums: Sequence[Sequence[str]]) -> None:
        """Take the sums of some rows, of each a vector for each of the panel."""
        ...

    def end(self, panel: str, first: str, height: str | int) -> None:
        """Go on with so many rows: those panels are done that hold the same rows of all parts, `panel` is the first."""
        ...


@dataclass(frozen=True)
class _Rows:
    """Rows of a tile: the first, the one behind the last, where their pieces lie, and how many registers they fill."""

    first: str
    behind: str
    pieces: str
    heights: int


class TileProduct:
    """Writes the products of one kernel, whose words say where the room of all threads lies."""

    def __init__(self, writer: Writer, asked: int) -> None:
        """Find the room of this thread; `asked` lines of the next panel are asked for with 32 k."""
        self.writer, self.asked = writer, asked
        self.tiles = Tiles(writer.lines)
        lines, w = writer.lines, writer.w
        self.room = element(lines, w["room"], writer.mul("%who", w["room_bytes"]), "i8")
        self.steps = writer.div(w["K"], DEPTH)
        self.row_bytes = writer.mul(self.steps, STEP_BYTES)
        self.B = self._at(self.room, SUMS_BYTES)
        one = lines.let(f"icmp eq i64 {w['tiles']}, 1")
        self.slots = lines.let(f"select i1 {one}, i64 2, i64 {self.steps}")
        self.A = self._at(self.B, writer.mul(self.slots, SPLIT_BYTES))

    def _at(self, pointer: str, offset: str | int) -> str:
        return element(self.writer.lines, pointer, str(offset), "i8")

    def _slot(self, step: str) -> str:
        return self._at(self.B, self.writer.mul(self.writer.rem(step, self.slots), SPLIT_BYTES))

    def split(self, begin: str, behind: str) -> None:
        """Write the pieces of the rows of a block into the room."""
        writer, w, lines, v = self.writer, self.writer.w, self.writer.lines, self.writer.v

        def row(n: str) -> None:
            within = writer.sub(n, begin)
            X = element(lines, w["X"], writer.mul(n, w["K"]))
            start = writer.mul(writer.div(within, ROWS), self.row_bytes)
            start = writer.add(start, writer.mul(writer.rem(within, ROWS), LINE_BYTES))

            def step(s: str) -> None:
                there = self._at(self._at(self.A, start), writer.mul(s, STEP_BYTES))
                k = writer.mul(s, DEPTH)
                both = [pieces(v, load(v, FLOAT, X, writer.add(k, half * v.count), None)) for half in range(2)]
                for piece, (low, high) in enumerate(zip(*both, strict=True)):
                    place = self._at(there, piece * TILE_BYTES)
                    lines.do(f"store {v.integer} {paired(v, low, high)}, ptr {place}, align 4")

            count_loop(lines, "0", self.steps, step)

        count_loop(lines, begin, behind, row)

    def group(self, groups: tuple[str, str], block: tuple[str, str], target: Sums) -> None:
        """Write the tiles of a block for all panels of a group; the second group is asked for meanwhile."""
        writer, lines = self.writer, self.writer.lines
        count = writer.pieces(writer.sub(block[1], block[0]), ROWS)
        pairs = writer.div(count, 2)
        panel_bytes = writer.mul(self.steps, PANEL_STEP_BYTES)
        lead = writer.mul(writer.sub(groups[1], groups[0]), panel_bytes)

        def part(number: str) -> None:
            panel = writer.add(groups[0], number)
            P = self._at(writer.w["P"], writer.mul(panel, panel_bytes))

            def tile(i: str, *, heights: int, split: bool) -> None:
                first = writer.add(block[0], writer.mul(i, TALL))
                behind = writer.least(writer.add(first, heights * ROWS), block[1])
                rows = _Rows(first, behind, self._at(self.A, writer.mul(writer.mul(i, self.row_bytes), 2)), heights)
                ahead = self._at(P, writer.add(lead, writer.mul(i, LINE_BYTES * self.asked)))
                self._sum(rows, ahead, P if split else None)
                self._put(P, rows, partial(target.put, panel))

            some = writer.least(pairs, "1")
            count_loop(lines, "0", some, partial(tile, heights=2, split=True))
            count_loop(lines, "0", writer.sub("1", some), partial(tile, heights=1, split=True))
            count_loop(lines, "1", pairs, partial(tile, heights=2, split=False))
            count_loop(lines, writer.most(pairs, "1"), writer.sub(count, pairs), partial(tile, heights=1, split=False))

        count_loop(lines, "0", writer.w["parts"], part)
        target.end(groups[0], block[0], writer.sub(block[1], block[0]))

    def _sum(self, rows: _Rows, ahead: str, P: str | None) -> None:
        """Write the sums of one tile into the room; a panel P is split meanwhile, each 32 k before they are needed."""
        writer, tiles = self.writer, self.tiles
        sums = [(r, j, VECTORS * r + j) for r in range(rows.heights) for j in range(VECTORS)]
        for _, _, register in sums:
            tiles.zero(register)
        if P is not None:
            list(self._splitting(P, "0"))

        def step(s: str) -> None:
            a = self._at(rows.pieces, writer.mul(s, STEP_BYTES))
            there = self._at(ahead, writer.mul(s, PANEL_STEP_BYTES))
            for line in range(self.asked):
                writer.lines.prefetch(there, LINE_BYTES * line)
            following = writer.least(writer.add(s, 1), writer.sub(self.steps, 1))
            meanwhile = iter(()) if P is None else self._splitting(P, following)
            starts = (a, self._at(a, self.row_bytes))[: rows.heights]
            for _ in self._multiplied(sums, starts, self._slot(s)):
                list(itertools.islice(meanwhile, SPLIT_TOGETHER))

        count_loop(writer.lines, "0", self.steps, step)
        width = VECTORS * LINE_BYTES
        for r, j, register in sums:
            tiles.store(register, self._at(self.room, r * ROWS * width + j * LINE_BYTES), width)

    def _splitting(self, P: str, step: str) -> Iterator[None]:
        """Write the pieces of 32 k of a panel, and stop behind each two vectors."""
        writer, v, lines = self.writer, self.writer.v, self.writer.lines
        source = self._at(P, writer.mul(step, PANEL_STEP_BYTES))
        target = self._slot(step)
        for pair, j in itertools.product(range(DEPTH // 2), range(VECTORS)):
            places = [((pair + half * DEPTH // 2) * VECTORS + j) * v.count for half in range(2)]
            both = [pieces(v, load(v, FLOAT, source, str(place), None)) for place in places]
            for piece, (low, high) in enumerate(zip(*both, strict=True)):
                place = self._at(target, (VECTORS * piece + j) * TILE_BYTES + pair * LINE_BYTES)
                lines.do(f"store {v.integer} {paired(v, low, high)}, ptr {place}, align 4")
            yield

    def _multiplied(self, sums: Sequence[tuple[int, int, int]], rows: Sequence[str], panel: str) -> Iterator[None]:
        """Write the products of 32 k, and stop behind each two pieces."""
        tiles, seen = self.tiles, (-1, -1)
        for one, other in PRODUCTS:
            if one != seen[0]:
                for r, start in enumerate(rows):
                    tiles.load(A + r, self._at(start, one * TILE_BYTES))
            if other != seen[1]:
                for j in range(VECTORS):
                    tiles.load(B + j, self._at(panel, (VECTORS * other + j) * TILE_BYTES))
            seen = one, other
            for r, j, register in sums:
                tiles.multiply(register, A + r, B + j)
            yield

    def _put(self, P: str, rows: _Rows, put: Callable[[Sequence[str], Sequence[Sequence[str]]], None]) -> None:
        """Give the sums of a tile away, row by row."""
        writer, v = self.writer, self.writer.v

        def row(n: str) -> None:
            at = writer.mul(writer.sub(n, rows.first), VECTORS * v.count)
            found: list[str] = []
            for j in range(VECTORS):
                value = load(v, FLOAT, self.room, writer.add(at, j * v.count), None)
                found.append(v.rarely(is_special(v, value), value, partial(self._anew, P, n, j)))
            put([n], [found])

        count_loop(writer.lines, rows.first, rows.behind, row)

    def _anew(self, P: str, n: str, vector: int) -> str:
        """Return the sums of one row and one vector, in float32."""
        writer, v, lines, w = self.writer, self.writer.v, self.writer.lines, self.writer.w
        X = element(lines, w["X"], writer.mul(n, w["K"]))

        def add(k: str, sums: Sequence[str]) -> Sequence[str]:
            W = load(v, FLOAT, P, writer.add(writer.mul(k, VECTORS * v.count), vector * v.count), None)
            return [v.fma(load_one(v, FLOAT, element(lines, X, k)), W, sums[0])]

        return carry_loop(v, "0", w["K"], [v.constant(0.0)], add)[0]
