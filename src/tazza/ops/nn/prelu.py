"""Rectifiers with learned slopes: PRelu.

X, Y, dY and dX have one shape: (N, C, S...), with NHWC (N, S..., C). W has one element a channel, or a single one.
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
    formula,
    kernel,
    schema,
    show_dims,
)
from tazza.ops.nn.channel import ORDER, align_vectors, along, beside_channels, channel_count
from tazza.ops.nn.window import channels_first
from tazza.ops.shape.axis import agree, product
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

PRELU = schema(
    "PRelu",
    "Y = X where X > 0, else W * X.",
    inputs=[
        blob("X", FLOAT, doc="(N, C, S...), NHWC: (N, S..., C)"),
        blob("W", "X", role=Role.PARAMETER, doc="C elements of any shape, or one for all channels"),
    ],
    outputs=[blob("Y", like="X")],
    args=[ORDER],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="He, Zhang, Ren, Sun 2015, arXiv 1502.01852, section 2.1",
    example="""
    >>> run("PRelu", [[-1.0, -1.0, 3.0]], [0.5, 2.0, 7.0])
    array([[-0.5, -2. ,  3. ]], dtype=float32)
    """,
)
formula(PRELU, Y="where(X > 0, X, W * X)", align=align_vectors)


def check_slopes(op: OpView, X: TensorSpec, W: TensorSpec) -> None:
    """Check that W has one slope for each channel of X, or one for all."""
    C = channel_count(op, "X", X.dims)
    if W.dims is not None:
        slopes = product(W.dims)
        relation = f"W has the shape {show_dims(W.dims)}, X has {C} channels"
        op.require(agree(slopes, C) or slopes == 1, relation, "W must have one element, or one for each channel")


@PRELU.infer
def prelu_infer(op: OpView, X: TensorSpec, W: TensorSpec) -> TensorSpec:
    check_slopes(op, X, W)
    return TensorSpec(X.dims, X.dtype)


PRELU.batched("X")


@PRELU.cost
def prelu_cost(op: OpView, X: TensorSpec, W: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(2 * X.size, X.nbytes + W.nbytes, Y.nbytes, W.nbytes)


@PRELU.gradient
def prelu_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("PReluGradient", [g.Y, g.dY, g.X, g.W], [g.dX, g.dW])


@kernel(PRELU)
def prelu(op: OpView, X: Array, W: Array, Y: Array) -> None:
    x, y = channels_first(op.order, X), channels_first(op.order, Y)
    np.multiply(x, np.where(x > 0, x.dtype.type(1), along(W, x)), out=y)


PRELU_GRADIENT = schema(
    "PReluGradient",
    """dX = dY where X > 0, else W * dY; dW = sum of dY * X where X < 0, over all but the channels, or over everything.

    Y is not read; it is there as Caffe2 hands it over. After a PRelu in place X is Y, which has the sign of X where W
    is positive only.""",
    inputs=[blob("Y", FLOAT, "*S"), blob("dY", "Y", "*S"), blob("X", "Y", "*S"), blob("W", "Y", role=Role.PARAMETER)],
    outputs=[blob("dX", like="X"), blob("dW", like="W")],
    args=[ORDER],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="He, Zhang, Ren, Sun 2015, section 2.1",
    example="""
    >>> X = np.array([[-1.0, -2.0, 3.0]], "f")
    >>> run("PReluGradient", X, np.array([[1.0, 2.0, 3.0]], "f"), X, [0.5])
    (array([[0.5, 1. , 3. ]], dtype=float32), array([-5.], dtype=float32))
    """,
)


@PRELU_GRADIENT.infer
def prelu_gradient_infer(
    op: OpView, Y: TensorSpec, dY: TensorSpec, X: TensorSpec, W: TensorSpec
) -> tuple[TensorSpec, TensorSpec]:
    del Y, dY
    check_slopes(op, X, W)
    return TensorSpec(X.dims, X.dtype), TensorSpec(W.dims, W.dtype)


@PRELU_GRADIENT.cost
def prelu_gradient_cost(
    op: OpView, Y: TensorSpec, dY: TensorSpec, X: TensorSpec, W: TensorSpec, dX: TensorSpec, dW: TensorSpec
) -> Cost:
    del op, Y  # Y is not read
    return Cost(5 * X.size, dY.nbytes + X.nbytes + W.nbytes, dX.nbytes + dW.nbytes, W.nbytes)


@kernel(PRELU_GRADIENT)
def prelu_gradient_kernel(op: OpView, dY: Array, X: Array, W: Array, dX: Array, dW: Array) -> None:
    x, dy, dx = (channels_first(op.order, array) for array in (X, dY, dX))
    axes = None if W.size == 1 else beside_channels(x)
    dW[...] = (dy * np.minimum(x, 0)).sum(axis=axes, dtype=np.float64).reshape(W.shape)
    np.multiply(dy, np.where(x > 0, x.dtype.type(1), along(W, x)), out=dx)
