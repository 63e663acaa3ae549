"""What stands in a net for the sake of its backward pass: NegateGradient, ZeroGradient."""

from __future__ import annotations

import numpy as np

from tazza.operator import Array, Cost, Effects, GradientRequest, OpView, blob, kernel, schema
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

NEGATE_GRADIENT = schema(
    "NegateGradient",
    "Y = X; the gradient goes through with the other sign.",
    inputs=[blob("X", dims="*S")],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Ganin, Lempitsky 2015, arXiv 1409.7495",
    example="""
    >>> run("NegateGradient", [1.0, 2.0])
    array([1., 2.], dtype=float32)
    """,
)
NEGATE_GRADIENT.hands_on("X")


@NEGATE_GRADIENT.cost
def negate_gradient_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(0, X.nbytes, Y.nbytes)


@NEGATE_GRADIENT.gradient
def negate_gradient_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("Negative", [g.dY], [g.dX])


@kernel(NEGATE_GRADIENT)
def negate_gradient(X: Array, Y: Array) -> None:
    np.copyto(Y, X)


ZERO_GRADIENT = schema(
    "ZeroGradient",
    "Does nothing; the gradient of X is 0, or what other readers of X add to that.",
    inputs=[blob("X", doc="its numbers are not read")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("ZeroGradient", [1.0, 2.0])
    ()
    """,
)


@ZERO_GRADIENT.cost
def zero_gradient_cost(op: OpView, X: TensorSpec) -> Cost:
    del op, X
    return Cost()


def zero_gradient_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("ConstantFill", [g.like("X")], [g.dX], value=0.0)


ZERO_GRADIENT.gradient(zero_gradient_gradient, unasked=True)


@kernel(ZERO_GRADIENT)
def zero_gradient() -> None:
    """Leave everything as it is."""
