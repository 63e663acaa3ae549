"""Segments one behind the other, and each in a row of its own: PackSegments, UnpackSegments.

Letters: N segments of `LENGTHS` L[n], R = sum of L rows one behind the other, T = `max_length`, or the largest of L:

    DATA (R, *S)    packed (N, T, *S): row t of segment n is packed[n, t]; behind its end there is padding

What of a segment is longer than T is left out, in both directions.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import SchemaError
from tazza.operator import (
    INDEX,
    Array,
    Cost,
    DynamicOutput,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    kernel,
    schema,
)
from tazza.ops.shape.axis import agree, require_within
from tazza.ops.sparse.segment import row_count, starts_of
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

PACKABLE = frozenset({DataType.FLOAT, DataType.INT32, DataType.INT64, DataType.STRING})
LENGTHS = blob("LENGTHS", INDEX, "N", role=Role.INDEX, doc="rows of each segment")
ARGS = (
    arg("max_length", int, -1, minimum=-1, doc="T; -1: the length of the longest segment"),
    arg("pad_minf", bool, False, doc="pad floats with minus infinity, not with 0; no effect on what unpacks"),
    arg("return_presence_mask", bool, False, doc="there is a second output; no effect on what unpacks"),
)

PACK_SEGMENTS = schema(
    "PackSegments",
    """packed[n, t] is row t of segment n; behind its end there are zeros, minus infinities, or empty texts.

    mask (N, T) says where rows are.""",
    inputs=[LENGTHS, blob("DATA", PACKABLE, "R *S", role=Role.DATA)],
    outputs=[blob("packed", PACKABLE, dynamic=True), blob("mask", DataType.BOOL, dynamic=True, optional=True)],
    args=ARGS,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("PackSegments", np.array([1, 2]), [5.0, 6.0, 7.0])
    array([[5., 0.],
           [6., 7.]], dtype=float32)
    """,
)

UNPACK_SEGMENTS = schema(
    "UnpackSegments",
    "The rows of all segments, one behind the other; padding is left out.",
    inputs=[LENGTHS, blob("packed", PACKABLE, "N T *S", role=Role.DATA)],
    outputs=[blob("DATA", PACKABLE, dynamic=True)],
    args=ARGS,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("UnpackSegments", np.array([1, 2]), [[5.0, 0.0], [6.0, 7.0]])
    array([5., 6., 7.], dtype=float32)
    """,
)


@PACK_SEGMENTS.validate
def pack_segments_validate(op: OpView) -> None:
    if op.return_presence_mask and "mask" not in op.output_letters:
        raise op.error(SchemaError, "return_presence_mask = 1, and there is no second output", "name a blob for it")


@PACK_SEGMENTS.infer
def pack_segments_infer(op: OpView, LENGTHS: TensorSpec, DATA: TensorSpec) -> tuple[TensorSpec, ...]:
    N = None if LENGTHS.dims is None else LENGTHS.dims[0]
    packed = TensorSpec(None if DATA.dims is None else (N, None, *DATA.dims[1:]), DATA.dtype)
    return (packed, TensorSpec((N, None), DataType.BOOL))[: len(op.output_letters)]


@UNPACK_SEGMENTS.infer
def unpack_segments_infer(op: OpView, LENGTHS: TensorSpec, packed: TensorSpec) -> TensorSpec:
    del LENGTHS  # one for each of N, the pattern says
    if packed.dims is not None and op.max_length >= 0:
        T = packed.dims[1]
        op.require(agree(T, op.max_length), f"packed has T = {T} rows a segment, max_length is {op.max_length}")
    return TensorSpec(None if packed.dims is None else (None, *packed.dims[2:]), packed.dtype)


@PACK_SEGMENTS.cost
def pack_segments_cost(op: OpView, LENGTHS: TensorSpec, DATA: TensorSpec, **others: TensorSpec) -> Cost:
    del op, others
    return Cost(0, LENGTHS.nbytes + DATA.nbytes, DATA.nbytes)


@UNPACK_SEGMENTS.cost
def unpack_segments_cost(op: OpView, LENGTHS: TensorSpec, packed: TensorSpec, **others: TensorSpec) -> Cost:
    del op, others
    return Cost(0, LENGTHS.nbytes + packed.nbytes, packed.nbytes)


@PACK_SEGMENTS.gradient
def pack_segments_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("UnpackSegments", [g.LENGTHS, g.dpacked], [g.dDATA])


@UNPACK_SEGMENTS.gradient
def unpack_segments_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("PackSegments", [g.LENGTHS, g.dDATA], [g.dpacked])


def padding(op: OpView, data: Array) -> float | bytes:
    """Return what stands behind the end of a segment."""
    if data.dtype == object:
        return b""
    return -np.inf if op.pad_minf and data.dtype.kind == "f" else 0


@kernel(PACK_SEGMENTS)
def pack_segments(op: OpView, LENGTHS: Array, DATA: Array, packed: DynamicOutput, mask: DynamicOutput | None) -> None:
    starts = starts_of(op, "LENGTHS", LENGTHS, len(DATA), "rows of DATA")
    T = op.max_length if op.max_length >= 0 else int(LENGTHS.max(initial=0))
    rows = packed.allocate((len(LENGTHS), T, *DATA.shape[1:]))
    rows[...] = padding(op, DATA)
    for n, length in enumerate(np.minimum(LENGTHS, T)):
        rows[n, :length] = DATA[starts[n] : starts[n] + length]
    if mask is not None:
        mask.allocate((len(LENGTHS), T))[...] = np.arange(T) < LENGTHS[:, None]


@kernel(UNPACK_SEGMENTS)
def unpack_segments(op: OpView, LENGTHS: Array, packed: Array, DATA: DynamicOutput) -> None:
    row_count(op, "LENGTHS", LENGTHS)
    T = packed.shape[1]
    if op.max_length < 0:
        require_within(op, "LENGTHS", LENGTHS, 0, T + 1, f"packed has T = {T} rows a segment")
    taken = np.minimum(LENGTHS, T)
    rows = DATA.allocate((int(taken.sum()), *packed.shape[2:]))
    begin = 0
    for n, length in enumerate(taken):
        rows[begin : begin + length] = packed[n, :length]
        begin += int(length)
