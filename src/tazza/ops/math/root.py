"""Roots: Cbrt, the cubic one; SquareRootDivide, rows divided by square roots. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.errors import NumericError
from tazza.operator import (
    FLOAT,
    INDEX,
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
    streamed,
)
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

CBRT = schema(
    "Cbrt",
    "Y = the cubic root of X.",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Cbrt", [8.0, -27.0])
    array([ 2., -3.], dtype=float32)
    """,
)
CBRT_GRADIENT = schema(
    "CbrtGradient",
    "dX = dY / (3 * Y^2).",
    inputs=[blob("dY", FLOAT, "*S"), blob("Y", FLOAT, "*S", role=Role.DATA)],
    outputs=[blob("dX", like="dY")],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("CbrtGradient", [12.0, 27.0], [2.0, -3.0])
    array([1., 1.], dtype=float32)
    """,
)
SQUARE_ROOT_DIVIDE = schema(
    "SquareRootDivide",
    "Y[n] = X[n] / sqrt(scale[n]); a row whose scale is 0 stays.",
    inputs=[
        blob("X", FLOAT, "N *S"),
        blob("scale", FLOAT | INDEX, "N", role=Role.DATA, doc="not negative"),
    ],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("SquareRootDivide", [[2.0, 6.0], [5.0, 7.0]], [4, 0])
    array([[1., 3.],
           [5., 7.]], dtype=float32)
    """,
)


@CBRT.cost
def cbrt_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,), flops=10 * Y.size)


@CBRT_GRADIENT.cost
def cbrt_gradient_cost(op: OpView, dY: TensorSpec, Y: TensorSpec, dX: TensorSpec) -> Cost:
    del op
    return streamed((dY, Y), (dX,), flops=3 * dX.size)


@SQUARE_ROOT_DIVIDE.cost
def square_root_divide_cost(op: OpView, X: TensorSpec, scale: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X, scale), (Y,), flops=Y.size + 2 * scale.size)


@CBRT.gradient
def cbrt_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("CbrtGradient", [g.dY, g.Y], [g.dX])


@SQUARE_ROOT_DIVIDE.gradient
def square_root_divide_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("SquareRootDivide", [g.dY, g.scale], [g.dX])


@kernel(CBRT)
def cbrt(X: Array, Y: Array) -> None:
    Y[...] = np.cbrt(X, dtype=np.float64)  # that of float32 is a bit off


@kernel(CBRT_GRADIENT)
def cbrt_gradient_kernel(dY: Array, Y: Array, dX: Array) -> None:
    np.divide(dY, 3 * Y * Y, out=dX)


@kernel(SQUARE_ROOT_DIVIDE)
def square_root_divide(op: OpView, X: Array, scale: Array, Y: Array) -> None:
    wrong = ~(scale >= 0)
    if wrong.any():
        n = int(wrong.argmax())
        raise op.error(NumericError, f"scale[{n}] is {scale[n]}, it has no square root")
    factors = 1 / np.sqrt(np.where(scale == 0, 1, scale).astype(X.dtype))
    np.multiply(X, factors.reshape(-1, *(1,) * (X.ndim - 1)), out=Y)


formula(CBRT, Y="cbrt(X)")
formula(CBRT_GRADIENT, dX="dY / (3 * Y * Y)")
