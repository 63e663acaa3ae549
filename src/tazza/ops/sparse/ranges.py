"""Elements that ranges pick: GatherRanges, GatherRangesToDense.

Letters: D elements of `X`; `ranges` (N, F, 2) holds for each of N samples F ranges [start, length] of these. A range of
length 0 picks nothing, wherever it starts.

Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import ArgumentError, NumericError
from tazza.operator import (
    INDEX,
    REQUIRED,
    Array,
    Cost,
    DynamicOutput,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    not_written,
    schema,
)
from tazza.ops.shape.axis import agree
from tazza.ops.sparse.segment import places_within
from tazza.tensor import DataType, TensorSpec

X = blob("X", None, "D")
RANGES = blob("ranges", INDEX, "N F 2", role=Role.INDEX, doc="[start, length] of each range, in X")

GATHER_RANGES = schema(
    "GatherRanges",
    "Y = the elements of all ranges, one range behind the other; lengths[n] = how many sample n has.",
    inputs=[X, RANGES],
    outputs=[blob("Y", "X", dynamic=True), blob("lengths", DataType.INT32, "N")],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Caffe2",
    example="""
    >>> run("GatherRanges", [5.0, 6.0, 7.0, 8.0], [[[1, 2]], [[0, 1]]])
    (array([6., 7., 5.], dtype=float32), array([2, 1], dtype=int32))
    """,
)
GATHER_RANGES_TO_DENSE = schema(
    "GatherRangesToDense",
    """Row n of Y[f] = the elements of range f of sample n, by their keys where there are such, equal ones in turn.

    A range that has not `lengths[f]` elements gives zeros. Where too many ranges of one f have none, or have another
    number, of those of one run, the run fails.""",
    inputs=[X, RANGES, blob("key", DataType.INT64, optional=True, role=Role.DATA, doc="of each element of X")],
    outputs=[blob("Y", "X", variadic=True, doc="(N, lengths[f])")],
    args=[
        arg("lengths", list[int], REQUIRED, doc="how many elements range f has, each at least 1"),
        arg("min_observation", int, 10000, minimum=1, doc="N counts as so many at least, for both shares"),
        arg("max_mismatched_ratio", float, 0.01, doc="which share of N may have another number of elements"),
        arg("max_empty_ratio", float, 1.0, doc="which share of N may have none"),
    ],
    effects=Effects.PURE,
    no_gradient=ends("Caffe2 ends the backward pass here"),
    source="Caffe2",
    example="""
    >>> run("GatherRangesToDense", [5.0, 6.0, 7.0, 8.0], [[[1, 2]], [[0, 0]]], lengths=[2])
    array([[6., 7.],
           [0., 0.]], dtype=float32)
    """,
)


def check_ranges(op: OpView, ranges: Array, read: Array, count: int, letter: str = "X") -> None:
    """Check that ranges, (N, F, 2), lie among `count` elements, those that are `read`, (N, F).

    Raises:
        NumericError: a length is negative, or a range that is read lies outside.
    """
    starts, sizes = ranges[..., 0].astype(np.int64), ranges[..., 1].astype(np.int64)
    wrong = (sizes < 0) | (read & (sizes > 0) & ((starts < 0) | (starts > count - sizes)))
    if wrong.any():
        n, f = (int(i) for i in np.argwhere(wrong)[0])
        message = f"ranges[{n}, {f}] is [{starts[n, f]}, {sizes[n, f]}], and {letter} has {count} elements"
        raise op.error(NumericError, message, "a range is [start, length]")


@GATHER_RANGES.infer
def gather_ranges_infer(op: OpView, X: TensorSpec, ranges: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    if ranges.dims is not None:
        op.require(ranges.dims[1] is None or ranges.dims[1] > 0, "ranges has F = 0 ranges, it must have at least 1")
    rows = None if ranges.dims is None else ranges.dims[0]
    return TensorSpec((None,), X.dtype), TensorSpec((rows,), DataType.INT32)


@GATHER_RANGES.cost
def gather_ranges_cost(op: OpView, X: TensorSpec, ranges: TensorSpec, **others: object) -> Cost:
    del op, others
    return Cost(0, ranges.nbytes + X.nbytes, X.nbytes)


@kernel(GATHER_RANGES)
def gather_ranges(op: OpView, X: Array, ranges: Array, Y: DynamicOutput, lengths: Array) -> None:
    sizes = ranges[..., 1].astype(np.int64)
    check_ranges(op, ranges, np.ones(sizes.shape, bool), X.size)
    lengths[...] = sizes.sum(axis=1)
    flat, starts = sizes.reshape(-1), ranges[..., 0].reshape(-1).astype(np.int64)
    within = places_within(flat)
    Y.allocate(within.shape)[...] = X[np.repeat(starts, flat) + within]


@GATHER_RANGES_TO_DENSE.validate
def gather_ranges_to_dense_validate(op: OpView) -> None:
    sizes = list(op.lengths)
    if not sizes:
        raise op.error(ArgumentError, "argument 'lengths' is empty", "give one for each range")
    for f, size in enumerate(sizes):
        if size < 1:
            raise op.error(ArgumentError, f"lengths[{f}] is {size}, it must be at least 1")
    found = len(op.definition.output)
    if found != len(sizes):
        raise op.error(
            ArgumentError, f"there are {found} outputs, and lengths names {len(sizes)}", "one for each range"
        )


@GATHER_RANGES_TO_DENSE.infer
def gather_ranges_to_dense_infer(
    op: OpView, X: TensorSpec, ranges: TensorSpec, key: TensorSpec | None
) -> tuple[TensorSpec, ...]:
    if key is not None and key.dims is not None:
        op.require(len(key.dims) == 1, f"key has {len(key.dims)} dimensions, it must have 1")
    if ranges.dims is not None:
        F = ranges.dims[1]
        op.require(agree(F, len(op.lengths)), f"ranges has F = {F} ranges, lengths names {len(op.lengths)}")
    rows = None if ranges.dims is None else ranges.dims[0]
    return tuple(TensorSpec((rows, size), X.dtype) for size in op.lengths)


@GATHER_RANGES_TO_DENSE.cost
def gather_ranges_to_dense_cost(op: OpView, ranges: TensorSpec, Y: tuple[TensorSpec, ...], **others: object) -> Cost:
    del op, others
    made = sum(one.nbytes for one in Y)
    return Cost(0, ranges.nbytes + made, made)


def _check_shares(op: OpView, sizes: Array, fits: Array) -> None:
    """Check that few enough ranges of each f are empty or of another length; (N, F) both."""
    counted = max(len(sizes), op.min_observation)
    for noun, most, found in (
        ("have no elements", op.max_empty_ratio, (sizes == 0).sum(axis=0)),
        ("have another number of elements", op.max_mismatched_ratio, (~fits & (sizes != 0)).sum(axis=0)),
    ):
        over = found > counted * most
        if over.any():
            f = int(over.argmax())
            message = f"{found[f]} of {len(sizes)} ranges {f} {noun}, of {counted} a share of {most:g} may"
            raise op.error(NumericError, message, f"range {f} has {op.lengths[f]} elements")


@kernel(GATHER_RANGES_TO_DENSE)
def gather_ranges_to_dense(op: OpView, X: Array, ranges: Array, key: Array | None, Y: tuple[Array, ...]) -> None:
    sizes = ranges[..., 1].astype(np.int64)
    fits = sizes == np.array(op.lengths)
    check_ranges(op, ranges, fits, X.size)
    if key is not None:
        check_ranges(op, ranges, fits, key.size, "key")
    _check_shares(op, sizes, fits)
    for f, rows in enumerate(Y):
        rows[...] = b"" if X.dtype == object else 0
        there = np.flatnonzero(fits[:, f])
        starts: Array = ranges[there, f, 0].astype(np.int64)
        places = starts[:, None] + np.arange(len(rows.T))
        if key is not None:
            places = np.take_along_axis(places, np.argsort(key[places], axis=1, kind="stable"), axis=1)
        rows[there] = X[places]
