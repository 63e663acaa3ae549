"""Weights in panels, and the kernel of Copy that makes them of W (M, K).

    P[panel][k][vector][L]    or, split for tile registers, P[panel][k / 32][piece][vector][16][L][2]

of pieces of bfloat16 (see `codegen.tiles`), where the pair of k is k + 16.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import cast

import numpy as np

from tazza.codegen.block import BlockLaunch, Slot, Word, all_float32
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import lane_count, threads_for
from tazza.codegen.loop import count_loop, lanes_below, share
from tazza.codegen.term import Lines, Term
from tazza.codegen.tiles import DEPTH, PIECES, TILE_BYTES, paired, pieces
from tazza.codegen.writer import Writer, gather
from tazza.data_class import dataclass
from tazza.device import Context
from tazza.engines.native.panel_product import SOURCES
from tazza.operator import Array, LaidOut, Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.shape.copy import COPY
from tazza.runtime.threads import thread_count
from tazza.tensor import Opaque, Strided, Tensor, TensorSpec
from tazza.tensor.residue import Parts, restored

ENGINE = "native/panel_product"
X, Y = Slot("X"), Slot("Y")
"""What a copy reads and writes."""
SOME = 32
"""Steps of a panel that are looked at at once when weights are brought back."""


@dataclass(frozen=True)
class Panels:
    """What an opaque layout of this engine holds: W (M, K) in panels of so many vectors of rows.

    Its rows are `parts` equal parts one behind the other, such as the gates of units; so many panels in a row are the
    same rows of each. What a part lacks to whole panels is 0. `split`: in pieces of bfloat16, of K that are whole steps
    of 32.
    """

    M: int
    K: int
    vectors: int
    parts: int = 1
    split: bool = False

    @property
    def count(self) -> int:
        """How many panels there are."""
        return -(-(self.M // self.parts) // (self.vectors * lane_count())) * self.parts

    @property
    def nbytes(self) -> int:
        """What all panels take."""
        return (2 * PIECES if self.split else 4) * self.count * self.K * self.vectors * lane_count()

    def layout(self) -> Opaque:
        """Return the layout; a blob that is kept in pieces has a residue beside."""
        return Opaque(ENGINE, self, self.nbytes, derived=self.split)


def unpacked(tensor: Tensor) -> Array:
    """Return weights that lie in panels as W (M, K).

    Raises:
        UnsupportedError: they are a copy in pieces, which has no residue.
    """
    form = cast("Panels", cast("Opaque", tensor.layout).descriptor)
    if form.split:
        return restored(tensor, f"split into pieces for {ENGINE}")
    rows = form.vectors * lane_count()
    panels = tensor.span.reshape(-1, form.parts, form.K, rows)  # (panel of a part, part, k, row)
    parts = panels.transpose(1, 0, 3, 2).reshape(form.parts, -1, form.K)  # (part, row, k)
    return parts[:, : form.M // form.parts].reshape(form.M, form.K)


def weights_about(tensor: Tensor) -> Parts:
    """Yield what each panel of pieces tells of the weights: their sum, which is all but for numbers near 0."""
    form = cast("Panels", cast("Opaque", tensor.layout).descriptor)
    rows, part_rows = form.vectors * lane_count(), form.M // form.parts
    bits = tensor.span.view(np.uint16).reshape(-1, form.K // DEPTH, PIECES, form.vectors, DEPTH // 2, lane_count(), 2)
    for panel, lying in enumerate(bits):
        within, part = divmod(panel, form.parts)
        first = part * part_rows + within * rows
        count = min(rows, part_rows - within * rows)
        for start in range(0, len(lying), SOME):
            steps = lying[start : start + SOME]
            each = [(steps[:, piece].astype(np.uint32) << 16).view(np.float32) for piece in range(PIECES)]
            total = reduce(np.add, each).transpose(1, 3, 0, 4, 2)  # (vector, lane, k / 32, half of k, pair)
            columns = slice(start * DEPTH, (start + len(steps)) * DEPTH)
            yield (slice(first, first + count), columns), total.reshape(rows, -1)[:count]


@launcher(COPY, engine=ENGINE)
def prepare_panels(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> LaidOut | Launch:
    """Pack weights; other copies are left to other engines."""
    del op, context
    W, P = inputs[0], outputs[0]
    form = P.layout.descriptor if isinstance(P, TensorSpec) and isinstance(P.layout, Opaque) else None
    if not isinstance(form, Panels):
        raise Unsupported("it copies nothing but weights into the panels that it reads")
    if not isinstance(W, TensorSpec) or not isinstance(W.layout, Strided) or not all_float32(W) or len(W.shape) != 2:
        raise Unsupported(f"it packs strided matrices of float32, not {W}")
    return LaidOut(pack_launch(form, W.layout.steps(W.shape)), {"Y": form.layout()})


def pack_launch(form: Panels, steps: Sequence[int], source: Word = X, target: Word = Y) -> BlockLaunch:
    """Return the launch that writes panels of X (M, K), by its steps from row to row and column to column."""
    words = BLOCK.words(
        **{"threads": threads_for(thread_count(), form.M * form.K, 2, 8), "M": form.M, "K": form.K},
        **{"vectors": form.vectors, "parts": form.parts, "row": steps[0], "column": steps[1], "W": source, "P": target},
    )
    code = PackingCode(form.split, steps[0] == 1)
    return BlockLaunch(SOURCES.compiled(code.description, code.write), words)


BLOCK = Fields("threads M K vectors parts row column", addresses="W P")


@dataclass(frozen=True)
class PackingCode:
    """What tells the code of one kernel from that of another; `dense`: rows lie side by side."""

    split: bool
    dense: bool

    @property
    def description(self) -> str:
        """A text that only equal codes have."""
        return f"panels {self.split} {self.dense}"

    def write(self, lines: Lines) -> None:
        """Write the work of one thread: some vectors of panels, for all columns k."""
        writer = Writer(lines, BLOCK)
        v, w = writer.v, writer.w
        part, floats = w.M // w.parts, w.vectors * v.count
        panels = part.pieces(floats) * w.parts

        def one(i: Term) -> None:
            panel, vector = i // w.vectors, i % w.vectors
            within = panel // w.parts * floats + vector * v.count
            m = panel % w.parts * part + within
            mask = lanes_below(v, part - within)
            source = w.W.at(m * w.row)

            def column(k: Term) -> Term:
                start = source.at(k * w.column)
                return v.load(start, 0, mask) if self.dense else gather(v, start, w.row, mask)

            (self._split if self.split else self._plain)(writer, panel, vector, column)

        count_loop(lines, *share(lines, panels * w.vectors), one)

    @staticmethod
    def _plain(writer: Writer, panel: Term, vector: Term, column: Callable[[Term], Term]) -> None:
        w = writer.w
        start = panel * w.K * w.vectors + vector

        def put(k: Term) -> None:
            place = (start + k * w.vectors) * writer.v.count
            writer.put(column(k), w.P, place)

        count_loop(writer.lines, 0, w.K, put)

    @staticmethod
    def _split(writer: Writer, panel: Term, vector: Term, column: Callable[[Term], Term]) -> None:
        v, w = writer.v, writer.w
        steps, tiles = w.K // DEPTH, w.vectors * PIECES
        start = panel * steps * tiles

        def put(pair: Term) -> None:
            step, within = pair // (DEPTH // 2), pair % (DEPTH // 2)
            k = step * DEPTH + within
            both = [pieces(v, column(k + half * DEPTH // 2)) for half in range(2)]
            for piece, (low, high) in enumerate(zip(*both, strict=True)):
                tile = w.vectors * piece + vector
                tile = start + step * tiles + tile
                there = w.P.bytes_on(tile * TILE_BYTES + within * (TILE_BYTES // (DEPTH // 2)))
                there.of(v.integer).store(paired(low, high), 4)

        count_loop(writer.lines, 0, w.K // 2, put)
