"""What is no number: IsNaN, ReplaceNaN. X and Y have one shape S. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    Array,
    Effects,
    OpView,
    arg,
    blob,
    forbidden,
    formula,
    kernel,
    not_written,
    schema,
)
from tazza.ops.math.elementwise import formula_cost
from tazza.ops.math.mean import REAL
from tazza.tensor import DataType, TensorSpec

IS_NAN = schema(
    "IsNaN",
    "Y = 1 where X is NaN, else 0.",
    inputs=[blob("X", REAL, "*S")],
    outputs=[blob("Y", DataType.UINT8, "*S")],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none"),
    source="Caffe2",
    example="""
    >>> run("IsNaN", [1.0, float("nan")])
    array([0, 1], dtype=uint8)
    """,
)
REPLACE_NAN = schema(
    "ReplaceNaN",
    "Y = `value` where X is NaN, else X.",
    inputs=[blob("X", REAL, "*S")],
    outputs=[blob("Y", like="X")],
    args=[arg("value", float, 0.0, doc="what stands for NaN, in float32")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=forbidden("Caffe2 forbids it"),
    source="Caffe2",
    example="""
    >>> run("ReplaceNaN", [1.0, float("nan")], value=2.5)
    array([1. , 2.5], dtype=float32)
    """,
)
formula(REPLACE_NAN, Y="where(X == X, X, value)")
REPLACE_NAN.cost(formula_cost)


@IS_NAN.infer
def is_nan_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    del op
    return TensorSpec(X.dims, DataType.UINT8)


@kernel(IS_NAN)
def is_nan(X: Array, Y: Array) -> None:
    Y[...] = np.isnan(X)


@kernel(REPLACE_NAN)
def replace_nan(op: OpView, X: Array, Y: Array) -> None:
    Y[...] = np.where(np.isnan(X), np.float32(op.value), X)


formula(IS_NAN, Y="isnan(X)")
