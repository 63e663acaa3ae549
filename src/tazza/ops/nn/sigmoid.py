"""Sigmoids: Sigmoid, HardSigmoid, and Swish, which is X times its sigmoid. All blobs have one shape S."""

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

SIGMOID = schema(
    "Sigmoid",
    "Y = 1 / (1 + exp(-X)).",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Goodfellow, Bengio, Courville 2016, section 3.10",
    example="""
    >>> run("Sigmoid", [0.0, -1000.0])
    array([0.5, 0. ], dtype=float32)
    """,
)
formula(SIGMOID, Y="sigmoid(X)")
SIGMOID.cost(formula_cost)


@SIGMOID.gradient
def sigmoid_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("SigmoidGradient", [g.Y, g.dY], [g.dX])


@kernel(SIGMOID)
def sigmoid(X: Array, Y: Array) -> None:
    small = np.exp(-np.abs(X))  # at most 1: nothing overflows
    np.divide(np.where(X >= 0, 1, small), 1 + small, out=Y)


SIGMOID_GRADIENT = schema(
    "SigmoidGradient",
    "dX = dY * Y * (1 - Y).",
    inputs=[blob("Y", FLOAT, "*S", elsewhere=HALVES), blob("dY", "Y", "*S")],
    outputs=[blob("dX", like="Y")],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("SigmoidGradient", [0.5, 1.0], [8.0, 8.0])
    array([2., 0.], dtype=float32)
    """,
)
formula(SIGMOID_GRADIENT, dX="dY * Y * (1 - Y)")
SIGMOID_GRADIENT.cost(formula_cost)


@kernel(SIGMOID_GRADIENT)
def sigmoid_gradient_kernel(Y: Array, dY: Array, dX: Array) -> None:
    np.multiply(dY, Y * (1 - Y), out=dX)


LINE = (
    arg("alpha", float, 0.2, doc="slope between 0 and 1"),
    arg("beta", float, 0.5, doc="value at X = 0"),
)

HARD_SIGMOID = schema(
    "HardSigmoid",
    "Y = min(max(alpha * X + beta, 0), 1).",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    args=LINE,
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Courbariaux, Bengio, David 2015, arXiv 1511.00363, section 2.3",
    example="""
    >>> run("HardSigmoid", [-9.0, 1.0, 9.0], alpha=0.25)
    array([0.  , 0.75, 1.  ], dtype=float32)
    """,
)
formula(HARD_SIGMOID, Y="min(max(alpha * X + beta, 0), 1)")
HARD_SIGMOID.cost(formula_cost)


@HARD_SIGMOID.gradient
def hard_sigmoid_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("HardSigmoidGradient", [g.Y, g.dY], [g.dX])


@kernel(HARD_SIGMOID)
def hard_sigmoid(op: OpView, X: Array, Y: Array) -> None:
    np.clip(X * op.alpha + op.beta, 0, 1, out=Y)


HARD_SIGMOID_GRADIENT = schema(
    "HardSigmoidGradient",
    "dX = alpha * dY where 0 < Y < 1, else 0.",
    inputs=[blob("Y", FLOAT, "*S", elsewhere=HALVES), blob("dY", "Y", "*S")],
    outputs=[blob("dX", like="Y")],
    args=LINE,
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("HardSigmoidGradient", [0.0, 0.75, 1.0], [4.0, 4.0, 4.0], alpha=0.25)
    array([0., 1., 0.], dtype=float32)
    """,
)
formula(HARD_SIGMOID_GRADIENT, dX="where(Y > 0, where(Y < 1, alpha * dY, 0), 0)")
HARD_SIGMOID_GRADIENT.cost(formula_cost)


@kernel(HARD_SIGMOID_GRADIENT)
def hard_sigmoid_gradient_kernel(op: OpView, Y: Array, dY: Array, dX: Array) -> None:
    np.multiply(dY * op.alpha, (Y > 0) & (Y < 1), out=dX)


SWISH = schema(
    "Swish",
    "Y = X / (1 + exp(-X)).",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    effects=Effects.PURE,
    source="Ramachandran, Zoph, Le 2017, arXiv 1710.05941, section 5",
    example="""
    >>> run("Swish", [0.0, 100.0])
    array([  0., 100.], dtype=float32)
    """,
)
formula(SWISH, Y="X * sigmoid(X)")
SWISH.cost(formula_cost)


@SWISH.gradient
def swish_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("SwishGradient", [g.X, g.Y, g.dY], [g.dX])


@kernel(SWISH)
def swish(X: Array, Y: Array) -> None:
    small = np.exp(-np.abs(X))
    np.multiply(X, np.where(X >= 0, 1, small) / (1 + small), out=Y)


SWISH_GRADIENT = schema(
    "SwishGradient",
    """dX = dY * (Y + (1 - Y) / (1 + exp(-X))).

    From Y = X s with s = 1 / (1 + exp(-X)): dY / dX = s + X s (1 - s) = Y + s (1 - Y).""",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES), blob("Y", "X", "#S"), blob("dY", "X", "#S")],
    outputs=[blob("dX", like="X")],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("SwishGradient", [0.0], [0.0], [8.0])
    array([4.], dtype=float32)
    """,
)
formula(SWISH_GRADIENT, dX="dY * (Y + sigmoid(X) * (1 - Y))")
SWISH_GRADIENT.cost(formula_cost)


@kernel(SWISH_GRADIENT)
def swish_gradient_kernel(X: Array, Y: Array, dY: Array, dX: Array) -> None:
    small = np.exp(-np.abs(X))
    s = np.where(X >= 0, 1, small) / (1 + small)
    np.multiply(dY, Y + s * (1 - Y), out=dX)
