"""The square of a rectifier: SquaredRelu. X, Y, dY and dX all have one shape S."""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Effects, GradientRequest, blob, ends, formula, kernel, schema
from tazza.proto import OperatorDef

SQUARED_RELU = schema(
    "SquaredRelu",
    "Y = max(X, 0)^2.",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="So et al. 2021, Primer, section 4",
    example="""
    >>> run("SquaredRelu", [-1.0, 3.0])
    array([0., 9.], dtype=float32)
    """,
)
formula(SQUARED_RELU, Y="square(relu(X))")


@SQUARED_RELU.gradient
def squared_relu_gradient(g: GradientRequest) -> list[OperatorDef]:
    """Ask for X: where the operator has overwritten it, the backward pass says so."""
    return g.emit("SquaredReluGradient", [g.X, g.dY], [g.dX])


@kernel(SQUARED_RELU)
def squared_relu(X: Array, Y: Array) -> None:
    """Be the definition: every other engine is compared with it."""
    np.square(np.maximum(X, 0), out=Y)


SQUARED_RELU_GRADIENT = schema(
    "SquaredReluGradient",
    "dX = 2 * max(X, 0) * dY.",
    inputs=[blob("X", FLOAT, "*S"), blob("dY", "X", "*S")],
    outputs=[blob("dX", like="X")],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("SquaredReluGradient", [-1.0, 3.0], [5.0, 7.0])
    array([ 0., 42.], dtype=float32)
    """,
)
formula(SQUARED_RELU_GRADIENT, dX="2 * relu(X) * dY")


@kernel(SQUARED_RELU_GRADIENT)
def squared_relu_gradient_kernel(X: Array, dY: Array, dX: Array) -> None:
    """Be the definition of the gradient."""
    dX[...] = 2 * np.maximum(X, 0) * dY
