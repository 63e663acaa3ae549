"""Sequences one behind the other, and side by side: PackRNNSequence, UnpackRNNSequence.

Letters: N sequences of `lengths` L[n], R = sum of L rows one behind the other, T = max of L steps:

    rows (R, *S)    steps (T, N, *S): row t of sequence n is steps[t, n]; behind its end there are zeros
"""

from __future__ import annotations

import numpy as np

from tazza.errors import NumericError
from tazza.operator import (
    Array,
    Cost,
    DynamicOutput,
    Effects,
    GradientRequest,
    OpView,
    Role,
    blob,
    kernel,
    schema,
)
from tazza.ops.shape.axis import require_within
from tazza.ops.sparse.segment import starts_of
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

NUMBERS = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.INT32, DataType.INT64})
LENGTHS = blob("lengths", DataType.INT32, "N", role=Role.INDEX, doc="rows of each sequence")

PACK_RNN_SEQUENCE = schema(
    "PackRNNSequence",
    """steps[t, n] is row t of sequence n, 0 behind its end.

    Rows that no length counts are left out.""",
    inputs=[blob("rows", NUMBERS, "R *S", doc="at least of rank 2"), LENGTHS],
    outputs=[blob("steps", NUMBERS, dynamic=True)],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("PackRNNSequence", [[1.0], [2.0], [3.0]], np.array([1, 2], "i"))[..., 0]
    array([[1., 2.],
           [0., 3.]], dtype=float32)
    """,
)

UNPACK_RNN_SEQUENCE = schema(
    "UnpackRNNSequence",
    """The rows of all sequences, one behind the other, from steps side by side.

    What lies behind their ends is left out.""",
    inputs=[blob("steps", NUMBERS, "T N *S", doc="at least of rank 3"), LENGTHS],
    outputs=[blob("rows", NUMBERS, dynamic=True)],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("UnpackRNNSequence", [[[1.0], [2.0]], [[0.0], [3.0]]], np.array([1, 2], "i"))[:, 0]
    array([1., 2., 3.], dtype=float32)
    """,
)


@PACK_RNN_SEQUENCE.infer
def pack_rnn_sequence_infer(op: OpView, rows: TensorSpec, lengths: TensorSpec) -> TensorSpec:
    if rows.dims is None:
        return TensorSpec(None, rows.dtype)
    op.require(len(rows.dims) > 1, f"rows have rank {len(rows.dims)}, they must have elements along a second axis")
    return TensorSpec((None, None if lengths.dims is None else lengths.dims[0], *rows.dims[1:]), rows.dtype)


@UNPACK_RNN_SEQUENCE.infer
def unpack_rnn_sequence_infer(op: OpView, steps: TensorSpec, lengths: TensorSpec) -> TensorSpec:
    del lengths  # one for each of N, the pattern says
    if steps.dims is None:
        return TensorSpec(None, steps.dtype)
    op.require(len(steps.dims) > 2, f"steps have rank {len(steps.dims)}, they must have elements along a third axis")
    return TensorSpec((None, *steps.dims[2:]), steps.dtype)


@PACK_RNN_SEQUENCE.cost
def pack_rnn_sequence_cost(op: OpView, rows: TensorSpec, lengths: TensorSpec, **others: TensorSpec) -> Cost:
    del op, others
    return Cost(0, rows.nbytes + lengths.nbytes, rows.nbytes)


@UNPACK_RNN_SEQUENCE.cost
def unpack_rnn_sequence_cost(op: OpView, steps: TensorSpec, lengths: TensorSpec, **others: TensorSpec) -> Cost:
    del op, others
    return Cost(0, steps.nbytes + lengths.nbytes, steps.nbytes)


@PACK_RNN_SEQUENCE.gradient
def pack_rnn_sequence_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("UnpackRNNSequence", [g.dsteps, g.lengths], [g.drows])


@UNPACK_RNN_SEQUENCE.gradient
def unpack_rnn_sequence_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("PackRNNSequence", [g.drows, g.lengths], [g.dsteps])


def _starts(op: OpView, lengths: Array) -> Array:
    """Return where each sequence begins among rows, and where the last one ends."""
    return starts_of(op, "lengths", lengths, int(np.sum(lengths, dtype=np.int64)), "rows")


@kernel(PACK_RNN_SEQUENCE)
def pack_rnn_sequence(op: OpView, rows: Array, lengths: Array, steps: DynamicOutput) -> None:
    starts = _starts(op, lengths)
    if starts[-1] > len(rows):
        raise op.error(NumericError, f"the lengths add up to {starts[-1]}, and there are {len(rows)} rows")
    packed = steps.allocate((int(lengths.max(initial=0)), len(lengths), *rows.shape[1:]))
    packed[...] = 0
    for n, length in enumerate(lengths):
        packed[:length, n] = rows[starts[n] : starts[n + 1]]


@kernel(UNPACK_RNN_SEQUENCE)
def unpack_rnn_sequence(op: OpView, steps: Array, lengths: Array, rows: DynamicOutput) -> None:
    starts = _starts(op, lengths)
    require_within(op, "lengths", lengths, 0, len(steps) + 1, f"there are T = {len(steps)} steps")
    unpacked = rows.allocate((int(starts[-1]), *steps.shape[2:]))
    for n, length in enumerate(lengths):
        unpacked[starts[n] : starts[n + 1]] = steps[:length, n]
