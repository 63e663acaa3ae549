"""Gaussian error linear units: Gelu. All blobs have one shape S."""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    HALVES,
    Array,
    Effects,
    GradientRequest,
    OpView,
    arg,
    blob,
    ends,
    formula,
    kernel,
    schema,
)
from tazza.ops.math.elementwise import formula_cost
from tazza.ops.math.erf import erf_of
from tazza.proto import OperatorDef

FAST = arg("fast_gelu", int, 0, doc="the approximation by tanh, off by at most 0.0005")
STEEP = "0.7978845608028654 * (X + 0.044715 * cube(X))"
"""What tanh is taken of: sqrt(2 / pi) * (X + 0.044715 X^3)."""

GELU = schema(
    "Gelu",
    """Y = X * P with P = (1 + erf(X / sqrt(2))) / 2, the share of a normal distribution below X.

    With `fast_gelu`, P = (1 + tanh(sqrt(2 / pi) * (X + 0.044715 X^3))) / 2.""",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    args=[FAST],
    effects=Effects.PURE,
    source="Hendrycks, Gimpel 2016, arXiv 1606.08415, section 2",
    example="""
    >>> run("Gelu", [-100.0, 0.0, 100.0])
    array([ -0.,   0., 100.], dtype=float32)
    """,
)
formula(GELU, lambda op: {"Y": f"0.5 * X * (1 + {_inner(op)})"})
GELU.cost(formula_cost)


@GELU.gradient
def gelu_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("GeluGradient", [g.dY, g.X], [g.dX])


@kernel(GELU)
def gelu(op: OpView, X: Array, Y: Array) -> None:
    np.multiply(X, _share_below(op, X), out=Y)


GELU_GRADIENT = schema(
    "GeluGradient",
    """dX = dY * (P + X * dP / dX).

    For the exact form dP / dX is the normal density exp(-X^2 / 2) / sqrt(2 pi).""",
    inputs=[blob("dY", FLOAT, "*S", elsewhere=HALVES), blob("X", "dY", "*S")],
    outputs=[blob("dX", like="dY")],
    args=[FAST],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("GeluGradient", [8.0], [0.0])
    array([4.], dtype=float32)
    """,
)
formula(GELU_GRADIENT, lambda op: {"dX": f"dY * (0.5 * (1 + {_inner(op)}) + X * {_slope(op)})"})
GELU_GRADIENT.cost(formula_cost)


@kernel(GELU_GRADIENT)
def gelu_gradient_kernel(op: OpView, dY: Array, X: Array, dX: Array) -> None:
    np.multiply(dY, _share_below(op, X) + X * _density(op, X), out=dX)


def _inner(op: OpView) -> str:
    return f"tanh({STEEP})" if op.fast_gelu else "erf(0.7071067811865476 * X)"


def _slope(op: OpView) -> str:
    """Return the text of dP / dX."""
    if op.fast_gelu:
        return f"(1 - square(tanh({STEEP}))) * 0.3989422804014327 * (1 + 0.134145 * square(X))"
    return "(0.3989422804014327 * exp(-0.5 * square(X)))"


def _share_below(op: OpView, X: Array) -> Array:
    """Return P."""
    if op.fast_gelu:
        return 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi).astype(X.dtype) * (X + 0.044715 * X**3)))
    return 0.5 * (1 + erf_of(X / np.sqrt(2).astype(X.dtype)))


def _density(op: OpView, X: Array) -> Array:
    """Return dP / dX."""
    if op.fast_gelu:
        slope = np.sqrt(2 / np.pi).astype(X.dtype)
        steep = slope * (X + 0.044715 * X**3)
        return 0.5 * (1 - np.tanh(steep) ** 2) * slope * (1 + 3 * 0.044715 * X * X)
    return np.exp(-0.5 * X * X) / np.sqrt(2 * np.pi).astype(X.dtype)
