"""The hyperbolic tangent as an activation: Tanh. All blobs have one shape S."""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, HALVES, Array, Effects, GradientRequest, blob, ends, formula, kernel, schema
from tazza.ops.math.elementwise import formula_cost
from tazza.proto import OperatorDef

TANH = schema(
    "Tanh",
    "Y = (exp(X) - exp(-X)) / (exp(X) + exp(-X)).",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="LeCun, Bottou, Orr, Muller 1998, Efficient BackProp, section 4.4",
    example="""
    >>> run("Tanh", [0.0, 100.0])
    array([0., 1.], dtype=float32)
    """,
)
formula(TANH, Y="tanh(X)")
TANH.cost(formula_cost)


@TANH.gradient
def tanh_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("TanhGradient", [g.Y, g.dY], [g.dX])


@kernel(TANH)
def tanh(X: Array, Y: Array) -> None:
    np.tanh(X, out=Y)


TANH_GRADIENT = schema(
    "TanhGradient",
    "dX = dY * (1 - Y * Y).",
    inputs=[blob("Y", FLOAT, "*S", elsewhere=HALVES), blob("dY", "Y", "*S")],
    outputs=[blob("dX", like="Y")],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("TanhGradient", [0.5, 1.0], [4.0, 4.0])
    array([3., 0.], dtype=float32)
    """,
)
formula(TANH_GRADIENT, dX="dY * (1 - Y * Y)")
TANH_GRADIENT.cost(formula_cost)


@kernel(TANH_GRADIENT)
def tanh_gradient_kernel(Y: Array, dY: Array, dX: Array) -> None:
    np.multiply(dY, 1 - Y * Y, out=dX)
