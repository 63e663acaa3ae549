"""Data sets in another order than that in which they lie: ComputeOffset, SortAndShuffle, ReadRandomBatch.

N records of D domains (`ops.data.fields`). Where each record begins in each domain is a matrix (N + 1, D).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from tazza.errors import ArgumentError, DTypeError
from tazza.operator import Array, Effects, OpView, Role, arg, as_many, blob, host_kernel, not_written, schema
from tazza.ops.data.cursor import (
    BATCH,
    BATCH_SIZE,
    COLUMNS,
    ENFORCE,
    NO_GRADIENT,
    ON_CURSOR,
    opened,
    rows_of,
)
from tazza.ops.data.fields import Tree
from tazza.ops.sparse.segment import check_rows
from tazza.tensor import Blob, DataType, TensorSpec

MULTIPLIER, MODULUS = 16807, 2**31 - 1

COMPUTE_OFFSET = schema(
    "ComputeOffset",
    """offsets[n] = where record n begins in each domain; the last row is where all of them end.

    It begins where the cursor stands, which then stands at the first record; behind the last record rows repeat.""",
    inputs=[ON_CURSOR, COLUMNS],
    outputs=[blob("offsets", DataType.INT64, dynamic=True, host=True)],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> cursor = run("CreateTreeCursor", fields=["ids:lengths", "ids:values"])
    >>> run("ComputeOffset", cursor, np.array([2, 1], np.int32), [7, 8, 9])
    array([[0, 0],
           [1, 2],
           [2, 3]])
    """,
)


@COMPUTE_OFFSET.infer
def compute_offset_infer(op: OpView, cursor: object, X: object) -> TensorSpec:
    del op, cursor, X
    return TensorSpec((None, None), DataType.INT64)


@host_kernel(COMPUTE_OFFSET)
def compute_offset(op: OpView, cursor: Blob, X: tuple[Blob, ...], offsets: Blob) -> None:
    place, tree, columns = opened(op, cursor, X)
    with place:
        found = _begins(op, tree, columns, place.starts(op, tree))
        place.offsets = [0] * found.shape[1]
    offsets.put(found)


def _begins(op: OpView, tree: Tree, columns: Sequence[Array], starts: Sequence[int]) -> Array:
    limits = tree.limits(columns)
    N = limits[0] if limits[0] is not None else 0
    found = np.zeros((N + 1, len(starts)), np.int64)
    found[:, 0] = np.minimum(starts[0] + np.arange(N + 1), max(N, starts[0]))
    for domain, position in enumerate(tree.counting, 1):
        above = found[:, tree.domains[position]]
        lengths = tree.lengths(op, columns, domain, int(above[0]), int(above[-1] - above[0]))
        reach = np.concatenate([[0], np.cumsum(lengths)])
        found[:, domain] = starts[domain] + reach[above - above[0]]
        tree.check_reach(op, limits, domain, int(found[-1, domain]))
    return found


SORT_AND_SHUFFLE = schema(
    "SortAndShuffle",
    """indices = the numbers of all N records in another order, the same in each run.

    They are sorted by a field of one number a record (equal ones in any order: as they lie), then shuffled within each
    batch_size * shuffle_size of them, then batch by batch. A last part that is not longer than that many, and a last
    batch that is not full, stay as they are.""",
    inputs=[ON_CURSOR, COLUMNS],
    outputs=[blob("indices", DataType.INT64, "N", dynamic=True, host=True)],
    args=[
        arg("sort_by_field_idx", int, 1, minimum=-1, doc="position of the field; -1: they are not sorted"),
        arg("batch_size", int, 1, minimum=1, maximum=2**31 - 1, doc="records of a batch"),
        arg("shuffle_size", int, 1, minimum=1, maximum=2**31 - 1, doc="batches whose records are shuffled together"),
    ],
    effects=Effects.STATE,
    no_gradient=not_written("Caffe2 has none"),
    source="Caffe2; the shuffle is that of libstdc++ 7, by a generator that begins anew each time",
    example="""
    >>> cursor = run("CreateTreeCursor", fields=["x"])
    >>> x = np.array([7, 5, 6, 8], np.int32)
    >>> run("SortAndShuffle", cursor, x, sort_by_field_idx=0, batch_size=2)
    array([0, 3, 2, 1])
    """,
)


@SORT_AND_SHUFFLE.infer
def sort_and_shuffle_infer(op: OpView, cursor: object, X: object) -> TensorSpec:
    del op, cursor, X
    return TensorSpec((None,), DataType.INT64)


@host_kernel(SORT_AND_SHUFFLE)
def sort_and_shuffle(op: OpView, cursor: Blob, X: tuple[Blob, ...], indices: Blob) -> None:
    _, tree, columns = opened(op, cursor, X)
    top = tree.limits(columns)[0]
    order = np.arange(0 if top is None else top)
    if op.sort_by_field_idx >= 0:
        order = np.argsort(_sorted_by(op, tree, columns, len(order)), kind="stable")
    part = op.batch_size * op.shuffle_size
    within = shuffled(min(part, len(order)))
    for start in range(0, len(order) - part, part):
        order[start : start + part] = order[start : start + part][within]
    whole = len(order) // op.batch_size * op.batch_size
    batches = order[:whole].reshape(-1, op.batch_size)
    order[:whole] = batches[shuffled(len(batches))].reshape(-1)
    indices.put(order)


def _sorted_by(op: OpView, tree: Tree, columns: Sequence[Array], count: int) -> Array:
    position: int = op.sort_by_field_idx
    if position >= len(columns):
        raise op.error(ArgumentError, f"sort_by_field_idx = {position}, there are {len(columns)} fields")
    name, column = tree.fields[position].name, columns[position]
    if column.dtype != np.int32:
        raise op.error(DTypeError, f"field {name!r} is {column.dtype}, what records are sorted by is int32")
    op.require(column.size >= count, f"field {name!r} has {column.size} numbers, there are {count} records")
    return column.reshape(-1)[:count]


def shuffled(count: int) -> Array:
    """Return 0 ... count - 1 as `std::shuffle` leaves them that draws from a new `std::minstd_rand0`.

    Element i changes places with one of 0 ... i, for i = 1, 2 ...; two of these are drawn at once as long as their
    numbers fit one draw.

    >>> shuffled(5).tolist()
    [3, 0, 4, 2, 1]
    """
    found = list(range(count))
    draw = partial(_below, [1])
    together = count > 0 and (MODULUS - 2) // count >= count
    i = 1
    if together and count % 2 == 0:
        _swap(found, 1, draw(2))
        i = 2
    while i < count:
        if together:
            first, second = divmod(draw((i + 1) * (i + 2)), i + 2)
            _swap(found, i, first)
            _swap(found, i + 1, second)
            i += 2
        else:
            _swap(found, i, draw(i + 1))
            i += 1
    return np.array(found, np.int64)


def _swap(values: list[int], i: int, k: int) -> None:
    values[i], values[k] = values[k], values[i]


def _below(state: list[int], bound: int) -> int:
    """Return a number in [0, bound), all equally likely; draws that would not be even are passed over."""
    step = (MODULUS - 2) // bound
    while True:
        state[0] = state[0] * MULTIPLIER % MODULUS
        found = (state[0] - 1) // step
        if found < bound:
            return found


READ_RANDOM_BATCH = schema(
    "ReadRandomBatch",
    """Y = the rows of the records idx[k], idx[k + 1] ..., of each field: `batch_size`, or as many as there are.

    k is what the cursor counts: how many records all that read by it asked for, also beyond the last one. The offset of
    the cursor is k alone: for ReadNextBatch it has to be reset.""",
    inputs=[
        ON_CURSOR,
        blob("idx", DataType.INT64, role=Role.INDEX, doc="numbers of records, in the order of reading"),
        blob("offsets", DataType.INT64, "M D", role=Role.INDEX, doc="what ComputeOffset gave"),
        COLUMNS,
    ],
    outputs=[BATCH],
    relations=[as_many("Y", "X")],
    args=[
        BATCH_SIZE,
        ENFORCE,
        arg("loop_over", bool, False, doc="the first record follows the last; a batch that would be short begins anew"),
    ],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> cursor, x = run("CreateTreeCursor", fields=["x"]), [5, 6, 7]
    >>> offsets = run("ComputeOffset", cursor, x)
    >>> [run("ReadRandomBatch", cursor, np.array([2, 0, 1]), offsets, x, batch_size=2).tolist() for _ in range(3)]
    [[7, 5], [6], []]
    """,
)


@READ_RANDOM_BATCH.infer
def read_random_batch_infer(
    op: OpView, cursor: object, idx: object, offsets: object, X: Sequence[TensorSpec]
) -> tuple[TensorSpec, ...]:
    del op, cursor, idx, offsets
    return rows_of(X)


@host_kernel(READ_RANDOM_BATCH)
def read_random_batch(
    op: OpView, cursor: Blob, idx: Blob, offsets: Blob, X: tuple[Blob, ...], Y: tuple[Blob, ...]
) -> None:
    place, tree, columns = opened(op, cursor, X)
    order, begins = idx.tensor().plain().reshape(-1), offsets.tensor().plain()
    count = 1 + len(tree.counting)
    op.require(begins.shape[1] == count, f"offsets have {begins.shape[1]} columns, the fields have {count} domains")
    with place:
        first = place.offsets[0] if place.offsets else 0
        last = first + op.batch_size if op.enforce_batch_size else first + 1
        first = 0 if op.loop_over and last > len(order) else first
        taken = order[first : first + op.batch_size]
        taken = taken[:0] if op.enforce_batch_size and len(taken) < op.batch_size else taken
        check_rows(op, taken, max(len(begins) - 1, 0), "idx")
        limits = tree.limits(columns)
        rows = [_rows(op, begins[taken, domain], begins[taken + 1, domain], limits[domain]) for domain in range(count)]
        place.offsets = [first + op.batch_size]
    for target, column, domain in zip(Y, columns, tree.domains, strict=True):
        target.put(column[rows[domain]])


def _rows(op: OpView, starts: Array, ends: Array, limit: int | None) -> Array:
    """Return the rows that lie in these spans, one behind the other, of fields with `limit` rows.

    Raises:
        ShapeError: they do not, so that the offsets are those of other fields.
    """
    if limit is None:  # nobody reads them
        return np.arange(0)
    fits = (0 <= starts) & (starts <= ends) & (ends <= limit)
    if not fits.all():
        n = int(fits.argmin())
        op.require(False, f"offsets tell of rows {starts[n]} to {ends[n]}, the fields have {limit}")
    lengths = ends - starts
    before = np.cumsum(lengths) - lengths
    return np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
