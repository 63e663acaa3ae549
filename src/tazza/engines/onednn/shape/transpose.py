"""Transpose, NCHW2NHWC and NHWC2NCHW: reorders between the layout of X, its axes named anew, and that of Y."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.engines.onednn.descriptor import Descriptor, accepts_strided
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.shape.copy import reorder
from tazza.operator import LaidOut, OpView
from tazza.ops.shape.transpose import NCHW2NHWC, NHWC2NCHW, TRANSPOSE, transpose_axes
from tazza.tensor import TensorSpec


@onednn(TRANSPOSE, empty="zero", accepts=accepts_strided)
def transpose(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Axis i of Y is axis `axes[i]` of X."""
    return _reordered(specs, transpose_axes(op, len(specs["X"].shape)))


@onednn(NCHW2NHWC, empty="zero", accepts=accepts_strided)
def nchw2nhwc(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Channels last; where they lie so already this is a plain copy."""
    del op
    rank = len(specs["X"].shape)
    return _reordered(specs, (0, *range(2, rank), 1))


@onednn(NHWC2NCHW, empty="zero", accepts=accepts_strided)
def nhwc2nchw(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Channels as axis 1; a plain copy where a Y with dense channels is wished for."""
    del op
    rank = len(specs["X"].shape)
    return _reordered(specs, (0, rank - 1, *range(1, rank - 1)))


def _reordered(specs: dict[str, TensorSpec], axes: Sequence[int]) -> Answer:
    """Return the launch that writes X with its axes in another order, in the layout that is wished for Y."""
    X, Y = specs["X"], specs["Y"]
    source = Descriptor.of(X)
    found = reorder(source.permute(axes) if len(axes) else source, Descriptor.of(Y))
    return LaidOut(PrimitiveLaunch(found, {"src": "X", "dst": "Y"}), {"Y": Y.layout})
