"""Multiplication by a constant: Scale. X and Y have one shape S."""

from __future__ import annotations

import numpy as np

from tazza.operator import Array, Effects, GradientRequest, OpView, arg, blob, formula, kernel, schema
from tazza.proto import OperatorDef
from tazza.tensor import DataType

SCALE = schema(
    "Scale",
    "Y = scale * X.",
    inputs=[blob("X", frozenset({DataType.FLOAT, DataType.DOUBLE}), "*S")],
    outputs=[blob("Y", like="X")],
    args=[arg("scale", float, 1.0, doc="the factor, in float32")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Scale", [1.0, 2.0], scale=2.5)
    array([2.5, 5. ], dtype=float32)
    """,
)


SCALE.hands_on("X", when=lambda op: op.scale == 1)


@SCALE.gradient
def scale_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("Scale", [g.dY], [g.dX])


formula(SCALE, Y="X * scale")


@kernel(SCALE)
def scale(op: OpView, X: Array, Y: Array) -> None:
    np.multiply(X, op.scale, out=Y)
