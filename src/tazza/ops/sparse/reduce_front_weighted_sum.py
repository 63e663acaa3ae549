"""ReduceFrontWeightedSum: all rows are one segment.

    Y = the sum of SCALARS[n] * DATA[n]

Letters: DATA has N rows of the shape S; SCALARS may have more than N, and those behind them count for nothing. The
gradient operator gets no DATA: `dims` holds its shape. SCALARS have no gradient, whatever `grad_on_weights` says.

Source: Caffe2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Dims,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    schema,
    show_dims,
)
from tazza.operator.row_program import Cut, RowProgram, Total, row_program
from tazza.ops.shape.axis import shapes_agree, unknown_dims
from tazza.ops.sparse.reducer import NOTHING, WEIGHTED_SUM, SegmentRows
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

GRAD_ON_WEIGHTS = arg("grad_on_weights", bool, default=False, doc="of no effect here")

REDUCE_FRONT_WEIGHTED_SUM = schema(
    "ReduceFrontWeightedSum",
    "Y = the sum of w * x for the rows x of DATA and their SCALARS w; 0 where there are none.",
    inputs=[blob("DATA", FLOAT, "N *S"), blob("SCALARS", FLOAT, "P", role=Role.DATA, doc="of each row; P >= N")],
    outputs=[blob("Y", FLOAT, "*S")],
    args=[GRAD_ON_WEIGHTS],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("ReduceFrontWeightedSum", [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1.0, 0.0, -1.0])
    array([-4., -4.], dtype=float32)
    """,
)
REDUCE_FRONT_WEIGHTED_SUM_GRADIENT = schema(
    "ReduceFrontWeightedSumGradient",
    "dX[n] = SCALARS[n] * dY for each row n.",
    inputs=[
        blob("SCALARS", FLOAT, "P", role=Role.DATA, doc="of each row; P >= N"),
        blob("dY", FLOAT, "*S"),
        blob("dims", DataType.INT64, "R", role=Role.SHAPE, doc="the shape (N, S) of DATA"),
    ],
    outputs=[blob("dX", FLOAT, "N *S")],
    args=[GRAD_ON_WEIGHTS],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("ReduceFrontWeightedSumGradient", [1.0, -1.0], [2.0, 6.0, 4.0], np.array([2, 3]))
    array([[ 2.,  6.,  4.],
           [-2., -6., -4.]], dtype=float32)
    """,
)


def check_scalars(op: OpView, SCALARS: TensorSpec, rows: int | None) -> None:
    """Check that each of N rows has a scalar.

    Raises:
        ShapeError: some have none.
    """
    if SCALARS.dims is None or SCALARS.dims[0] is None or rows is None:
        return
    count = SCALARS.dims[0]
    op.require(count >= rows, f"there are {count} SCALARS and {rows} rows of DATA", "give each row a scalar")


@REDUCE_FRONT_WEIGHTED_SUM.infer
def reduce_front_weighted_sum_infer(op: OpView, DATA: TensorSpec, SCALARS: TensorSpec) -> TensorSpec:
    if DATA.dims is None:
        return TensorSpec(None, DATA.dtype)
    check_scalars(op, SCALARS, DATA.dims[0])
    return TensorSpec(DATA.dims[1:], DATA.dtype)


@REDUCE_FRONT_WEIGHTED_SUM.cost
def reduce_front_weighted_sum_cost(op: OpView, DATA: TensorSpec, SCALARS: TensorSpec, Y: TensorSpec) -> Cost:
    del op, SCALARS
    return Cost(2 * DATA.size, DATA.nbytes + 4 * DATA.shape[0], Y.nbytes)


@REDUCE_FRONT_WEIGHTED_SUM.gradient
def reduce_front_weighted_sum_gradient(g: GradientRequest) -> list[OperatorDef]:
    dims = f"_{g.O(0)}_dims"
    return [
        *g.emit("Shape", [g.like("DATA")], [dims]),
        *g.emit("ReduceFrontWeightedSumGradient", [g.SCALARS, g.dY, dims], [g.dDATA]),
    ]


@kernel(REDUCE_FRONT_WEIGHTED_SUM)
def reduce_front_weighted_sum(DATA: Array, SCALARS: Array, Y: Array) -> None:
    Y[...] = WEIGHTED_SUM.reduce(SegmentRows(len(DATA), DATA, of_rows(SCALARS, DATA.shape), NOTHING, NOTHING))


def of_rows(SCALARS: Array, dims: tuple[int, ...]) -> Array:
    """Return the scalars (N, 1...) of the rows of a shape."""
    return SCALARS[: dims[0]].reshape(dims[0], *[1] * (len(dims) - 1))


def known_dims(op: OpView, dims: TensorSpec) -> Dims | None:
    """Return the shape of DATA, as far as it is known."""
    if dims.dims is None:
        return None
    sizes = op.value_of("dims")
    if sizes is None:
        return unknown_dims(op, "dims", dims.dims[0])
    found = tuple(int(size) for size in sizes)
    op.require(min(found, default=-1) >= 0, f"dims holds {list(found)}, which is no shape (N, S)", "feed Shape(DATA)")
    return found


@REDUCE_FRONT_WEIGHTED_SUM_GRADIENT.infer
def reduce_front_weighted_sum_gradient_infer(
    op: OpView, SCALARS: TensorSpec, dY: TensorSpec, dims: TensorSpec
) -> TensorSpec:
    shape = known_dims(op, dims)
    if shape is None:
        return TensorSpec(None, dY.dtype)
    op.require(len(shape) > 0, "dims is empty, DATA has rows", "feed Shape(DATA)")
    check_scalars(op, SCALARS, shape[0])
    if dY.dims is not None:
        relation = f"dY has the shape {show_dims(dY.dims)}, a row of DATA {show_dims(shape[1:])}"
        op.require(shapes_agree(dY.dims, shape[1:]), relation)
    return TensorSpec(shape, dY.dtype)


@REDUCE_FRONT_WEIGHTED_SUM_GRADIENT.cost
def reduce_front_weighted_sum_gradient_cost(
    op: OpView, SCALARS: TensorSpec, dY: TensorSpec, dims: TensorSpec, dX: TensorSpec
) -> Cost:
    del op, SCALARS, dims
    return Cost(dX.size, dY.nbytes + 4 * dX.shape[0], dX.nbytes)


@kernel(REDUCE_FRONT_WEIGHTED_SUM_GRADIENT)
def spread_front_weighted_sum(SCALARS: Array, dY: Array, dX: Array) -> None:
    dX[...] = WEIGHTED_SUM.spread(SegmentRows(len(dX), NOTHING, of_rows(SCALARS, dX.shape), NOTHING, dY))


def _rows(rows: TensorSpec) -> Cut:
    """Return the cut in which what is added up lies along a row."""
    return Cut(1, rows.shape[0], math.prod(rows.shape[1:]))


def _summed(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    del op
    return RowProgram(_rows(specs["DATA"]), {"Y": Total("sum", "SCALARS * DATA")}, lies={"SCALARS": "along"})


def _spread(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    del op
    return RowProgram(_rows(specs["dX"]), each={"dX": "SCALARS * dY"}, lies={"SCALARS": "along", "dY": "row"})


row_program(REDUCE_FRONT_WEIGHTED_SUM, _summed)
row_program(REDUCE_FRONT_WEIGHTED_SUM_GRADIENT, _spread)
