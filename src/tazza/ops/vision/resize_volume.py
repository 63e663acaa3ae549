"""Volumes in another size: ResizeNearest3D.

Letters: N volumes, C channels, T, H and W frames, height and width, `t`, `h` and `w` those of Y, with the order NCHW:

    X (N, C, T, H, W)    Y (N, C, t, h, w)    t = floor(T * temporal_scale), and so on

Sizes and places are computed in float32, as in Caffe2, which scales height and width by 2 alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Dims,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.nn.channel import CHANNELS_FIRST
from tazza.ops.shape.axis import shapes_agree
from tazza.ops.vision.resize import nearest, scaled
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

SCALES = ("temporal_scale", "height_scale", "width_scale")
ARGS = (
    *(arg(name, float, 1.0, doc="above 0") for name in SCALES),
    CHANNELS_FIRST,
)

RESIZE_NEAREST_3D = schema(
    "ResizeNearest3D",
    "Y[..., k, i, j] = X at each of these divided by its scale and rounded down, the last element where it ends.",
    inputs=[blob("X", FLOAT, "N C T H W")],
    outputs=[blob("Y", FLOAT, doc="(N, C, t, h, w)")],
    args=ARGS,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("ResizeNearest3D", [[[[[1.0]], [[2.0]]]]], temporal_scale=2.0)[0, 0, :, 0, 0]
    array([1., 1., 2., 2.], dtype=float32)
    """,
)
RESIZE_NEAREST_3D.batched("X")
RESIZE_NEAREST_3D_GRADIENT = schema(
    "ResizeNearest3DGradient",
    "dX = sum of dY over all elements of Y that were taken from one of X.",
    inputs=[blob("dY", FLOAT, "N C t h w"), blob("X", None, "N C T H W", role=Role.SHAPE, doc="of any type")],
    outputs=[blob("dX", "dY")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> dY, X = np.arange(4, dtype=np.float32).reshape(1, 1, 4, 1, 1), np.zeros((1, 1, 2, 1, 1), np.float32)
    >>> run("ResizeNearest3DGradient", dY, X, temporal_scale=2.0)[0, 0, :, 0, 0]
    array([1., 5.], dtype=float32)
    """,
)


@RESIZE_NEAREST_3D.validate
@RESIZE_NEAREST_3D_GRADIENT.validate
def resize_volume_validate(op: OpView) -> None:
    """Refuse scales that are not above 0."""
    for name in SCALES:
        if not op.arguments[name] > 0:
            raise op.error(ArgumentError, f"{name} = {op.arguments[name]} must be above 0")


def scales_of(op: OpView) -> list[np.float32]:
    """Return the three scales."""
    return [np.float32(op.arguments[name]) for name in SCALES]


def resized(op: OpView, dims: Sequence[int | None]) -> Dims:
    """Return the extents of Y."""
    pairs = zip(dims[2:], scales_of(op), strict=True)
    return (*dims[:2], *(None if n is None else scaled(op, n, scale) for n, scale in pairs))


@RESIZE_NEAREST_3D.infer
def resize_volume_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    return TensorSpec(None if X.dims is None else resized(op, X.dims), X.dtype)


@RESIZE_NEAREST_3D_GRADIENT.infer
def resize_volume_gradient_infer(op: OpView, dY: TensorSpec, X: TensorSpec) -> TensorSpec:
    if X.dims is not None and dY.dims is not None:
        wanted = resized(op, X.dims)
        relation = f"dY has the shape {show_dims(dY.dims)}, resizing X gives {show_dims(wanted)}"
        op.require(shapes_agree(dY.dims, wanted), relation)
    return TensorSpec(X.dims, dY.dtype)


@RESIZE_NEAREST_3D.cost
def resize_volume_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,))


@RESIZE_NEAREST_3D_GRADIENT.cost
def resize_volume_gradient_cost(op: OpView, dY: TensorSpec, X: TensorSpec, dX: TensorSpec) -> Cost:
    del op, X
    return streamed((dY,), (dX,), flops=dY.size)


@RESIZE_NEAREST_3D.gradient
def resize_volume_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("ResizeNearest3DGradient", [g.dY, g.X], [g.dX])


def places(op: OpView, small: Array, large: Array) -> Any:
    """Return what picks for each element of a volume the one of X that it is taken from."""
    found = [nearest(large.shape[i], small.shape[i], scale) for i, scale in enumerate(scales_of(op), 2)]
    return (slice(None), slice(None), *np.ix_(*found))


@kernel(RESIZE_NEAREST_3D)
def resize_volume(op: OpView, X: Array, Y: Array) -> None:
    Y[...] = X[places(op, X, Y)]


@kernel(RESIZE_NEAREST_3D_GRADIENT)
def resize_volume_gradient_kernel(op: OpView, dY: Array, dX: Array) -> None:
    dX[...] = 0
    np.add.at(dX, places(op, dX, dY), dY)
