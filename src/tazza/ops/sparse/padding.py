"""Rows before and behind each segment: AddPadding, RemovePadding, GatherPadding; a row for each empty one.

Letters: N segments of rows of the shape S, one behind the other, s = `padding_width` rows before each and e =
`end_padding_width` behind it, as many as before where that is negative. Without lengths all rows are one segment.

Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import GradientError, NumericError
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
    as_many,
    blob,
    kernel,
    not_written,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import agree, product
from tazza.ops.sparse.segment import places_within, starts_of
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

SUMMED = INDEX | {DataType.FLOAT, DataType.DOUBLE}
PADDED = SUMMED | {DataType.BOOL}
ARGS = (
    arg("padding_width", int, 1, minimum=0, doc="s"),
    arg("end_padding_width", int, -1, doc="e; below 0: as many as before"),
)
LENGTHS = blob("lengths", DataType.INT32, optional=True, role=Role.INDEX, doc="rows of each segment, N in any shape")

ADD_PADDING = schema(
    "AddPadding",
    """Y has s rows `first` before each segment of X and e rows `last` behind it; zeros, or `first` for both.

    new_lengths[n] = s + lengths[n] + e.""",
    inputs=[
        blob("X", PADDED, "R *S"),
        LENGTHS,
        blob("first", "X", optional=True, role=Role.PARAMETER, doc="as many elements as a row of X"),
        blob("last", "X", optional=True, role=Role.PARAMETER, doc="as many elements as a row of X"),
    ],
    outputs=[
        blob("Y", "X"),
        blob("new_lengths", DataType.INT32, optional=True, doc="(N)"),
    ],
    args=ARGS,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("AddPadding", [1.0, 2.0, 3.0], [1, 2], [7.0], [8.0], outputs=2)
    (array([7., 1., 8., 7., 2., 3., 8.], dtype=float32), array([3, 4], dtype=int32))
    """,
)
REMOVE_PADDING = schema(
    "RemovePadding",
    "Y is X without the first s and the last e rows of each segment; new_lengths[n] = lengths[n] - s - e.",
    inputs=[blob("X", PADDED, "R *S"), LENGTHS],
    outputs=[
        blob("Y", "X"),
        blob("new_lengths", DataType.INT32, optional=True, doc="(N)"),
    ],
    args=ARGS,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("RemovePadding", [7.0, 1.0, 8.0, 7.0, 2.0, 3.0, 8.0], [3, 4], outputs=2)
    (array([1., 2., 3.], dtype=float32), array([1, 2], dtype=int32))
    """,
)
GATHER_PADDING = schema(
    "GatherPadding",
    """first = the sum of the first s rows of all segments, last = that of the last e rows.

    Where last is not asked for, first is the sum of both.""",
    inputs=[
        blob("X", SUMMED, "R *S"),
        blob(
            "lengths", DataType.INT32, role=Role.INDEX, doc="rows of each segment; behind the last one rows may be left"
        ),
    ],
    outputs=[blob("first", "X", "*S"), blob("last", "X", "*S", optional=True, decides=True)],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=not_written("it is itself what the gradient of AddPadding emits"),
    source="Caffe2",
    example="""
    >>> run("GatherPadding", [7.0, 1.0, 8.0, 7.0, 2.0, 3.0, 8.0], [3, 4], outputs=2)
    (array(14., dtype=float32), array(16., dtype=float32))
    """,
)
PAD_EMPTY_SAMPLES = schema(
    "PadEmptySamples",
    "Y has a row of zeros, or of empty texts, for each segment without rows of X; new_lengths counts it.",
    inputs=[
        blob("lengths", DataType.INT32, "N", role=Role.INDEX, doc="rows of each segment"),
        blob("X", variadic=True, optional=True, role=Role.DATA, doc="(R, *S), of any type"),
    ],
    outputs=[
        blob("new_lengths", like="lengths"),
        blob("Y", variadic=True, optional=True, dynamic=True),
    ],
    relations=[as_many("Y", "X")],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Caffe2",
    example="""
    >>> run("PadEmptySamples", [1, 0, 2], [5.0, 6.0, 7.0], outputs=2)
    (array([1, 1, 2], dtype=int32), array([5., 0., 6., 7.], dtype=float32))
    """,
)


def _widths(op: OpView) -> tuple[int, int]:
    """Return s and e."""
    return op.padding_width, op.padding_width if op.end_padding_width < 0 else op.end_padding_width


def _marks(op: OpView, X: Array, lengths: Array | None, *, whole: bool = True) -> Array:
    """Return where each segment begins, and where the last one ends.

    Raises:
        NumericError: lengths are negative, or are not those of X.
    """
    if lengths is None:
        return np.array([0, len(X)])
    return starts_of(op, "lengths", lengths.reshape(-1), len(X), "rows of X", whole=whole)


def _segments(op: OpView, X: TensorSpec, lengths: TensorSpec | None, more: int) -> tuple[TensorSpec, ...]:
    """Return what comes out, where each segment has so many rows more."""
    count = 1 if lengths is None else None if lengths.dims is None else product(lengths.dims)
    rows = None
    if X.dims is not None and X.dims[0] is not None and count is not None:
        rows = X.dims[0] + count * more
        op.require(rows >= 0, f"X has {X.dims[0]} rows, and {-more} of padding for each of {count} segments")
    Y = TensorSpec(None if X.dims is None else (rows, *X.dims[1:]), X.dtype)
    return (Y, TensorSpec((count,), DataType.INT32))[: len(op.output_letters)]


@ADD_PADDING.infer
def add_padding_infer(
    op: OpView, X: TensorSpec, lengths: TensorSpec | None, first: TensorSpec | None, last: TensorSpec | None
) -> tuple[TensorSpec, ...]:
    for letter, spec in (("first", first), ("last", last)):
        if spec is not None and spec.dims is not None and X.dims is not None:
            found, wanted = product(spec.dims), product(X.dims[1:])
            op.require(agree(found, wanted), f"{letter} has {found} elements, a row of X has {wanted}")
    return _segments(op, X, lengths, sum(_widths(op)))


@REMOVE_PADDING.infer
def remove_padding_infer(op: OpView, X: TensorSpec, lengths: TensorSpec | None) -> tuple[TensorSpec, ...]:
    return _segments(op, X, lengths, -sum(_widths(op)))


@ADD_PADDING.cost
@REMOVE_PADDING.cost
def padding_cost(op: OpView, X: TensorSpec, **others: object) -> Cost:
    del op, others
    return streamed((X,), (X,))


def _lengths_behind(g: GradientRequest) -> list[str]:
    """Return the lengths of what came out, which the operator must have told.

    Raises:
        GradientError: it did not.
    """
    if not g.op.has_input("lengths"):
        return []
    if not g.op.has_output("new_lengths"):
        raise GradientError(
            f"the gradient of {g.op.type} needs its second output, the new lengths", hint="name a blob for it"
        )
    return [g.new_lengths]


@ADD_PADDING.gradient
def add_padding_gradient(g: GradientRequest) -> list[OperatorDef]:
    given = [g.dY, *_lengths_behind(g)]
    made = g.emit("RemovePadding", given, [g.dX])
    rows = [letter for letter in ("first", "last") if g.op.has_input(letter)]
    return made + (g.emit("GatherPadding", given, [getattr(g, f"d{letter}") for letter in rows]) if rows else [])


@REMOVE_PADDING.gradient
def remove_padding_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("AddPadding", [g.dY, *_lengths_behind(g)], [g.dX])


@kernel(ADD_PADDING)
def add_padding(
    op: OpView,
    X: Array,
    lengths: Array | None,
    first: Array | None,
    last: Array | None,
    Y: Array,
    new_lengths: Array | None,
) -> None:
    s, e = _widths(op)
    marks = _marks(op, X, lengths)
    counts = np.diff(marks)
    begin = np.zeros(Y.shape[1:], Y.dtype) if first is None else first.reshape(Y.shape[1:])
    end = begin if last is None else last.reshape(Y.shape[1:])
    more = np.arange(len(counts)) * (s + e)  # rows of padding before each segment
    Y[(marks[:-1] + more)[:, None] + np.arange(s)] = begin
    Y[np.arange(len(X)) + np.repeat(more + s, counts)] = X
    Y[(marks[1:] + more + s)[:, None] + np.arange(e)] = end
    if new_lengths is not None:
        new_lengths[...] = counts + (s + e)


@kernel(REMOVE_PADDING)
def remove_padding(op: OpView, X: Array, lengths: Array | None, Y: Array, new_lengths: Array | None) -> None:
    inner, counts = _inner(op, X, lengths)
    Y[...] = X[inner]
    if new_lengths is not None:
        new_lengths[...] = counts - sum(_widths(op))


def _inner(op: OpView, X: Array, lengths: Array | None) -> tuple[Array, Array]:
    """Return which rows are no padding, and how many each segment has with it.

    Raises:
        NumericError: a segment is shorter than its padding.
    """
    s, e = _widths(op)
    marks = _marks(op, X, lengths)
    counts = np.diff(marks)
    short = counts < s + e
    if short.any():
        n = int(short.argmax())
        message = f"segment {n} has {counts[n]} rows, {s} of padding before it and {e} behind it"
        raise op.error(NumericError, message, "padding_width and end_padding_width are those that were added")
    place = places_within(counts)
    return (place >= s) & (place < np.repeat(counts, counts) - e), counts


@GATHER_PADDING.cost
def gather_padding_cost(op: OpView, X: TensorSpec, lengths: TensorSpec, **others: object) -> Cost:
    del others
    rows = min(sum(_widths(op)) * lengths.size, X.shape[0])
    read = rows * (X.size // max(X.shape[0], 1))
    return Cost(read, read * X.dtype.itemsize + lengths.nbytes, 0)


@kernel(GATHER_PADDING)
def gather_padding(op: OpView, X: Array, lengths: Array, first: Array, last: Array | None) -> None:
    s, e = _widths(op)
    marks = _marks(op, X, lengths, whole=False)
    short = np.diff(marks) < max(s, e)
    if short.any():
        n = int(short.argmax())
        message = f"segment {n} has {marks[n + 1] - marks[n]} rows, {s} of padding before it and {e} behind it"
        raise op.error(NumericError, message)
    if not short.size:
        s = e = 0  # no segment has any
    before = marks[:-1, None] + np.arange(s)  # (N, s)
    behind = marks[1:, None] - 1 - np.arange(e)  # (N, e)
    end = X[behind.reshape(-1)].sum(0, dtype=X.dtype)
    first[...] = X[before.reshape(-1)].sum(0, dtype=X.dtype) + (end if last is None else 0)
    if last is not None:
        last[...] = end


@PAD_EMPTY_SAMPLES.infer
def pad_empty_samples_infer(op: OpView, lengths: TensorSpec, X: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    for i, spec in enumerate(X):
        if spec.dims is not None:
            op.require(len(spec.dims) > 0, f"X{i} has the shape {show_dims(spec.dims)}, it must have rows")
    return (TensorSpec(lengths.dims, lengths.dtype), *(spec.some_rows() for spec in X))


@PAD_EMPTY_SAMPLES.cost
def pad_empty_samples_cost(op: OpView, lengths: TensorSpec, X: tuple[TensorSpec, ...], **others: object) -> Cost:
    del op, others
    return streamed((lengths, *X), (lengths, *X))


@kernel(PAD_EMPTY_SAMPLES)
def pad_empty_samples(
    op: OpView, lengths: Array, X: tuple[Array, ...], new_lengths: Array, Y: tuple[DynamicOutput, ...]
) -> None:
    new_lengths[...] = np.maximum(lengths, 1)
    for i, (given, made) in enumerate(zip(X, Y, strict=True)):
        starts = starts_of(op, "lengths", lengths, len(given), f"rows of X{i}")
        there = np.repeat(lengths > 0, new_lengths)
        rows = made.allocate((there.size, *given.shape[1:]))
        rows[~there] = b"" if given.dtype == object else 0
        rows[there] = given[: starts[-1]]
