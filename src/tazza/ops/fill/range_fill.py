"""Numbers in a row: RangeFill. How it gets its shape stands in `fill`. Source: Caffe2."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Cut,
    Effects,
    OpView,
    Role,
    RowProgram,
    blob,
    kernel,
    row_program,
    schema,
)
from tazza.ops.fill.fill import NO_GRADIENT, SHAPE_ARGS, SHAPE_DOC, check_shape_args, fill_cost, fill_dims
from tazza.tensor import DataType, TensorSpec

COUNTED = 2**31 - 1
"""Places in a row that programs of rows count."""

RANGE_FILL = schema(
    "RangeFill",
    "Y = 0, 1, 2 ... in row-major order.",
    inputs=[blob("X", optional=True, role=Role.SHAPE, doc=SHAPE_DOC)],
    outputs=[blob("Y", FLOAT)],
    args=SHAPE_ARGS,
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("RangeFill", shape=[2, 3])
    array([[0., 1., 2.],
           [3., 4., 5.]], dtype=float32)
    """,
)
RANGE_FILL.validate(check_shape_args)


@RANGE_FILL.infer
def range_fill_infer(op: OpView, X: TensorSpec | None) -> TensorSpec:
    return TensorSpec(fill_dims(op, X), DataType.FLOAT)


@RANGE_FILL.cost
def range_fill_cost(op: OpView, X: TensorSpec | None, Y: TensorSpec) -> Cost:
    del X
    return fill_cost(op, Y)


@kernel(RANGE_FILL)
def range_fill(Y: Array) -> None:
    numbers = np.arange(Y.size, dtype=np.min_scalar_type(-Y.size - 1))  # short ones become floats faster
    Y[...] = numbers.reshape(Y.shape)


def _rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    del op
    size = specs["Y"].size
    return RowProgram(Cut(1, size), each={"Y": "index"}) if size <= COUNTED else f"it counts to {COUNTED}, not {size}"


row_program(RANGE_FILL, _rows)
