"""Exponential linear units: Elu, Selu. All blobs have one shape S."""

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
from tazza.proto import OperatorDef

ALPHA = arg("alpha", float, 1.0, doc="Y falls to -alpha for X towards minus infinity")

ELU = schema(
    "Elu",
    "Y = X where X >= 0, else alpha * (exp(X) - 1).",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    args=[ALPHA],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Clevert, Unterthiner, Hochreiter 2016, arXiv 1511.07289, section 3",
    example="""
    >>> run("Elu", [-100.0, 2.0], alpha=0.5)
    array([-0.5,  2. ], dtype=float32)
    """,
)
formula(ELU, Y="where(X >= 0, X, alpha * expm1(X))")
ELU.cost(formula_cost)


@ELU.gradient
def elu_gradient(g: GradientRequest) -> list[OperatorDef]:
    # The sign of Y is that of X as long as alpha is not negative.
    return g.emit("EluGradient", [g.Y, g.dY], [g.dX])


@kernel(ELU)
def elu(op: OpView, X: Array, Y: Array) -> None:
    np.copyto(Y, np.where(X >= 0, X, op.alpha * np.expm1(X)))


ELU_GRADIENT = schema(
    "EluGradient",
    "dX = dY where Y >= 0, else dY * (Y + alpha).",
    inputs=[blob("Y", FLOAT, "*S", elsewhere=HALVES), blob("dY", "Y", "*S")],
    outputs=[blob("dX", like="Y")],
    args=[ALPHA],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("EluGradient", [-0.75, 2.0], [4.0, 4.0])
    array([1., 4.], dtype=float32)
    """,
)
formula(ELU_GRADIENT, dX="where(Y < 0, dY * (Y + alpha), dY)")
ELU_GRADIENT.cost(formula_cost)


@kernel(ELU_GRADIENT)
def elu_gradient_kernel(op: OpView, Y: Array, dY: Array, dX: Array) -> None:
    np.copyto(dX, np.where(Y < 0, dY * (Y + op.alpha), dY))


SELF_NORMALISING = (
    arg("alpha", float, 1.6732632423543772, doc="Y falls to -scale * alpha for X towards minus infinity"),
    arg("scale", float, 1.0507009873554805, doc="slope for X > 0"),
)

SELU = schema(
    "Selu",
    """Y = scale * X where X > 0, else scale * alpha * (exp(X) - 1).

    The default values keep mean 0 and variance 1 from layer to layer.""",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    args=SELF_NORMALISING,
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Klambauer, Unterthiner, Mayr, Hochreiter 2017, arXiv 1706.02515, section 2",
    example="""
    >>> run("Selu", [-100.0, 3.0], alpha=0.25, scale=2.0)
    array([-0.5,  6. ], dtype=float32)
    """,
)
formula(SELU, Y="scale * where(X > 0, X, alpha * expm1(X))")
SELU.cost(formula_cost)


@SELU.gradient
def selu_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("SeluGradient", [g.Y, g.dY], [g.dX])


@kernel(SELU)
def selu(op: OpView, X: Array, Y: Array) -> None:
    np.multiply(np.where(X > 0, X, op.alpha * np.expm1(X)), op.scale, out=Y)


SELU_GRADIENT = schema(
    "SeluGradient",
    "dX = scale * dY where Y > 0, else dY * (Y + scale * alpha).",
    inputs=[blob("Y", FLOAT, "*S", elsewhere=HALVES), blob("dY", "Y", "#S")],
    outputs=[blob("dX", like="Y")],
    args=SELF_NORMALISING,
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("SeluGradient", [-0.25, 6.0], [4.0, 4.0], alpha=0.25, scale=2.0)
    array([1., 8.], dtype=float32)
    """,
)
formula(SELU_GRADIENT, dX="dY * where(Y > 0, scale, Y + scale * alpha)")
SELU_GRADIENT.cost(formula_cost)


@kernel(SELU_GRADIENT)
def selu_gradient_kernel(op: OpView, Y: Array, dY: Array, dX: Array) -> None:
    np.multiply(dY, np.where(Y > 0, np.float32(op.scale), Y + op.scale * op.alpha), out=dX)
