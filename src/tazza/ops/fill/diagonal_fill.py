"""A value along the diagonal: DiagonalFill. How it gets its shape stands in `fill`. Source: Caffe2."""

from __future__ import annotations

from tazza.operator import Array, Cost, Effects, OpView, Role, arg, blob, kernel, schema, show_dims
from tazza.ops.fill.fill import (
    NO_GRADIENT,
    SHAPE_ARGS,
    SHAPE_DOC,
    STORED_AS,
    check_shape_args,
    check_value,
    fill_cost,
    fill_dims,
    fill_dtype,
)
from tazza.tensor import DataType, TensorSpec

TYPES = {dtype: stored for dtype, stored in STORED_AS.items() if dtype is not DataType.STRING}
"""Element types that it makes, and the Python type of their `value`."""

DIAGONAL_FILL = schema(
    "DiagonalFill",
    """Y = value where all coordinates are equal, else 0.

    Of a matrix the extents may differ: below a diagonal's end, after an empty row, the next one begins at the left,
    as in Caffe2. Above rank 2 extents are equal. Without `dtype` the type of `value` decides: a
    float gives float32, an int or a bool int64.""",
    inputs=[blob("X", optional=True, role=Role.SHAPE, doc=SHAPE_DOC)],
    outputs=[blob("Y")],
    args=[
        *SHAPE_ARGS,
        arg("value", float | int, None, doc="an int for integers and bool, a float for floats; 0 when missing"),
        arg("dtype", int, None, choices=tuple(dtype.proto for dtype in TYPES), doc="number of TensorProto.DataType"),
    ],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("DiagonalFill", shape=[2, 3], value=3)
    array([[3, 0, 0],
           [0, 3, 0]])
    """,
)


@DIAGONAL_FILL.validate
def diagonal_fill_validate(op: OpView) -> None:
    check_shape_args(op)
    check_value(op)


@DIAGONAL_FILL.infer
def diagonal_fill_infer(op: OpView, X: TensorSpec | None) -> TensorSpec:
    dims = fill_dims(op, X)
    if dims is not None:
        known = {n for n in dims if n is not None}
        hint = "a matrix, or as many elements along each axis"
        op.require(len(dims) >= 2 and (len(dims) == 2 or len(known) < 2), f"Y has the shape {show_dims(dims)}", hint)
    return TensorSpec(dims, fill_dtype(op))


@DIAGONAL_FILL.cost
def diagonal_fill_cost(op: OpView, X: TensorSpec | None, Y: TensorSpec) -> Cost:
    del X
    return fill_cost(op, Y)


@kernel(DIAGONAL_FILL)
def diagonal_fill(op: OpView, Y: Array) -> None:
    Y[...] = 0
    apart = sum(stride // Y.itemsize for stride in Y.strides)  # from (0, 0) to (1, 1), and on
    if Y.size:
        Y.reshape(-1)[::apart] = 0 if op.value is None else op.value
