"""Segments of rows, whole: picked, padded to one length, each row repeated, turned around; rows that are taken out.

Letters: N segments of rows of the shape S, one behind the other, segment n with `lengths` L[n] rows; or, side by side,
(T, N, D), where row t of segment n is X[t, n].

Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import DTypeError
from tazza.operator import (
    INDEX,
    REQUIRED,
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
    forbidden,
    kernel,
    schema,
    streamed,
)
from tazza.ops.shape.axis import require_within
from tazza.ops.sparse.segment import check_rows, row_count, starts_of
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

LENGTHS = blob("lengths", DataType.INT32, "N", role=Role.INDEX, doc="rows of each segment")
FILLED = INDEX | {DataType.FLOAT, DataType.DOUBLE}
TURNED = FILLED | {DataType.BOOL}
NAMED = INDEX | {DataType.DOUBLE}
"""An empty list that NumPy makes is of float64."""

LENGTHS_GATHER = schema(
    "LengthsGather",
    "Y = the rows of the segments that `indices` names, one segment behind the other.",
    inputs=[
        blob("X", None, "R *S"),
        LENGTHS,
        blob("indices", INDEX, "K", role=Role.INDEX, doc="of segments, in [0, N)"),
    ],
    outputs=[blob("Y", "X", dynamic=True)],
    effects=Effects.PURE,
    no_gradient=forbidden("Caffe2 refuses it"),
    source="Caffe2",
    example="""
    >>> run("LengthsGather", [5.0, 6.0, 7.0], [1, 2], [1, 0, 1])
    array([6., 7., 5., 6., 7.], dtype=float32)
    """,
)
LENGTHS_PAD = schema(
    "LengthsPad",
    "Y has `target_length` rows for each segment: its own, and behind them rows of `padding_value`.",
    inputs=[blob("X", FILLED, "R *S"), LENGTHS],
    outputs=[blob("Y", "X", doc="(N * target_length, *S)")],
    args=[
        arg("padding_value", float, -1.0, doc="its whole part, where X is of whole numbers"),
        arg("target_length", int, REQUIRED, minimum=1, doc="rows of each segment in Y; none has more in X"),
    ],
    effects=Effects.PURE,
    no_gradient=ends("Caffe2 ends the backward pass here"),
    source="Caffe2",
    example="""
    >>> run("LengthsPad", [5.0, 6.0, 7.0], [1, 2], target_length=2)
    array([ 5., -1.,  6.,  7.], dtype=float32)
    """,
)
LENGTHS_TILE = schema(
    "LengthsTile",
    "Y has row n of X L[n] times, one row behind the other.",
    inputs=[blob("X", None, "N *S"), LENGTHS],
    outputs=[blob("Y", "X", dynamic=True)],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("LengthsTile", [5.0, 6.0, 7.0], [2, 0, 1])
    array([5., 5., 7.], dtype=float32)
    """,
)
REVERSE_PACKED_SEGS = schema(
    "ReversePackedSegs",
    "Y[t, n] = X[L[n] - 1 - t, n] for t < L[n], else X[t, n].",
    inputs=[
        blob("X", TURNED, "T N D"),
        blob("lengths", INDEX, "N", role=Role.INDEX, doc="rows of each segment, at most T"),
    ],
    outputs=[blob("Y", like="X")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("ReversePackedSegs", [[[1.0]], [[2.0]], [[3.0]]], [2]).reshape(3)
    array([2., 1., 3.], dtype=float32)
    """,
)
REMOVE_DATA_BLOCKS = schema(
    "RemoveDataBlocks",
    "Y = X without the rows that `indices` names, in any order.",
    inputs=[
        blob("X", None, "R *S"),
        blob("indices", NAMED, "K", role=Role.INDEX, doc="of rows, in [0, R); float64 where K = 0"),
    ],
    outputs=[blob("Y", "X", dynamic=True)],
    effects=Effects.PURE,
    no_gradient=forbidden("Caffe2 refuses it"),
    source="Caffe2",
    example="""
    >>> run("RemoveDataBlocks", [5.0, 6.0, 7.0], [1])
    array([5., 7.], dtype=float32)
    """,
)


@REMOVE_DATA_BLOCKS.infer
def remove_data_blocks_infer(op: OpView, X: TensorSpec, indices: TensorSpec) -> TensorSpec:
    if indices.dtype not in INDEX and indices.dims not in (None, (None,), (0,)):
        raise op.error(DTypeError, f"indices is {indices.dtype.label}, it must be int32 or int64", "insert a Cast")
    return some_rows_infer(op, X)


@LENGTHS_GATHER.infer
@LENGTHS_TILE.infer
def some_rows_infer(op: OpView, X: TensorSpec, **others: TensorSpec) -> TensorSpec:
    del op, others
    return X.some_rows()


@LENGTHS_GATHER.cost
@REMOVE_DATA_BLOCKS.cost
@LENGTHS_TILE.cost
def some_rows_cost(op: OpView, X: TensorSpec, Y: TensorSpec, **others: TensorSpec) -> Cost:
    del op, Y
    return streamed((X, *others.values()), (X,))


@kernel(LENGTHS_GATHER)
def lengths_gather(op: OpView, X: Array, lengths: Array, indices: Array, Y: DynamicOutput) -> None:
    starts = starts_of(op, "lengths", lengths, len(X), "rows of X")
    check_rows(op, indices, lengths.size, "indices")
    rows = [np.arange(int(starts[n]), int(starts[n + 1])) for n in indices]
    found = np.concatenate([np.zeros(0, np.int64), *rows])
    np.take(X, found, axis=0, out=Y.allocate((found.size, *X.shape[1:])), mode="clip")


@LENGTHS_PAD.infer
def lengths_pad_infer(op: OpView, X: TensorSpec, lengths: TensorSpec) -> TensorSpec:
    N = None if lengths.dims is None else lengths.dims[0]
    rows = None if N is None else N * op.target_length
    return TensorSpec(None if X.dims is None else (rows, *X.dims[1:]), X.dtype)


@kernel(LENGTHS_PAD)
def lengths_pad(op: OpView, X: Array, lengths: Array, Y: Array) -> None:
    starts_of(op, "lengths", lengths, len(X), "rows of X")
    _check_most(op, lengths, op.target_length, "target_length")
    there = np.less.outer(np.arange(int(op.target_length)), lengths).T  # (N, target_length)
    Y[...] = np.float32(op.padding_value).astype(Y.dtype)
    Y[there.reshape(-1)] = X


def _check_most(op: OpView, lengths: Array, most: int, noun: str) -> None:
    require_within(op, "lengths", lengths, 0, most + 1, f"{noun} is the most")


@LENGTHS_TILE.gradient
def lengths_tile_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("LengthsSum", [g.dY, g.lengths], [g.dX])


@kernel(LENGTHS_TILE)
def lengths_tile(op: OpView, X: Array, lengths: Array, Y: DynamicOutput) -> None:
    rows = Y.allocate((row_count(op, "lengths", lengths), *X.shape[1:]))
    np.take(X, np.repeat(np.arange(len(X)), lengths), axis=0, out=rows, mode="clip")  # "raise" copies twice


@REVERSE_PACKED_SEGS.gradient
def reverse_packed_segs_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("ReversePackedSegs", [g.dY, g.lengths], [g.dX])


@kernel(REVERSE_PACKED_SEGS)
def reverse_packed_segs(op: OpView, X: Array, lengths: Array, Y: Array) -> None:
    _check_most(op, lengths, len(X), "T")
    t = np.arange(len(X))[:, None]
    from_where = np.where(t < lengths, lengths - 1 - t, t)  # (T, N)
    Y[...] = np.take_along_axis(X, from_where[:, :, None], axis=0)


@kernel(REMOVE_DATA_BLOCKS)
def remove_data_blocks(op: OpView, X: Array, indices: Array, Y: DynamicOutput) -> None:
    if indices.size:
        check_rows(op, indices, len(X), "indices")
    left = np.setdiff1d(np.arange(len(X)), indices)
    np.take(X, left, axis=0, out=Y.allocate((left.size, *X.shape[1:])), mode="clip")
