"""Filters as the engine reads them, U[panel][ky][kx][c][2 L], and the kernel of Copy that makes them of W."""

from __future__ import annotations

from typing import cast

from tazza.codegen.block import BlockLaunch, Slot
from tazza.codegen.fields import Fields
from tazza.codegen.image import filter_words, filters_to_pack
from tazza.codegen.kernel import lane_count
from tazza.codegen.loop import count_loop, lanes_below, share
from tazza.codegen.term import Lines, Term
from tazza.codegen.writer import Writer, gather
from tazza.data_class import dataclass
from tazza.engines.native import native
from tazza.engines.native.few_channels import SOURCES
from tazza.operator import Array, LaidOut, Launch
from tazza.operator.kernel import accepts_strided
from tazza.ops.shape.copy import COPY
from tazza.tensor import Opaque, Tensor, TensorSpec

ENGINE = "native/few_channels"


@dataclass(frozen=True)
class Filters:
    """What an opaque layout of this engine holds: W (K, C, kH, kW) packed, K filled up with 0.

    `last` says that the blob's shape is (K, kH, kW, C).
    """

    C: int
    K: int
    kH: int
    kW: int
    last: bool

    def layout(self) -> Opaque:
        """Return the layout."""
        panel = 2 * lane_count()
        return Opaque(ENGINE, self, 4 * self.kH * self.kW * self.C * -(-self.K // panel) * panel)


def unpacked(tensor: Tensor) -> Array:
    """Return filters that lie packed as W (K, C, kH, kW), or (K, kH, kW, C)."""
    form = cast("Filters", cast("Opaque", tensor.layout).descriptor)
    panels = tensor.span.reshape(-1, form.kH, form.kW, form.C, 2 * lane_count())  # (panel, ky, kx, c, k)
    filters = panels.transpose(0, 4, 1, 2, 3).reshape(-1, *panels.shape[1:-1])[: form.K]  # (k, ky, kx, c)
    return filters if form.last else filters.transpose(0, 3, 1, 2)


@native(COPY, engine=ENGINE, accepts=accepts_strided)
def prepare_filters(X: TensorSpec, Y: TensorSpec) -> LaidOut | Launch:
    """Pack filters; other copies are left to other engines."""
    found = filters_to_pack(Filters, X, Y)
    W, lies, form = found
    words = BLOCK.words(
        **{"threads": 1, "C": form.C, "K": form.K, "kH": form.kH, "kW": form.kW, "W": Slot("X"), "U": Slot("Y")},
        **filter_words(W, lies, last=form.last),
    )
    return LaidOut(BlockLaunch(SOURCES.compiled("stem filters", write_filters), words), {"Y": form.layout()})


BLOCK = Fields("threads C K kH kW w_k w_c w_y w_x", addresses="W U")


def write_filters(lines: Lines) -> None:
    """Write the work of one thread: a vector of each panel for each tap and channel."""
    writer = Writer(lines, BLOCK)
    v, w = writer.v, writer.w
    taps = w.kH * w.kW * w.C

    # For each panel, tap (ky, kx) and channel c.
    def one(i: Term) -> None:
        tap, c = i % taps // w.C, i % w.C
        within = tap // w.kW * w.w_y + tap % w.kW * w.w_x + c * w.w_c
        # U[panel][ky][kx][c] = W[k][c][ky][kx] for each vector of output channels k.
        for half in range(2):
            k = i // taps * writer.panel + half * v.count
            value = gather(v, w.W.at(within + k * w.w_k), w.w_k, lanes_below(v, w.K - k))
            writer.put(value, w.U, i * writer.panel + half * v.count)

    count_loop(lines, *share(lines, w.K.pieces(writer.panel) * taps), one)
