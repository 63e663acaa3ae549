"""Sums of all pixels above and left of a corner: IntegralImage.

Letters: N images, C channels, H x W pixels, (H + 1) x (W + 1) corners: X and dX are (N, C, H, W), Y and dY
(N, C, H + 1, W + 1).

Source: Viola, Jones 2001, section 2.1.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Role,
    blob,
    ends,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

INTEGRAL_IMAGE = schema(
    "IntegralImage",
    "Y[h, w] = the sum of X over the first h rows and w columns.",
    inputs=[blob("X", FLOAT, "N C H W")],
    outputs=[blob("Y", "X", doc="(N, C, H + 1, W + 1)")],
    effects=Effects.PURE,
    source="Viola, Jones 2001, section 2.1",
    example="""
    >>> run("IntegralImage", [[[[1.0, 2.0]]]])
    array([[[[0., 0., 0.],
             [0., 1., 3.]]]], dtype=float32)
    """,
)
INTEGRAL_IMAGE_GRADIENT = schema(
    "IntegralImageGradient",
    """dX[h, w] = the sum of dY[i, j] over i <= h and j <= w.

    That is what Caffe2 computes. The derivative of the forward operator would be the sum over i > h and j > w.""",
    inputs=[blob("X", role=Role.SHAPE, doc="(N, C, H, W), of any type"), blob("dY", FLOAT, doc="(N, C, H + 1, W + 1)")],
    outputs=[blob("dX", "dY")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="Caffe2",
    example="""
    >>> run("IntegralImageGradient", [[[[1.0, 2.0]]]], [[[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]]])
    array([[[[1., 3.]]]], dtype=float32)
    """,
)
PIXELS = (2, 3)


def corners(X: TensorSpec) -> tuple[int | None, ...] | None:
    """Return the extents of Y."""
    if X.dims is None:
        return None
    return (*X.dims[:2], *(None if extent is None else extent + 1 for extent in X.dims[2:]))


@INTEGRAL_IMAGE.infer
def integral_image_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    del op
    return TensorSpec(corners(X), X.dtype)


INTEGRAL_IMAGE.batched("X")


@INTEGRAL_IMAGE.cost
def integral_image_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,), flops=2 * X.size)


@INTEGRAL_IMAGE.gradient
def integral_image_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("IntegralImageGradient", [g.like("X"), g.dY], [g.dX])


@kernel(INTEGRAL_IMAGE)
def integral_image(X: Array, Y: Array) -> None:
    Y[...] = 0
    Y[:, :, 1:, 1:] = sums(X)


def sums(x: Array) -> Array:
    """Return the sum up to each pixel, along both axes."""
    return x.cumsum(axis=2, dtype=np.float64).cumsum(axis=3)


@INTEGRAL_IMAGE_GRADIENT.infer
def integral_image_gradient_infer(op: OpView, X: TensorSpec, dY: TensorSpec) -> TensorSpec:
    wanted = corners(X)
    if wanted is not None:
        op.require(len(wanted) == 4, f"X has {len(wanted)} dimensions, it must have 4: (N, C, H, W)")
        if dY.dims is not None:
            relation = f"dY has the shape {show_dims(dY.dims)}, Y {show_dims(wanted)}"
            op.require(shapes_agree(dY.dims, wanted), relation)
    return TensorSpec(X.dims, dY.dtype)


@INTEGRAL_IMAGE_GRADIENT.cost
def integral_image_gradient_cost(op: OpView, X: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op, X
    return streamed((dY,), (dX,), flops=2 * dX.size)


@kernel(INTEGRAL_IMAGE_GRADIENT)
def integral_image_gradient_kernel(dY: Array, dX: Array) -> None:
    dX[...] = sums(dY[:, :, :-1, :-1])
