"""Rows of a matrix by the columns that are not empty, and back; the columns of a row that are there.

Letters: N rows, D columns; row n has L[n] of K values, one row behind the other, and for each value its column.

Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import SchemaError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    DynamicOutput,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    schema,
    streamed,
)
from tazza.ops.shape.axis import agree
from tazza.ops.sparse.segment import check_rows, starts_of
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

LENGTHS = blob("lengths", DataType.INT64, "N", role=Role.INDEX, doc="values of each row, one row behind the other")
INDICES = blob("indices", DataType.INT64, "K", role=Role.INDEX, doc="the column of each value, in [0, D)")
UNKNOWN = -1

BATCH_SPARSE_TO_DENSE = schema(
    "BatchSparseToDense",
    """dense[n, indices[k]] = values[k], the last of several, for each k of row n; else `default_value`.

    D is `dense_last_dim`, or the second extent of `like`.""",
    inputs=[
        LENGTHS,
        INDICES,
        blob("values", FLOAT, "K", role=Role.DATA),
        blob("like", None, "R D", optional=True, role=Role.SHAPE, doc="of any type: its second extent counts alone"),
    ],
    outputs=[blob("dense", FLOAT, doc="(N, D)")],
    args=[
        arg("dense_last_dim", int, UNKNOWN, doc="D, at least 1; needed without like, and of one value with it"),
        arg("default_value", float, 0.0, doc="where there is no value"),
    ],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> lengths, columns = np.array([2, 0, 1]), np.array([3, 0, 1])
    >>> run("BatchSparseToDense", lengths, columns, [5.0, 6.0, 7.0], dense_last_dim=4)
    array([[6., 0., 0., 5.],
           [0., 0., 0., 0.],
           [0., 7., 0., 0.]], dtype=float32)
    """,
)
BATCH_DENSE_TO_SPARSE = schema(
    "BatchDenseToSparse",
    "values[k] = dense[n, indices[k]] for each k of row n.",
    inputs=[LENGTHS, INDICES, blob("dense", FLOAT, "N D", role=Role.DATA)],
    outputs=[blob("values", FLOAT, "K")],
    args=[
        arg("dense_last_dim", int, UNKNOWN, doc="no effect: the gradient of BatchSparseToDense has it"),
        arg("default_value", float, 0.0, doc="no effect: the gradient of BatchSparseToDense has it"),
    ],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("BatchDenseToSparse", np.array([1, 2]), np.array([1, 2, 0]), [[3.0, 4.0, 5.0], [6.0, 7.0, 8.0]])
    array([4., 8., 6.], dtype=float32)
    """,
)


@BATCH_SPARSE_TO_DENSE.validate
def batch_sparse_to_dense_validate(op: OpView) -> None:
    told = op.dense_last_dim
    if told < 1 and not (told == UNKNOWN and op.has_input("like")):
        raise op.error(SchemaError, f"dense_last_dim is {told}, it must be at least 1", "give it, or the input like")


@BATCH_SPARSE_TO_DENSE.infer
def batch_sparse_to_dense_infer(
    op: OpView, lengths: TensorSpec, indices: TensorSpec, values: TensorSpec, like: TensorSpec | None
) -> TensorSpec:
    del indices
    told = None if op.dense_last_dim == UNKNOWN else int(op.dense_last_dim)
    found = None if like is None or like.dims is None else like.dims[1]
    op.require(agree(told, found), f"like has {found} columns, dense_last_dim is {told}")
    op.require(found is None or found > 0, f"like has {found} columns, it must have at least 1")
    rows = None if lengths.dims is None else lengths.dims[0]
    return TensorSpec((rows, found if told is None else told), values.dtype)


@BATCH_SPARSE_TO_DENSE.cost
def batch_sparse_to_dense_cost(op: OpView, values: TensorSpec, dense: TensorSpec, **others: object) -> Cost:
    del op, others
    return Cost(0, 3 * values.nbytes, dense.nbytes)


@BATCH_SPARSE_TO_DENSE.gradient
def batch_sparse_to_dense_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("BatchDenseToSparse", [g.lengths, g.indices, g.ddense], [g.dvalues])


def rows_of(op: OpView, lengths: Array, indices: Array, columns: int) -> Array:
    """Return the row of each value.

    Raises:
        NumericError: lengths do not add up to the number of indices, or an index is no column.
    """
    starts = starts_of(op, "lengths", lengths, indices.size, "indices")
    check_rows(op, indices, columns, "indices")
    return np.repeat(np.arange(lengths.size), np.diff(starts))


@kernel(BATCH_SPARSE_TO_DENSE)
def batch_sparse_to_dense(op: OpView, lengths: Array, indices: Array, values: Array, dense: Array) -> None:
    rows = rows_of(op, lengths, indices, dense.shape[1])
    dense[...] = op.default_value
    dense[rows, indices] = values  # of several for one place NumPy keeps the last


@BATCH_DENSE_TO_SPARSE.cost
def batch_dense_to_sparse_cost(op: OpView, values: TensorSpec, **others: TensorSpec) -> Cost:
    del op
    return streamed((values, others["indices"], others["lengths"]), (values,))


@BATCH_DENSE_TO_SPARSE.gradient
def batch_dense_to_sparse_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("BatchSparseToDense", [g.lengths, g.indices, g.dvalues, g.like("dense")], [g.ddense])


@kernel(BATCH_DENSE_TO_SPARSE)
def batch_dense_to_sparse(op: OpView, lengths: Array, indices: Array, dense: Array, values: Array) -> None:
    values[...] = dense[rows_of(op, lengths, indices, dense.shape[1]), indices]


DENSE_VECTOR_TO_ID_LIST = schema(
    "DenseVectorToIdList",
    """Of each row of X how many elements are there, and the columns of these.

    As in Caffe2, which cuts off the part of X + 0.5 behind the point, those above -1.5 and below 0.5 are not there.""",
    inputs=[blob("X", FLOAT, "N D")],
    outputs=[
        blob("lengths", DataType.INT32, "N"),
        blob("ids", DataType.INT32, dynamic=True, doc="(K), one row behind the other"),
    ],
    effects=Effects.PURE,
    no_gradient=ends("whole numbers have no gradient"),
    source="Caffe2",
    example="""
    >>> run("DenseVectorToIdList", [[0.0, 0.5, 2.0], [1.0, 0.0, 0.0]])
    (array([2, 1], dtype=int32), array([1, 2, 0], dtype=int32))
    """,
)


@DENSE_VECTOR_TO_ID_LIST.infer
def dense_vector_to_id_list_infer(op: OpView, X: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    del op
    rows = None if X.dims is None else X.dims[0]
    return TensorSpec((rows,), DataType.INT32), TensorSpec((None,), DataType.INT32)


@DENSE_VECTOR_TO_ID_LIST.cost
def dense_vector_to_id_list_cost(op: OpView, X: TensorSpec, lengths: TensorSpec, **others: object) -> Cost:
    del op, others
    return Cost(X.size, X.nbytes, X.nbytes + lengths.nbytes)


@kernel(DENSE_VECTOR_TO_ID_LIST)
def dense_vector_to_id_list(X: Array, lengths: Array, ids: DynamicOutput) -> None:
    there = ~((X > -1.5) & (X < 0.5))
    lengths[...] = there.sum(axis=1)
    _, columns = np.nonzero(there)
    ids.allocate(columns.shape)[...] = columns
