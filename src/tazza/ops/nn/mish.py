"""A smooth relative of Relu that is not monotone: Mish. All blobs have one shape S, or as many elements."""

from __future__ import annotations

import numpy as np

from tazza.operator import Array, Effects, GradientRequest, blob, ends, formula, kernel, schema
from tazza.ops.math.elementwise import formula_cost
from tazza.proto import OperatorDef
from tazza.tensor import DataType

REAL = frozenset({DataType.FLOAT, DataType.DOUBLE})
SOFTPLUS = "(max(X, 0) + log1p(exp(-abs(X))))"

MISH = schema(
    "Mish",
    "Y = X * tanh(log(1 + exp(X))).",
    inputs=[blob("X", REAL, "*S")],
    outputs=[blob("Y", like="X")],
    effects=Effects.PURE,
    source="Misra 2019, arXiv 1908.08681",
    example="""
    >>> run("Mish", [-1000.0, 0.0, 1000.0])
    array([  -0.,    0., 1000.], dtype=float32)
    """,
)
formula(MISH, Y=f"X * tanh({SOFTPLUS})")
MISH.cost(formula_cost)


@MISH.gradient
def mish_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("MishGradient", [g.X, g.Y, g.dY], [g.dX])


@kernel(MISH)
def mish(X: Array, Y: Array) -> None:
    np.multiply(X, np.tanh(np.logaddexp(X, 0)), out=Y)


MISH_GRADIENT = schema(
    "MishGradient",
    """dX = dY * (t + X * sigmoid(X) * (1 - t * t)), with t = tanh(log(1 + exp(X))).

    Y is not read; it is there as Caffe2 hands it over.""",
    inputs=[blob("X", REAL, "*S"), blob("Y", "X", "#S"), blob("dY", "X", "#S")],
    outputs=[blob("dX", like="X")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("MishGradient", [0.0, 1000.0], [0.0, 1000.0], [5.0, 2.0]).round(5)
    array([3., 2.], dtype=float32)
    """,
)
formula(
    MISH_GRADIENT,
    dX=f"dY * (tanh({SOFTPLUS}) + X * (1 - square(tanh({SOFTPLUS}))) / (1 + exp(-X)))",
)
MISH_GRADIENT.cost(formula_cost)


@kernel(MISH_GRADIENT)
def mish_gradient_kernel(X: Array, dY: Array, dX: Array) -> None:
    t = np.tanh(np.logaddexp(X, 0))
    sigmoid = np.exp(-np.logaddexp(0, -X))
    dX[...] = dY.reshape(X.shape) * (t + X * sigmoid * (1 - t * t))
