"""The error function: Erf. All blobs have one shape S."""

from __future__ import annotations

import math

import numpy as np

from tazza.operator import FLOAT, Array, Effects, GradientRequest, blob, ends, formula, kernel, schema
from tazza.ops.math.elementwise import formula_cost
from tazza.proto import OperatorDef

ERF = schema(
    "Erf",
    "Y = 2 / sqrt(pi) * integral of exp(-t^2) for t from 0 to X.",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", like="X")],
    effects=Effects.PURE,
    source="Abramowitz, Stegun 1964, section 7.1",
    example="""
    >>> run("Erf", [0.0, 100.0])
    array([0., 1.], dtype=float32)
    """,
)
formula(ERF, Y="erf(X)")
ERF.cost(formula_cost)


@ERF.gradient
def erf_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("ErfGradient", [g.X, g.dY], [g.dX])


@kernel(ERF)
def erf(X: Array, Y: Array) -> None:
    np.copyto(Y, erf_of(X))


ERF_GRADIENT = schema(
    "ErfGradient",
    "dX = dY * 2 / sqrt(pi) * exp(-X^2).",
    inputs=[blob("X", FLOAT, "*S"), blob("dY", "X", "*S")],
    outputs=[blob("dX", like="X")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("ErfGradient", [100.0], [8.0])
    array([0.], dtype=float32)
    """,
)
formula(ERF_GRADIENT, dX="1.1283791670955126 * dY * exp(-square(X))")
ERF_GRADIENT.cost(formula_cost)


@kernel(ERF_GRADIENT)
def erf_gradient_kernel(X: Array, dY: Array, dX: Array) -> None:
    np.multiply(dY, 2 / math.sqrt(math.pi) * np.exp(-X * X), out=dX)


def erf_of(x: Array) -> Array:
    """Return the error function of floats, computed in float64."""
    values = [math.erf(value) for value in x.reshape(-1).tolist()]
    return np.array(values, x.dtype).reshape(x.shape)
