"""Segments said in other ways: lengths as ranges, offsets, ids or weights; sorted ids as lengths or ranges.

N segments of rows that lie one behind the other: segment n begins at start[n], the sum of all lengths L before it.

    ranges (N, 2)   [start[n], L[n]]          offsets (N), or (N + 1)   start, and where the last one ends
    ids (R)         the segment of each row   weights (R)               L[n]^-power, for each row of segment n

Sorted ids may leave segments out, which are empty. Source: Caffe2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import NumericError, ShapeError
from tazza.operator import (
    INDEX,
    ArgSpec,
    Array,
    Cost,
    DynamicOutput,
    Effects,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    ends,
    family,
    kernel,
    schema,
    streamed,
)
from tazza.ops.shape.axis import require_within
from tazza.ops.sparse.segment import ROWS_MAX, places_within, row_count
from tazza.tensor import DataType, TensorSpec

NO_GRADIENT = ends("whole numbers have no gradient")
LENGTHS = blob("LENGTHS", DataType.INT32, "N", role=Role.INDEX, doc="rows of each segment")


def _starts(lengths: Array) -> Array:
    """Return where each segment begins, in the type of the lengths."""
    return (np.cumsum(lengths, dtype=np.int64) - lengths).astype(lengths.dtype)


@dataclass(frozen=True, slots=True)
class PerSegment:
    """What has a row for each segment: text, extents of that row, kernel and example, arguments."""

    doc: str
    extents: Callable[[OpView, int | None], tuple[int | None, ...]]
    compute: Callable[[OpView, Array], Array]
    example: str
    args: tuple[ArgSpec, ...] = ()


def _offsets(op: OpView, lengths: Array) -> Array:
    starts = _starts(lengths)
    return np.append(starts, np.int32(lengths.sum())) if op.include_last_offset else starts


@family(
    {
        "LengthsToRanges": PerSegment(
            "Y[n] = [start[n], L[n]].",
            lambda _, count: (count, 2),
            lambda _, lengths: np.stack([_starts(lengths), lengths], axis=1),
            "[[0, 1],\n       [1, 0],\n       [1, 2]]",
        ),
        "LengthsToOffsets": PerSegment(
            "Y[n] = start[n]; with `include_last_offset` also where the last segment ends.",
            lambda op, count: (None if count is None else count + op.include_last_offset,),
            _offsets,
            "[0, 1, 1]",
            (arg("include_last_offset", bool, False, doc="Y has N + 1 elements"),),
        ),
    }
)
def lengths_per_segment(type: str, row: PerSegment) -> OpSchema:
    """What lengths say, with a row for each."""
    made = schema(
        type,
        row.doc,
        inputs=[LENGTHS],
        outputs=[blob("Y", DataType.INT32)],
        args=row.args,
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=f'>>> run("{type}", [1, 0, 2])\narray({row.example}, dtype=int32)',
    )

    @made.infer
    def infer(op: OpView, LENGTHS: TensorSpec) -> TensorSpec:
        return TensorSpec(row.extents(op, None if LENGTHS.dims is None else LENGTHS.dims[0]), DataType.INT32)

    @made.cost
    def cost(op: OpView, LENGTHS: TensorSpec, Y: TensorSpec) -> Cost:
        del op
        return streamed((LENGTHS,), (Y,), flops=LENGTHS.size)

    @kernel(made)
    def marks(op: OpView, LENGTHS: Array, Y: Array) -> None:
        Y[...] = row.compute(op, LENGTHS)

    return made


@dataclass(frozen=True, slots=True)
class PerRow:
    """What has an element for each row: text, type of Y, kernel from lengths and example; types of L and arguments."""

    doc: str
    dtype: DataType
    compute: Callable[[OpView, Array], Array]
    example: str
    letter_types: frozenset[DataType] = frozenset({DataType.INT32})
    args: tuple[ArgSpec, ...] = ()


def _weights(op: OpView, lengths: Array) -> Array:
    each = np.power(np.maximum(lengths, 1), -np.float64(op.power))
    return np.repeat(each.astype(np.float32), lengths)


@family(
    {
        "LengthsToSegmentIds": PerRow(
            "Y has n for each row of segment n.",
            DataType.INT32,
            lambda _, lengths: np.repeat(np.arange(lengths.size, dtype=np.int32), lengths),
            "[0, 2, 2], dtype=int32",
        ),
        "LengthsRangeFill": PerRow(
            "Y counts the rows of each segment from 0.",
            DataType.INT32,
            lambda _, lengths: places_within(lengths),
            "[0, 0, 1], dtype=int32",
        ),
        "LengthsToWeights": PerRow(
            "Y has L[n]^-power for each row of segment n.",
            DataType.FLOAT,
            _weights,
            "[1. , 0.5, 0.5], dtype=float32",
            INDEX,
            (arg("power", float, 0.5, doc="0.5 divides by the square root of the length"),),
        ),
    }
)
def lengths_per_row(type: str, row: PerRow) -> OpSchema:
    """What lengths say, with an element for each row."""
    power = ", power=1.0" if row.args else ""
    made = schema(
        type,
        row.doc,
        inputs=[blob("LENGTHS", row.letter_types, "N", role=Role.INDEX, doc="rows of each segment, not negative")],
        outputs=[blob("Y", row.dtype, dynamic=True)],
        args=row.args,
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=f'>>> run("{type}", [1, 0, 2]{power})\narray({row.example})',
    )

    @made.infer
    def infer(op: OpView, LENGTHS: TensorSpec) -> TensorSpec:
        del op, LENGTHS
        return TensorSpec((None,), row.dtype)

    @kernel(made)
    def rows(op: OpView, LENGTHS: Array, Y: DynamicOutput) -> None:
        out = Y.allocate((row_count(op, "LENGTHS", LENGTHS),))
        out[...] = row.compute(op, LENGTHS)

    return made


LIKE = blob("like", optional=True, role=Role.SHAPE, doc="its first extent is N, at least one more than the last id")


@dataclass(frozen=True, slots=True)
class OfIds:
    """What is told of a segment: text and example; and whether that is a range, or a length."""

    doc: str
    example: str
    ranges: bool


@family(
    {
        "SegmentIdsToLengths": OfIds("Y[n] = how many rows segment n has.", "[1, 0, 2]", ranges=False),
        "SegmentIdsToRanges": OfIds(
            "Y[n] = [where its first row stands, how many it has], 0 for both behind the last one.",
            "[[0, 1],\n       [1, 0],\n       [1, 2]]",
            ranges=True,
        ),
    }
)
def segment_ids(type: str, row: OfIds) -> OpSchema:
    """What sorted ids say of each segment."""
    doc = "the segment of each row, sorted; some may be left out"
    ids = blob("ids", INDEX, "N" if row.ranges else "*S", role=Role.INDEX, doc=doc)
    made = schema(
        type,
        row.doc,
        inputs=[ids, LIKE],
        outputs=[blob("Y", DataType.INT32, dynamic=True)],
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=f'>>> run("{type}", [0, 2, 2])\narray({row.example}, dtype=int32)',
    )

    @made.infer
    def infer(op: OpView, ids: TensorSpec, like: TensorSpec | None) -> TensorSpec:
        del ids
        if like is not None and like.dims is not None:
            op.require(len(like.dims) > 0, "like has rank 0, it must have rows")
        return TensorSpec((None, 2) if row.ranges else (None,), DataType.INT32)

    @kernel(made)
    def segments(op: OpView, ids: Array, like: Array | None, Y: DynamicOutput) -> None:
        flat = ids.reshape(-1)
        lengths = sorted_lengths(op, flat, None if like is None else len(like))
        if row.ranges:
            starts = np.searchsorted(flat, np.arange(lengths.size))
            starts[int(flat[-1]) + 1 if flat.size else 0 :] = 0
            Y.allocate((lengths.size, 2))[...] = np.stack([starts, lengths], axis=1)
        else:
            Y.allocate(lengths.shape)[...] = lengths

    return made


def sorted_lengths(op: OpView, ids: Array, count: int | None) -> Array:
    """Return how many rows each of `count` segments has, by default as many as ids name.

    Raises:
        NumericError: an id is negative, or smaller than the one before it.
        ShapeError: there are fewer segments than ids name.
    """
    require_within(op, "ids", ids, 0, hint="ids count from 0")
    wrong = ids[1:] < ids[:-1]
    if wrong.any():
        i = int(wrong.argmax()) + 1
        raise op.error(NumericError, f"ids[{i}] is {ids[i]}, behind {ids[i - 1]}", "ids are sorted")
    named = int(ids[-1]) + 1 if ids.size else 0
    if named > ROWS_MAX:
        raise op.error(NumericError, f"the ids name {named} segments, {ROWS_MAX} are the most")
    if count is not None and count < named:
        raise op.error(ShapeError, f"like has {count} rows, the ids name {named} segments")
    return np.bincount(ids, minlength=named if count is None else count)
