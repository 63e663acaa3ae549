"""Numbers as rows in which their place is marked: OneHot, SegmentOneHot, BatchOneHot, BatchBucketOneHot.

Letters: N rows of D features each; feature d takes L[d] = `lengths`[d] columns of the output, one behind the other.

Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import NumericError
from tazza.operator import (
    FLOAT,
    INDEX,
    Array,
    Cost,
    Effects,
    OpView,
    Role,
    blob,
    ends,
    kernel,
    not_written,
    schema,
    streamed,
)
from tazza.ops.shape.axis import agree, product, require_one_element, require_within
from tazza.ops.sparse.segment import check_rows, row_count
from tazza.tensor import DataType, TensorSpec

NO_GRADIENT = ends("whole numbers have no gradient")
SIZE = blob("size", DataType.INT64, host=True, role=Role.SHAPE, doc="of one element: how many columns Y has")
LENGTHS = blob("lengths", DataType.INT32, role=Role.INDEX, doc="D numbers of any shape: columns for each feature")

ONE_HOT = schema(
    "OneHot",
    "Y[n] = a row with 1 at X[n], else 0.",
    inputs=[blob("X", DataType.INT64, "N", role=Role.INDEX, doc="columns of Y"), SIZE],
    outputs=[blob("Y", FLOAT)],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("OneHot", np.array([2, 0]), np.array([3]))
    array([[0., 0., 1.],
           [1., 0., 0.]], dtype=float32)
    """,
)
SEGMENT_ONE_HOT = schema(
    "SegmentOneHot",
    "Y[n] = a row with 1 at all places that segment n of X names, else 0.",
    inputs=[
        blob("lengths", DataType.INT32, "N", role=Role.INDEX, doc="how many elements of X each segment takes"),
        blob("X", DataType.INT64, "K", role=Role.INDEX, doc="columns of Y; behind the last segment nothing is read"),
        SIZE,
    ],
    outputs=[blob("Y", FLOAT)],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("SegmentOneHot", [2, 1], np.array([0, 2, 1]), np.array([3]))
    array([[1., 0., 1.],
           [0., 1., 0.]], dtype=float32)
    """,
)


def columns_of(op: OpView, size: TensorSpec, least: int) -> int | None:
    """Return how many columns Y has, None before it is known.

    Raises:
        ShapeError: it is no single number, or too small.
    """
    require_one_element(op, "size", size.dims)
    value = op.value_of("size")
    columns = None if value is None else int(value.reshape(()))
    op.require(columns is None or columns >= least, f"size = {columns}, it must be at least {least}")
    return columns


@ONE_HOT.infer
def one_hot_infer(op: OpView, X: TensorSpec, size: TensorSpec) -> TensorSpec:
    return TensorSpec((None if X.dims is None else X.dims[0], columns_of(op, size, 0)), DataType.FLOAT)


@SEGMENT_ONE_HOT.infer
def segment_one_hot_infer(op: OpView, lengths: TensorSpec, X: TensorSpec, size: TensorSpec) -> TensorSpec:
    del X
    return TensorSpec((None if lengths.dims is None else lengths.dims[0], columns_of(op, size, 1)), DataType.FLOAT)


@kernel(ONE_HOT)
def one_hot(op: OpView, X: Array, Y: Array) -> None:
    check_rows(op, X, Y.shape[1], "X")
    Y[...] = X[:, None] == np.arange(Y.shape[1])


@kernel(SEGMENT_ONE_HOT)
def segment_one_hot(op: OpView, lengths: Array, X: Array, Y: Array) -> None:
    named = row_count(op, "lengths", lengths)
    if named > X.size:
        raise op.error(NumericError, f"the lengths add up to {named}, and X has {X.size} elements")
    marked = X[:named]
    check_rows(op, marked, Y.shape[1], "X")
    Y[...] = 0
    Y[np.repeat(np.arange(lengths.size), lengths), marked] = 1


BATCH_ONE_HOT = schema(
    "BatchOneHot",
    "Y = 1 where feature d of a row of X equals one of its L[d] values, else 0.",
    inputs=[
        blob("X", INDEX, doc="(N, ...), D features in each row"),
        LENGTHS,
        blob("values", "X", role=Role.DATA, doc="L[0] values of feature 0, then L[1] of feature 1 ..."),
    ],
    outputs=[blob("Y", "X", doc="(N, as many as there are values)")],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("BatchOneHot", [[5, 7], [6, 7]], [2, 1], [5, 6, 7])
    array([[1, 0, 1],
           [0, 1, 1]], dtype=int32)
    """,
)
BATCH_BUCKET_ONE_HOT = schema(
    "BatchBucketOneHot",
    """Y = 1 in the column of the bucket that feature d of a row of X lies in, else 0.

    L[d] sorted boundaries make L[d] + 1 buckets, to each of which its upper boundary belongs. Of a value that equals
    several boundaries it is the middle one of their buckets, of NaN the middle one of all.""",
    inputs=[
        blob("X", FLOAT, doc="(N, ...), D features in each row"),
        LENGTHS,
        blob("boundaries", FLOAT, role=Role.DATA, doc="L[0] boundaries of feature 0, then L[1] of feature 1 ..."),
    ],
    outputs=[blob("Y", FLOAT, doc="(N, D more than there are boundaries)")],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none"),
    source="Caffe2",
    example="""
    >>> run("BatchBucketOneHot", [[0.5], [1.0], [1.5]], [1], [1.0])
    array([[1., 0.],
           [1., 0.],
           [0., 1.]], dtype=float32)
    """,
)


def batch_dims(op: OpView, X: TensorSpec, lengths: TensorSpec) -> tuple[int | None, int | None]:
    """Return N and D, as far as they are known.

    Raises:
        ShapeError: X has no rows, or there is not one length for each feature.
    """
    given = None if lengths.dims is None else product(lengths.dims)
    if X.dims is None:
        return None, given
    op.require(len(X.dims) > 0, "X has rank 0, it must have rows")
    features = product(X.dims[1:])
    op.require(agree(features, given), f"X has {features} features in a row, and there are {given} lengths")
    return X.dims[0], given if features is None else features


@BATCH_ONE_HOT.infer
def batch_one_hot_infer(op: OpView, X: TensorSpec, lengths: TensorSpec, values: TensorSpec) -> TensorSpec:
    rows, _ = batch_dims(op, X, lengths)
    return TensorSpec((rows, None if values.dims is None else product(values.dims)), X.dtype)


@BATCH_BUCKET_ONE_HOT.infer
def batch_bucket_one_hot_infer(op: OpView, X: TensorSpec, lengths: TensorSpec, boundaries: TensorSpec) -> TensorSpec:
    rows, features = batch_dims(op, X, lengths)
    given = None if boundaries.dims is None else product(boundaries.dims)
    return TensorSpec((rows, None if features is None or given is None else given + features), X.dtype)


@BATCH_ONE_HOT.cost
@BATCH_BUCKET_ONE_HOT.cost
def batch_one_hot_cost(op: OpView, X: TensorSpec, lengths: TensorSpec, Y: TensorSpec, **told: TensorSpec) -> Cost:
    del op
    return streamed((X, lengths, *told.values()), (Y,), flops=Y.size)


def ends_of(op: OpView, lengths: Array, total: int, noun: str, least: int) -> Array:
    """Return where what each feature has ends.

    Raises:
        NumericError: a length is too small, or they do not add up to `total`.
    """
    flat = lengths.reshape(-1)
    require_within(op, "lengths", lengths, least)
    ends_at = np.cumsum(flat, dtype=np.int64)
    named = int(ends_at[-1]) if flat.size else 0
    if named != total:
        raise op.error(NumericError, f"the lengths add up to {named}, and there are {total} {noun}")
    return ends_at


@kernel(BATCH_ONE_HOT)
def batch_one_hot(op: OpView, X: Array, lengths: Array, values: Array, Y: Array) -> None:
    ends_of(op, lengths, values.size, "values", 0)
    features = np.repeat(np.arange(lengths.size), lengths.reshape(-1))
    Y[...] = X.reshape(len(X), lengths.size)[:, features] == values.reshape(-1)


@kernel(BATCH_BUCKET_ONE_HOT)
def batch_bucket_one_hot(op: OpView, X: Array, lengths: Array, boundaries: Array, Y: Array) -> None:
    ends_at = ends_of(op, lengths, boundaries.size, "boundaries", 1)
    rows, flat = X.reshape(len(X), lengths.size), boundaries.reshape(-1)
    Y[...] = 0
    for d, end in enumerate(ends_at):
        begin = end - lengths.reshape(-1)[d]
        Y[np.arange(len(X)), begin + d + middle_bucket(flat[begin:end], rows[:, d])] = 1


def middle_bucket(boundaries: Array, values: Array) -> Array:
    """Return the bucket of each value: the middle one where several boundaries are equal to it."""
    low, high = (np.searchsorted(boundaries, values, side) for side in ("left", "right"))
    low[np.isnan(values)] = 0
    return np.where(low == high, low, (low + high) // 2)
