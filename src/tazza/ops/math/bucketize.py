"""Which bucket a number lies in: Bucketize, BatchBucketize. A bucket reaches up to its boundary, which is part of it.

Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    not_written,
    schema,
    streamed,
)
from tazza.ops.sparse.segment import check_rows, starts_of
from tazza.tensor import DataType, TensorSpec

BUCKETIZE = schema(
    "Bucketize",
    "Y = how many of `boundaries` lie below X; 0 for NaN.",
    inputs=[blob("X", FLOAT, "N *S")],
    outputs=[blob("Y", DataType.INT32, "N *S")],
    args=[arg("boundaries", list[float], [], doc="sorted")],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none"),
    source="Caffe2",
    example="""
    >>> run("Bucketize", [0.5, 1.0, 1.5], boundaries=[0.0, 1.0])
    array([1, 1, 2], dtype=int32)
    """,
)
BATCH_BUCKETIZE = schema(
    "BatchBucketize",
    """Y[n, k] = how many boundaries of feature k lie below X[n, indices[k]]; all of them for NaN.

    Feature k has L[k] = `lengths`[k] boundaries, one behind the other.""",
    inputs=[
        blob("X", FLOAT, "N D"),
        blob("indices", DataType.INT32, "K", role=Role.INDEX, doc="columns of X, each in [0, D)"),
        blob("boundaries", FLOAT, "B", role=Role.PARAMETER, doc="those of each feature are sorted"),
        blob("lengths", DataType.INT32, "K", role=Role.INDEX, doc="they add up to B"),
    ],
    outputs=[blob("Y", DataType.INT32, "N K")],
    effects=Effects.PURE,
    no_gradient=ends("whole numbers have no gradient"),
    source="Caffe2",
    example="""
    >>> run("BatchBucketize", [[0.5, 7.0], [2.5, 9.0]], [1, 0], [8.0, 1.0, 2.0], [1, 2])
    array([[0, 0],
           [1, 2]], dtype=int32)
    """,
)


@BUCKETIZE.validate
def bucketize_validate(op: OpView) -> None:
    if sorted(op.boundaries) != list(op.boundaries):
        raise op.error(ArgumentError, f"boundaries = {op.boundaries} are not sorted")


@BUCKETIZE.infer
def bucketize_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    del op
    return TensorSpec(X.dims, DataType.INT32)


@BUCKETIZE.cost
def bucketize_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    return streamed((X,), (Y,), flops=Y.size * len(op.boundaries).bit_length())


@BATCH_BUCKETIZE.infer
def batch_bucketize_infer(
    op: OpView, X: TensorSpec, indices: TensorSpec, boundaries: TensorSpec, lengths: TensorSpec
) -> TensorSpec:
    del op, boundaries, lengths
    rows, columns = (None if one.dims is None else one.dims[0] for one in (X, indices))
    return TensorSpec((rows, columns), DataType.INT32)


@BATCH_BUCKETIZE.cost
def batch_bucketize_cost(
    op: OpView, X: TensorSpec, indices: TensorSpec, boundaries: TensorSpec, lengths: TensorSpec, Y: TensorSpec
) -> Cost:
    del op, X
    taken = Y.size * 4
    return Cost(4 * Y.size, taken + indices.nbytes + boundaries.nbytes + lengths.nbytes, Y.nbytes)


@kernel(BUCKETIZE)
def bucketize(op: OpView, X: Array, Y: Array) -> None:
    Y[...] = np.searchsorted(np.array(op.boundaries, np.float32), X)
    Y[np.isnan(X)] = 0


@kernel(BATCH_BUCKETIZE)
def batch_bucketize(op: OpView, X: Array, indices: Array, boundaries: Array, lengths: Array, Y: Array) -> None:
    check_rows(op, indices, X.shape[1], "indices")
    starts = starts_of(op, "lengths", lengths, boundaries.size, "boundaries")
    for k, column in enumerate(indices):
        Y[:, k] = np.searchsorted(boundaries[starts[k] : starts[k + 1]], X[:, column])
