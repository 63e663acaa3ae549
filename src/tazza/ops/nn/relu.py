"""Rectified linear units: Relu, LeakyRelu, ReluN, ThresholdedRelu. X, Y, dY and dX all have one shape S."""

from __future__ import annotations

import numpy as np

from tazza.errors import ArgumentError
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

RELU = schema(
    "Relu",
    "Y = max(X, 0).",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Nair, Hinton 2010, section 2",
    example="""
    >>> run("Relu", [-1.0, 2.0])
    array([0., 2.], dtype=float32)
    """,
)


formula(RELU, Y="relu(X)")


@RELU.gradient
def relu_gradient(g: GradientRequest) -> list[OperatorDef]:
    # The sign of Y is that of X wherever dX is not zero, so Y will do, and Relu may run in place.
    return g.emit("ReluGradient", [g.Y, g.dY], [g.dX])


@kernel(RELU)
def relu(X: Array, Y: Array) -> None:
    np.maximum(X, 0, out=Y)


RELU_GRADIENT = schema(
    "ReluGradient",
    "dX = dY where Y > 0, else 0.",
    inputs=[blob("Y", FLOAT, "*S", elsewhere=HALVES), blob("dY", "Y", "*S")],
    outputs=[blob("dX", like="Y")],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("ReluGradient", [0.0, 2.0], [5.0, 7.0])
    array([0., 7.], dtype=float32)
    """,
)


formula(RELU_GRADIENT, dX="where(Y > 0, dY, 0)")


@kernel(RELU_GRADIENT)
def relu_gradient_kernel(Y: Array, dY: Array, dX: Array) -> None:
    np.multiply(dY, Y > 0, out=dX)


SLOPE = arg("alpha", float, 0.01, doc="slope for X < 0")

LEAKY_RELU = schema(
    "LeakyRelu",
    "Y = X where X >= 0, else alpha * X.",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    args=[SLOPE],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Maas, Hannun, Ng 2013, section 2.2",
    example="""
    >>> run("LeakyRelu", [-1.0, 2.0], alpha=0.5)
    array([-0.5,  2. ], dtype=float32)
    """,
)
formula(LEAKY_RELU, Y="where(X >= 0, X, alpha * X)")
LEAKY_RELU.cost(formula_cost)


@LEAKY_RELU.gradient
def leaky_relu_gradient(g: GradientRequest) -> list[OperatorDef]:
    # The sign of Y is that of X as long as alpha is not negative.
    return g.emit("LeakyReluGradient", [g.Y, g.dY], [g.dX])


@kernel(LEAKY_RELU)
def leaky_relu(op: OpView, X: Array, Y: Array) -> None:
    np.multiply(X, np.where(X >= 0, 1, op.alpha).astype(X.dtype), out=Y)


LEAKY_RELU_GRADIENT = schema(
    "LeakyReluGradient",
    "dX = dY where Y >= 0, else alpha * dY.",
    inputs=[blob("Y", FLOAT, "*S", elsewhere=HALVES), blob("dY", "Y", "#S")],
    outputs=[blob("dX", like="Y")],
    args=[SLOPE],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("LeakyReluGradient", [-1.0, 2.0], [5.0, 7.0], alpha=0.5)
    array([2.5, 7. ], dtype=float32)
    """,
)
formula(LEAKY_RELU_GRADIENT, dX="where(Y >= 0, dY, alpha * dY)")
LEAKY_RELU_GRADIENT.cost(formula_cost)


@kernel(LEAKY_RELU_GRADIENT)
def leaky_relu_gradient_kernel(op: OpView, Y: Array, dY: Array, dX: Array) -> None:
    np.multiply(dY, np.where(Y >= 0, 1, op.alpha).astype(Y.dtype), out=dX)


CEILING = arg("n", float, 6.0, doc="largest value of Y, above 0")

RELU_N = schema(
    "ReluN",
    "Y = min(max(X, 0), n).",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    args=[CEILING],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Krizhevsky 2010, Convolutional deep belief networks on CIFAR-10, section 2; Caffe2",
    example="""
    >>> run("ReluN", [-1.0, 2.0, 7.0])
    array([0., 2., 6.], dtype=float32)
    """,
)
formula(RELU_N, Y="min(max(X, 0), n)")
RELU_N.cost(formula_cost)


def relu_n_validate(op: OpView) -> None:
    if not op.n > 0:
        raise op.error(ArgumentError, f"n = {op.n}, it must be above 0")


RELU_N.validate(relu_n_validate)


@RELU_N.gradient
def relu_n_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("ReluNGradient", [g.Y, g.dY], [g.dX])


@kernel(RELU_N)
def relu_n(op: OpView, X: Array, Y: Array) -> None:
    np.clip(X, 0, op.n, out=Y)


RELU_N_GRADIENT = schema(
    "ReluNGradient",
    "dX = dY where 0 < Y < n, else 0.",
    inputs=[blob("Y", FLOAT, "*S", elsewhere=HALVES), blob("dY", "Y", "*S")],
    outputs=[blob("dX", like="Y")],
    args=[CEILING],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("ReluNGradient", [0.0, 2.0, 6.0], [5.0, 7.0, 9.0])
    array([0., 7., 0.], dtype=float32)
    """,
)
formula(RELU_N_GRADIENT, dX="where(Y > 0, where(Y < n, dY, 0), 0)")
RELU_N_GRADIENT.cost(formula_cost)
RELU_N_GRADIENT.validate(relu_n_validate)


@kernel(RELU_N_GRADIENT)
def relu_n_gradient_kernel(op: OpView, Y: Array, dY: Array, dX: Array) -> None:
    np.multiply(dY, (Y > 0) & (Y < op.n), out=dX)


THRESHOLD = arg("alpha", float, 1.0, doc="what X must be above to pass")

THRESHOLDED_RELU = schema(
    "ThresholdedRelu",
    "Y = X where X > alpha, else 0; NaN gives 0.",
    inputs=[blob("X", FLOAT, "*S", elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    args=[THRESHOLD],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Konda, Memisevic, Krueger 2014, section 4; Caffe2",
    example="""
    >>> run("ThresholdedRelu", [-1.0, 2.0, 3.0], alpha=2.0)
    array([0., 0., 3.], dtype=float32)
    """,
)
formula(THRESHOLDED_RELU, Y="where(X > alpha, X, 0)")
THRESHOLDED_RELU.cost(formula_cost)


@THRESHOLDED_RELU.gradient
def thresholded_relu_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("ThresholdedReluGradient", [g.Y, g.dY], [g.dX])


@kernel(THRESHOLDED_RELU)
def thresholded_relu(op: OpView, X: Array, Y: Array) -> None:
    Y[...] = np.where(X > op.alpha, X, 0)


THRESHOLDED_RELU_GRADIENT = schema(
    "ThresholdedReluGradient",
    """dX = dY * sign of Y.

    As in Caffe2, below 0 the sign turns that of dY around. Only a negative alpha lets such Y through: then it is not
    the derivative.""",
    inputs=[blob("Y", FLOAT, "*S", elsewhere=HALVES), blob("dY", "Y", "#S")],
    outputs=[blob("dX", like="Y")],
    args=[THRESHOLD],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="Caffe2",
    example="""
    >>> run("ThresholdedReluGradient", [0.0, 3.0], [5.0, 7.0])
    array([0., 7.], dtype=float32)
    """,
)
formula(THRESHOLDED_RELU_GRADIENT, dX="dY * sign(Y)")
THRESHOLDED_RELU_GRADIENT.cost(formula_cost)


@kernel(THRESHOLDED_RELU_GRADIENT)
def thresholded_relu_gradient_kernel(Y: Array, dY: Array, dX: Array) -> None:
    np.multiply(dY, np.sign(Y), out=dX)
