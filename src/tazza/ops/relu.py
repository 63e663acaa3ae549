"""Rectified linear units: Relu. X, Y, dY and dX all have one shape S."""

import numpy as np

from tazza.operator import FLOAT, Array, GradientRequest, blob, ends, kernel, schema
from tazza.proto import OperatorDef

RELU = schema(
    "Relu",
    "Y = max(X, 0).",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    onnx="Relu",
    source="Nair, Hinton 2010, section 2",
    example="""
    >>> run("Relu", [-1.0, 2.0])
    array([0., 2.], dtype=float32)
    """,
)


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
    inputs=[blob("Y", FLOAT, "*S"), blob("dY", "Y", "*S")],
    outputs=[blob("dX", like="Y")],
    in_place={"dX": "dY"},
    no_gradient=ends("second derivatives are not built"),
    example="""
    >>> run("ReluGradient", [0.0, 2.0], [5.0, 7.0])
    array([0., 7.], dtype=float32)
    """,
)


@kernel(RELU_GRADIENT)
def relu_gradient_kernel(Y: Array, dY: Array, dX: Array) -> None:
    np.multiply(dY, Y > 0, out=dX)
