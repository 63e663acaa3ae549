"""The machine code of products in panels.

Letters: N rows of X, K columns, and for each thread some panels of W; L lanes of a vector.

    Y[n][vector][L] = sum over k of X[n][k] P[panel][k][vector][L]

by register tiles of as many rows as leave room for their sums, or by tile registers (see `tile_product`). While the
first tiles of a panel are computed, the next panel is asked for: it lies in the last cache or in memory, and the
processor looks ahead less far than this. Rows come in blocks that stay in the cache of a core, each of which goes over
all panels.

With tile registers, a thread that is done takes panels, or blocks, of others that they have not begun (see `taking`).

Each sum is added up in the order of k, wherever its row stands: it is the same in every batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tazza.codegen.block import Constant, Scratch, Word
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import THREAD_NS, lane_count
from tazza.codegen.loop import carry_loop, count_loop, share
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.tiles import DEPTH, PIECES, SHAPE
from tazza.codegen.writer import LINE, Writer
from tazza.data_class import dataclass
from tazza.engines.native.panel_product.panels import Panels
from tazza.engines.native.panel_product.taking import give_back, taken_bytes
from tazza.engines.native.panel_product.tile_product import STEP_BYTES, SUMS_BYTES, TALL, RowSums, Sums, TileProduct
from tazza.runtime.machine import machine
from tazza.runtime.threads import thread_count

REGISTERS = {16: 24, 8: 8, 4: 8}
"""L -> vectors of sums in a register tile: beside them, a row of a panel and a number of X have room."""
BLOCK_BYTES = 512 << 10
"""What the rows of a block may take: they stay in the cache of a core beside two panels."""
CHUNK, BLOCK_TILES = 512, 8
"""Of k, and of 32 rows, of which pieces stay in the cache of a core beside those of two panels."""
SHARE_ROWS = 8
"""Tiles of a thread from which on threads share rows, so that each splits its own alone, else panels."""
SHARE = 0.95
"""Part of the rate at which cores compute that products in panels reach."""
RATE = 2.7
"""How much faster tile registers are, where their panels are in the cache of a core."""
CACHE_GAIN = 1.4
"""How much faster than half of a copy panels come from the last cache."""
RESULT_BYTES, ROW_BYTES = 8, 6
"""What it costs to write a number, and to read and split one of X, as if so much came from memory."""
WEIGHT_PASSES = 1.5
"""How often one goes over its weights, which are packed first."""
TILES = Fields("threads room_bytes sums_bytes chunks passes by_rows", addresses="shape:i8 room:i8 taken:i64")
"""For tile registers."""
PRODUCT = Fields("N K panels blocks tiles parts", addresses="X P", after=TILES)
"""What every kernel begins with."""


@dataclass(frozen=True)
class Tiling:
    """How N rows are cut for panels: into blocks of nearly as many, and these into tiles of `tall` rows or one less.

    Panels that are split are for tile registers, of tiles of 32 rows. `turned`: X lies with its rows as columns.
    """

    N: int
    panels: Panels
    turned: bool = False

    @property
    def tiled(self) -> bool:
        """Whether tile registers compute."""
        return self.panels.split

    @property
    def by_rows(self) -> bool:
        """Whether threads share rows, not panels."""
        return self.tiled and (self.turned or self._tall_tiles >= SHARE_ROWS * thread_count())

    @property
    def blocks(self) -> int:
        """How many blocks; as many for each thread where these share them."""
        if not self.tiled:
            return -(-self.N // max(1, BLOCK_BYTES // (4 * self.panels.K)))
        count = -(-self._tall_tiles // BLOCK_TILES)
        return min(self._tall_tiles, -(-count // self.threads) * self.threads) if self.by_rows else count

    @property
    def tiles(self) -> int:
        """How many tiles a block has, at the most."""
        if self.tiled:
            return -(-self._tall_tiles // self.blocks)
        most = max(1, REGISTERS[lane_count()] // self.panels.vectors)
        return -(-self._rows // most)

    @property
    def chunks(self) -> int:
        """Into how many chunks K is cut, for tile registers: whatever N is, since each is summed up apart."""
        return -(-self.panels.K // CHUNK) if self.tiled else 1

    @property
    def passes(self) -> int:
        """How often threads go over the panels of a block, each time for some chunks: those that stay in the cache."""
        return -(-self.chunks // max(1, BLOCK_TILES // self.tiles)) if self.tiled else 1

    @property
    def tall(self) -> int:
        """Rows of the taller tiles."""
        return -(-self._rows // self.tiles)

    @property
    def _rows(self) -> int:
        return -(-self.N // self.blocks)

    @property
    def _tall_tiles(self) -> int:
        return -(-self.N // TALL)

    @property
    def asked(self) -> int:
        """Lines of the next panel that are asked for with each k, so that the tiles of one block ask for all."""
        lines = self.panels.vectors * lane_count() // LINE
        return -(-lines // min(self.tiles, max(lines, 1)))

    @property
    def alone_ns(self) -> float:
        """What one core takes for the product; split panels come from the last cache, for each block."""
        flops_per_ns = SHARE * machine().flops_per_ns
        if not self.tiled:
            return 2 * self.N * self.panels.M * self.panels.K / flops_per_ns
        rows = -(-self.N // (TALL // 2)) * (TALL // 2)
        blocks = -(-self._tall_tiles // BLOCK_TILES)
        come_ns = blocks * self.panels.nbytes / (CACHE_GAIN * machine().cache_bytes_per_ns)
        products = rows * self.panels.nbytes // (2 * PIECES)
        nbytes = self.N * (RESULT_BYTES * self.panels.M + ROW_BYTES * self.panels.K)
        return 2 * products / (RATE * flops_per_ns) + come_ns + nbytes / machine().memory_bytes_per_ns

    @property
    def threads(self) -> int:
        """How many threads it is worth, each of which has some panels, or some rows."""
        parts = self._tall_tiles if self.by_rows else self.panels.count // self.panels.parts
        return max(1, min(thread_count(), parts, int(self.alone_ns / THREAD_NS)))

    @property
    def estimate_ns(self) -> float:
        """How long it takes: the weights come by, packed for each run, once more for each further block; the product.

        How the panels of tile registers come by for each block is part of `alone_ns`.
        """
        nbytes, again = 4 * self.panels.M * self.panels.K, 0 if self.tiled else self.blocks - 1
        return (WEIGHT_PASSES + again) * nbytes / machine().memory_bytes_per_ns + self.alone_ns / self.threads

    @property
    def words(self) -> dict[str, Word]:
        """The words of a block that follow from it."""
        return {
            "threads": self.threads,
            **{"N": self.N, "K": self.panels.K, "panels": self.panels.count},
            **{"blocks": self.blocks, "tiles": self.tiles, "parts": self.panels.parts},
            **{"shape": Constant(SHAPE), "room": Scratch() if self.tiled else 0, "room_bytes": self._room_bytes},
            **{"sums_bytes": self._sums_bytes, "chunks": self.chunks, "passes": self.passes},
            **{"by_rows": int(self.by_rows), "taken": Constant(taken_bytes(self.threads)) if self.tiled else 0},
        }

    @property
    def scratch_bytes(self) -> int:
        """What all threads need for the pieces of their rows, and for sums."""
        return self.threads * self._room_bytes

    @property
    def _room_bytes(self) -> int:
        if not self.tiled:
            return 0
        steps = -(-(self.panels.K // DEPTH) // self.chunks) * -(-self.chunks // self.passes)
        return self._sums_bytes + self.tiles * 2 * steps * STEP_BYTES

    @property
    def _sums_bytes(self) -> int:
        """Of a chunk of one tile; beside it those before it, where there are some: of a block, for several passes."""
        waiting = 0 if self.chunks == 1 else 1 if self.passes == 1 else self.tiles * self.panels.count
        return SUMS_BYTES * (1 + waiting)

    @property
    def code(self) -> Code:
        """What the machine code depends on."""
        if self.tiled:
            return Code(self.panels.vectors, 0, 0, self.turned)
        return Code(self.panels.vectors, self.tall, self.asked)


@dataclass(frozen=True)
class Code:
    """What tells the products of one kernel from those of another; `tall` is 0 where tile registers compute them."""

    vectors: int
    tall: int
    asked: int
    turned: bool = False


def finish(lines: Lines) -> None:
    """Write what comes behind the work of all threads."""
    at = PRODUCT.lazily(lines)
    give_back(lines, at.threads, at.taken)


class PanelWriter(Writer):
    """Writes a kernel that begins with products in panels: `fields` are those of PRODUCT and others behind them."""

    def __init__(self, lines: Lines, code: Code, fields: Fields) -> None:
        """Read the words."""
        super().__init__(lines, fields)
        self.code = code
        self.floats = code.vectors * self.v.count  # of a panel, for one k
        self.panel_floats = self.w.K * self.floats

    def each_panel(self, target: Sums, turn: Number = 0, row_sums: RowSums | None = None) -> None:
        """Write the work of one thread: there and back over its panels, block after block.

        What was read last is in the cache of a core still.

        Args:
            target: what becomes of the sums.
            turn: a number, of who multiplies by the same weights again and again; where it is odd, it begins at the
                last panel.
            row_sums: what becomes of the sums of rows of X, where it is turned.
        """
        w, lines = self.w, self.lines
        if not self.code.tall:
            TileProduct(self, turned=self.code.turned).each_panel(target, turn, row_sums)
            return
        first, last = share(lines, w.panels // w.parts)
        end = last - 1

        def block(number: Term) -> None:
            rows, behind = w.N * number // w.blocks, w.N * (number + 1) // w.blocks
            back = (number + turn).to("i1")

            def group(i: Term) -> None:
                here, following = (back.choose(first + end - one, one) * w.parts for one in (i, (i + 1).at_most(end)))
                self._tiles((here, following), (rows, behind), target)

            count_loop(lines, first, last, group)

        count_loop(lines, 0, w.blocks, block)

    def _tiles(self, groups: tuple[Term, Term], block: tuple[Term, Term], target: Sums) -> None:
        """Write the tiles of a block, the taller ones, then those of one row less: each for all panels of a group.

        The groups are that one, and the one that is asked for, by their first panels.
        """
        w, lines, low = self.w, self.lines, self.code.tall - 1
        tall = block[1] - block[0] - w.tiles * low
        lead = (groups[1] - groups[0]) * self.panel_floats
        asking = -(-self.floats // (LINE * self.code.asked))

        def tile(i: Term, *, height: int, before: Term) -> None:
            first = block[0] + before + i * height
            X = w.X.at(first * w.K)
            rows = [first + r for r in range(height)]
            asks = i < asking
            begun = lead + i * w.K * (LINE * self.code.asked)
            step = asks.choose(lines.number(LINE * self.code.asked), 0)

            def part(number: Term) -> None:
                panel = groups[0] + number
                P = w.P.at(panel * self.panel_floats)
                # Where nothing is asked for, that is one line of X, which is there.
                start = asks.choose(P.at(begun), X)
                target.put(panel, rows, self._sums(P, X, height, (start, step)))

            count_loop(lines, 0, w.parts, part)
            target.end(groups[0], first, height)

        count_loop(lines, 0, tall, partial(tile, height=low + 1, before=lines.number(0)))
        if low:
            count_loop(lines, tall, w.tiles, partial(tile, height=low, before=tall))

    def _sums(self, P: Term, X: Term, height: int, ahead: tuple[Term, Term]) -> list[list[Term]]:
        """Return the sums of some rows for one panel; lines are asked for meanwhile, from an address by a step."""
        v, w, vectors = self.v, self.w, self.code.vectors
        rows = [X.at(w.K * r) for r in range(height)]

        def add(k: Term, sums: Sequence[Term]) -> Sequence[Term]:
            panel = P.at(k * self.floats)
            weights = [v.load(panel, j * v.count, None) for j in range(vectors)]
            found = self.add_outer(sums, (row.at(k) for row in rows), weights)
            there = ahead[0].at(k * ahead[1])
            for line in range(self.code.asked):
                there.prefetch(4 * LINE * line)
            return found

        sums = carry_loop(0, w.K, [v.constant(0.0)] * (height * vectors), add)
        return [sums[r * vectors : (r + 1) * vectors] for r in range(height)]
