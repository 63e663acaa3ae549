"""Size, sign and rounding of numbers: Abs, Sign, Negative, Reciprocal, Floor, Ceil. All blobs have one shape S."""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Effects,
    GradientRequest,
    blob,
    ends,
    forbidden,
    formula,
    kernel,
    not_written,
    schema,
)
from tazza.ops.math.elementwise import formula_cost
from tazza.ops.math.sum import SUMMABLE
from tazza.proto import OperatorDef

ABS = schema(
    "Abs",
    "Y = |X|.",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", like="X")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Abs", [-1.5, 2.0])
    array([1.5, 2. ], dtype=float32)
    """,
)
formula(ABS, Y="abs(X)")
ABS.cost(formula_cost)


@ABS.gradient
def abs_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("AbsGradient", [g.X, g.dY], [g.dX])


@kernel(ABS)
def abs_(X: Array, Y: Array) -> None:
    np.abs(X, out=Y)


ABS_GRADIENT = schema(
    "AbsGradient",
    "dX = dY * sign of X; 0 where X is 0.",
    inputs=[blob("X", FLOAT, "*S"), blob("dY", "X", "*S")],
    outputs=[blob("dX", like="X")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("AbsGradient", [-1.5, 0.0, 2.0], [3.0, 3.0, 3.0])
    array([-3.,  0.,  3.], dtype=float32)
    """,
)
formula(ABS_GRADIENT, dX="dY * sign(X)")
ABS_GRADIENT.cost(formula_cost)


@kernel(ABS_GRADIENT)
def abs_gradient_kernel(X: Array, dY: Array, dX: Array) -> None:
    np.multiply(dY, np.sign(X), out=dX)


SIGN = schema(
    "Sign",
    "Y = -1, 0 or 1, as X is below, at or above 0; NaN stays.",
    inputs=[blob("X", SUMMABLE, "*S")],
    outputs=[blob("Y", like="X")],
    effects=Effects.PURE,
    no_gradient=forbidden("it is a step function"),
    source="Caffe2",
    example="""
    >>> run("Sign", [-5, 0, 7])
    array([-1,  0,  1], dtype=int32)
    """,
)
formula(SIGN, Y="sign(X)")
SIGN.cost(formula_cost)


@kernel(SIGN)
def sign(X: Array, Y: Array) -> None:
    np.sign(X, out=Y)


NEGATIVE = schema(
    "Negative",
    "Y = -X.",
    inputs=[blob("X", SUMMABLE, "*S")],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Negative", [-5, 7])
    array([ 5, -7], dtype=int32)
    """,
)
formula(NEGATIVE, Y="-X")
NEGATIVE.cost(formula_cost)


@NEGATIVE.gradient
def negative_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("Negative", [g.dY], [g.dX])


@kernel(NEGATIVE)
def negative(X: Array, Y: Array) -> None:
    np.negative(X, out=Y)


RECIPROCAL = schema(
    "Reciprocal",
    "Y = 1 / X; infinity at 0.",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Reciprocal", [-4.0, 0.5])
    array([-0.25,  2.  ], dtype=float32)
    """,
)
formula(RECIPROCAL, Y="1 / X")
RECIPROCAL.cost(formula_cost)


@RECIPROCAL.gradient
def reciprocal_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("ReciprocalGradient", [g.Y, g.dY], [g.dX])


@kernel(RECIPROCAL)
def reciprocal(X: Array, Y: Array) -> None:
    np.divide(1, X, out=Y)


RECIPROCAL_GRADIENT = schema(
    "ReciprocalGradient",
    "dX = -dY * Y^2.",
    inputs=[blob("Y", FLOAT, "*S"), blob("dY", "Y", "*S")],
    outputs=[blob("dX", like="Y")],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("ReciprocalGradient", [-0.25, 2.0], [16.0, 1.0])
    array([-1., -4.], dtype=float32)
    """,
)
formula(RECIPROCAL_GRADIENT, dX="-dY * square(Y)")
RECIPROCAL_GRADIENT.cost(formula_cost)


@kernel(RECIPROCAL_GRADIENT)
def reciprocal_gradient_kernel(Y: Array, dY: Array, dX: Array) -> None:
    np.multiply(dY, -Y * Y, out=dX)


FLOOR = schema(
    "Floor",
    "Y = the largest whole number that is not above X.",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=not_written("it would be 0 nearly everywhere"),
    source="Caffe2",
    example="""
    >>> run("Floor", [-1.5, 2.5])
    array([-2.,  2.], dtype=float32)
    """,
)
formula(FLOOR, Y="floor(X)")
FLOOR.cost(formula_cost)


@kernel(FLOOR)
def floor(X: Array, Y: Array) -> None:
    np.floor(X, out=Y)


CEIL = schema(
    "Ceil",
    "Y = the smallest whole number that is not below X.",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=not_written("it would be 0 nearly everywhere"),
    source="Caffe2",
    example="""
    >>> run("Ceil", [-1.5, 2.5])
    array([-1.,  3.], dtype=float32)
    """,
)
formula(CEIL, Y="ceil(X)")
CEIL.cost(formula_cost)


@kernel(CEIL)
def ceil(X: Array, Y: Array) -> None:
    np.ceil(X, out=Y)
