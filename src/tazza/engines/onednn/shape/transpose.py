"""Transpose, NCHW2NHWC and NHWC2NCHW: reorders between the layout of X, its axes named anew, and that of Y."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.engines.onednn.descriptor import Descriptor, accepts_strided, seen_as_it_lies
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.shape.copy import reorder
from tazza.operator import LaidOut, OpView
from tazza.ops.shape.transpose import NCHW2NHWC, NHWC2NCHW, TRANSPOSE, transpose_axes
from tazza.tensor import TensorSpec


@onednn(TRANSPOSE, NCHW2NHWC, NHWC2NCHW, empty="zero", accepts=accepts_strided)
def transpose(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Axis i of Y is axis `axes[i]` of X, in the layout that is wished for: a plain copy where X lies so already."""
    X, Y = specs["X"], specs["Y"]
    axes = _axes(op, len(X.shape))
    found = reorder(Descriptor.of(X).permute(axes) if len(axes) else Descriptor.of(X), seen_as_it_lies(Y))
    return LaidOut(PrimitiveLaunch(found, {"src": "X", "dst": "Y"}), {"Y": Y.layout})


def _axes(op: OpView, rank: int) -> Sequence[int]:
    if op.type == TRANSPOSE.type:
        return transpose_axes(op, rank)
    return (0, *range(2, rank), 1) if op.type == NCHW2NHWC.type else (0, rank - 1, *range(1, rank - 1))
