"""Smooth relatives of Relu and of the sign: Softplus, Softsign. All blobs have one shape S."""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, HALVES, Array, Effects, GradientRequest, blob, ends, formula, kernel, schema
from tazza.ops.math.elementwise import formula_cost
from tazza.proto import OperatorDef

SOFTPLUS = schema(
    "Softplus",
    "Y = log(1 + exp(X)).",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Dugas, Bengio, Belisle, Nadeau, Garcia 2001, section 3",
    example="""
    >>> run("Softplus", [-1000.0, 1000.0])
    array([   0., 1000.], dtype=float32)
    """,
)
formula(SOFTPLUS, Y="max(X, 0) + log1p(exp(-abs(X)))")
SOFTPLUS.cost(formula_cost)


@SOFTPLUS.gradient
def softplus_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("SoftplusGradient", [g.Y, g.dY], [g.dX])


@kernel(SOFTPLUS)
def softplus(X: Array, Y: Array) -> None:
    np.logaddexp(X, 0, out=Y)


SOFTPLUS_GRADIENT = schema(
    "SoftplusGradient",
    """dX = dY * (1 - exp(-Y)).

    The sigmoid of X, since exp(Y) = 1 + exp(X).""",
    inputs=[blob("Y", FLOAT, "*S", elsewhere=HALVES), blob("dY", "Y", "#S")],
    outputs=[blob("dX", like="Y")],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("SoftplusGradient", [1000.0], [3.0])
    array([3.], dtype=float32)
    """,
)
formula(SOFTPLUS_GRADIENT, dX="dY * -expm1(-Y)")
SOFTPLUS_GRADIENT.cost(formula_cost)


@kernel(SOFTPLUS_GRADIENT)
def softplus_gradient_kernel(Y: Array, dY: Array, dX: Array) -> None:
    np.multiply(dY, -np.expm1(-Y), out=dX)


SOFTSIGN = schema(
    "Softsign",
    "Y = X / (1 + |X|).",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Bergstra, Desjardins, Lamblin, Bengio 2009",
    example="""
    >>> run("Softsign", [-1.0, 3.0])
    array([-0.5 ,  0.75], dtype=float32)
    """,
)
formula(SOFTSIGN, Y="X / (1 + abs(X))")
SOFTSIGN.cost(formula_cost)


@SOFTSIGN.gradient
def softsign_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("SoftsignGradient", [g.X, g.dY], [g.dX])


@kernel(SOFTSIGN)
def softsign(X: Array, Y: Array) -> None:
    np.divide(X, 1 + np.abs(X), out=Y)


SOFTSIGN_GRADIENT = schema(
    "SoftsignGradient",
    "dX = dY / (1 + |X|)**2.",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES), blob("dY", "X", "*S")],
    outputs=[blob("dX", like="X")],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("SoftsignGradient", [-1.0, 3.0], [8.0, 8.0])
    array([2. , 0.5], dtype=float32)
    """,
)
formula(SOFTSIGN_GRADIENT, dX="dY / square(1 + abs(X))")
SOFTSIGN_GRADIENT.cost(formula_cost)


@kernel(SOFTSIGN_GRADIENT)
def softsign_gradient_kernel(X: Array, dY: Array, dX: Array) -> None:
    np.divide(dY, np.square(1 + np.abs(X)), out=dX)
