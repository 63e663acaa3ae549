"""Half precision and back: FloatToHalf, HalfToFloat. X and Y have one shape S."""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Effects, GradientRequest, blob, kernel, schema
from tazza.proto import OperatorDef
from tazza.tensor import DataType

HALF = frozenset({DataType.FLOAT16})

FLOAT_TO_HALF = schema(
    "FloatToHalf",
    "Y = X in float16, ties to even; what lies beyond its range becomes infinite.",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", HALF, "*S")],
    effects=Effects.PURE,
    source="IEEE 754-2008, binary16",
    example="""
    >>> run("FloatToHalf", [1.0, 1.0004, 70000.0])
    array([ 1.,  1., inf], dtype=float16)
    """,
)
FLOAT_TO_HALF.batched("X")


@FLOAT_TO_HALF.gradient
def float_to_half_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("HalfToFloat", [g.dY], [g.dX])


@kernel(FLOAT_TO_HALF)
def float_to_half(X: Array, Y: Array) -> None:
    with np.errstate(over="ignore"):  # beyond the range is infinite
        Y[...] = X


HALF_TO_FLOAT = schema(
    "HalfToFloat",
    "Y = X in float32.",
    inputs=[blob("X", HALF, "*S")],
    outputs=[blob("Y", FLOAT, "*S")],
    effects=Effects.PURE,
    source="IEEE 754-2008, binary16",
    example="""
    >>> run("HalfToFloat", np.float16([1.5, -0.25]))
    array([ 1.5 , -0.25], dtype=float32)
    """,
)
HALF_TO_FLOAT.batched("X")


@HALF_TO_FLOAT.gradient
def half_to_float_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("FloatToHalf", [g.dY], [g.dX])


@kernel(HALF_TO_FLOAT)
def half_to_float(X: Array, Y: Array) -> None:
    Y[...] = X
