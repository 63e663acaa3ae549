"""Weights in panels, P[panel][k][vector][L], and the kernel of Copy that makes them of W (M, K)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tazza.codegen.block import BlockLaunch, Slot, all_float32
from tazza.codegen.emit import Lines
from tazza.codegen.kernel import lane_count, threads_for
from tazza.codegen.loop import count_loop, lanes_below, share
from tazza.codegen.rows import element
from tazza.codegen.writer import Writer, gather
from tazza.device import Context
from tazza.engines.native.panel_product import SOURCES
from tazza.operator import LaidOut, Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.shape.copy import COPY
from tazza.runtime.threads import thread_count
from tazza.tensor import Opaque, Strided, TensorSpec

ENGINE = "native/panel_product"


@dataclass(frozen=True)
class Panels:
    """What an opaque layout of this engine holds: W (M, K) in panels of so many vectors of rows.

    Its rows are `parts` equal parts one behind the other, such as the gates of units; so many panels in a row are the
    same rows of each. What a part lacks to whole panels is 0.
    """

    M: int
    K: int
    vectors: int
    parts: int = 1

    @property
    def count(self) -> int:
        """How many panels there are."""
        return -(-(self.M // self.parts) // (self.vectors * lane_count())) * self.parts

    def layout(self) -> Opaque:
        """Return the layout; blobs are never kept in it."""
        nbytes = 4 * self.count * self.K * self.vectors * lane_count()
        return Opaque(ENGINE, self, nbytes, derived=True)


@launcher(COPY, engine=ENGINE)
def prepare_panels(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> LaidOut | Launch | Unsupported:
    """Pack weights; other copies are left to other engines."""
    del op, context
    W, P = inputs[0], outputs[0]
    form = P.layout.descriptor if isinstance(P, TensorSpec) and isinstance(P.layout, Opaque) else None
    if not isinstance(form, Panels):
        return Unsupported("it copies nothing but weights into the panels that it reads")
    if not isinstance(W, TensorSpec) or not isinstance(W.layout, Strided) or not all_float32(W) or len(W.shape) != 2:
        return Unsupported(f"it packs strided matrices of float32, not {W}")
    return LaidOut(pack_launch(form, W.layout.steps(W.shape)), {"Y": form.layout()})


def pack_launch(form: Panels, steps: Sequence[int]) -> BlockLaunch:
    """Return the launch that writes Y, the panels, of X (M, K), by its steps from row to row and column to column."""
    threads = threads_for(thread_count(), form.M * form.K, 2, 8)
    words = (threads, Slot("X"), Slot("Y"), form.M, form.K, form.vectors, form.parts, *steps)
    return BlockLaunch(SOURCES.compiled("panels", write_panels), words)


WORDS = ("threads", "W", "P", "M", "K", "vectors", "parts", "row", "column")


def write_panels(lines: Lines) -> None:
    """Write the work of one thread: some vectors of panels, for all columns k."""
    writer = Writer(lines, WORDS, ("W", "P"))
    v, w = writer.v, writer.w
    part = writer.div(w["M"], w["parts"])
    floats = writer.mul(w["vectors"], v.count)
    panels = writer.mul(writer.pieces(part, floats), w["parts"])
    first, last = share(lines, writer.mul(panels, w["vectors"]))

    def one(i: str) -> None:
        panel, vector = writer.div(i, w["vectors"]), writer.rem(i, w["vectors"])
        within = writer.add(writer.mul(writer.div(panel, w["parts"]), floats), writer.mul(vector, v.count))
        m = writer.add(writer.mul(writer.rem(panel, w["parts"]), part), within)
        mask = lanes_below(v, writer.sub(part, within))
        source = element(lines, w["W"], writer.mul(m, w["row"]))
        start = writer.add(writer.mul(writer.mul(panel, w["K"]), w["vectors"]), vector)

        def column(k: str) -> None:
            value = gather(v, element(lines, source, writer.mul(k, w["column"])), w["row"], mask)
            writer.put(value, w["P"], writer.mul(writer.add(start, writer.mul(k, w["vectors"])), v.count))

        count_loop(lines, "0", w["K"], column)

    count_loop(lines, first, last, one)
