"""Softmax over everything from `axis` on. X, Y, dY and dX all have one shape S."""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, HALVES, Array, Cost, Effects, GradientRequest, OpView, arg, blob, ends, kernel, schema
from tazza.ops.shape.axis import axes_from, cut
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

AXIS = arg("axis", int, 1, doc="the dimensions from here on are normalised together")

SOFTMAX = schema(
    "Softmax",
    """Y = exp(X) / sum of exp(X), the sum over all dimensions from `axis` on.

    With the default axis an image (N, C, H, W) is normalised over C, H and W. The maximum is subtracted first, so that
    nothing overflows.""",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", "X", "*S")],
    args=[AXIS],
    effects=Effects.PURE,
    source="Goodfellow, Bengio, Courville 2016, sections 4.1 and 6.2.2.3; Caffe2",
    example="""
    >>> run("Softmax", [[0.0, 0.0], [1000.0, 0.0]])
    array([[0.5, 0.5],
           [1. , 0. ]], dtype=float32)
    """,
)


SOFTMAX.batched("X", when=lambda op: op.axis >= 1)


@SOFTMAX.infer
def softmax_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is not None:
        cut(op, "axis", "X", X.dims)
    return TensorSpec(X.dims, X.dtype)


@SOFTMAX.cost
def softmax_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(5 * Y.size, X.nbytes, Y.nbytes)  # maximum, difference, exponential, sum, quotient


@SOFTMAX.gradient
def softmax_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("SoftmaxGradient", [g.Y, g.dY], [g.dX])


@kernel(SOFTMAX)
def softmax(op: OpView, X: Array, Y: Array) -> None:
    columns = axes_from(op.axis, X.ndim)
    np.subtract(X, X.max(axis=columns, keepdims=True, initial=-np.inf), out=Y)
    np.exp(Y, out=Y)
    np.divide(Y, Y.sum(axis=columns, keepdims=True), out=Y)


SOFTMAX_GRADIENT = schema(
    "SoftmaxGradient",
    """dX = Y * (dY - sum of Y * dY), the sum over all dimensions from `axis` on.

    From dY[j] / dX[i] = Y[j] * ((i = j) - Y[i]).""",
    inputs=[blob("Y", FLOAT, "*S", elsewhere=HALVES), blob("dY", "Y", "#S")],
    outputs=[blob("dX", "Y", "*S")],
    args=[AXIS],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("SoftmaxGradient", [[0.25, 0.75]], [[4.0, 0.0]])
    array([[ 0.75, -0.75]], dtype=float32)
    """,
)


@SOFTMAX_GRADIENT.infer
def softmax_gradient_infer(op: OpView, Y: TensorSpec, dY: TensorSpec) -> TensorSpec:
    del dY
    if Y.dims is not None:
        cut(op, "axis", "Y", Y.dims)
    return TensorSpec(Y.dims, Y.dtype)


@SOFTMAX_GRADIENT.cost
def softmax_gradient_cost(op: OpView, Y: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op
    return Cost(4 * dX.size, Y.nbytes + dY.nbytes, dX.nbytes)


@kernel(SOFTMAX_GRADIENT)
def softmax_gradient_kernel(op: OpView, Y: Array, dY: Array, dX: Array) -> None:
    columns = axes_from(op.axis, Y.ndim)
    np.multiply(Y, dY, out=dX)
    np.subtract(dY, dX.sum(axis=columns, keepdims=True), out=dX)
    dX *= Y
