"""Multiplication by a constant: Scale, and ScaleBlobs of several tensors. X and Y have one shape S."""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Effects,
    GradientRequest,
    OpView,
    arg,
    as_many,
    blob,
    each,
    formula,
    kernel,
    not_written,
    schema,
)
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


SCALE_BLOBS = schema(
    "ScaleBlobs",
    "Y0 = scale * X0, Y1 = scale * X1 ...",
    inputs=[blob("X", FLOAT, variadic=True)],
    outputs=[blob("Y", like="X", variadic=True)],
    args=[arg("scale", float, 1.0, doc="the factor")],
    in_place={"Y": each("X")},
    effects=Effects.PURE,
    relations=[as_many("Y", "X")],
    no_gradient=not_written("Caffe2 has none; that of Scale is there"),
    source="Caffe2",
    example="""
    >>> run("ScaleBlobs", [1.0, 2.0], [3.0], scale=2.5, outputs=2)
    (array([2.5, 5. ], dtype=float32), array([7.5], dtype=float32))
    """,
)


@kernel(SCALE_BLOBS)
def scale_blobs(op: OpView, X: tuple[Array, ...], Y: tuple[Array, ...]) -> None:
    for x, y in zip(X, Y, strict=True):
        np.multiply(x, op.scale, out=y)
