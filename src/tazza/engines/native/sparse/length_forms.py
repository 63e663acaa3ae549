"""Segments said in other ways, in one pass over lengths, or over sorted ids: by one thread, each follows from the last.

Sizes that follow from what lengths and ids are, are found in Python; the pass over ids looks whether they are sorted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from tazza.codegen.block import BlockLaunch, Check, Slot
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import lane_count
from tazza.codegen.loop import carry_loop, count_loop, each_vector, fold_loop, when
from tazza.codegen.rows import ROWS, finish_status, index_at, stop_if
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, Operands, OpView, SizedLaunch
from tazza.ops.sparse.length_forms import lengths_per_row, lengths_per_segment, segment_ids, sorted_lengths
from tazza.ops.sparse.segment import ROWS_MAX, row_count
from tazza.tensor import DataType, TensorSpec

BLOCK = Fields(addresses="given Y:i32", after=ROWS)
"""N segments; D ids, if ids are what is given, not lengths."""


def _launch(address: int, segments: int, letter: str, ids: int = 0, check: Check | None = None) -> BlockLaunch:
    return BlockLaunch(address, BLOCK.words(threads=1, N=segments, D=ids, given=Slot(letter)), check=check)


def _put(target: Term, place: Term, *values: Term) -> None:
    """Write int64 numbers, cut to 32 bits, to row `place`."""
    first = place * len(values)
    for k, value in enumerate(values):
        target[first + k] = value.to("i32")


# -- from lengths ------------------------------------------------------------------------------------------------------


def write_starts(lines: Lines, *, ranges: bool, end: bool) -> None:
    """Write where each segment begins, with `ranges` also its length; at the `end` where the last one ends."""
    at = BLOCK.lazily(lines)
    count, given, target = at.N, at.given, at.Y

    def segment(m: Term, begin: Term) -> Term:
        length = index_at(given, m, 32)
        _put(target, m, begin, *((length,) if ranges else ()))
        return begin + length

    total = fold_loop(0, count, lines.number(0), segment)
    if end:
        _put(target, count, total)


def _starts(LENGTHS: TensorSpec, *, ranges: bool, end: bool = False) -> BlockLaunch:
    told = f"starts of lengths{', ranges' if ranges else ''}{', end' if end else ''}"
    address = SOURCES.compiled(told, partial(write_starts, ranges=ranges, end=end))
    return _launch(address, LENGTHS.size, "LENGTHS")


@native(lengths_per_segment["LengthsToRanges"])
def prepare_lengths_to_ranges(LENGTHS: TensorSpec) -> Launch:
    """Compile the sums."""
    return _starts(LENGTHS, ranges=True)


@native(lengths_per_segment["LengthsToOffsets"])
def prepare_lengths_to_offsets(op: OpView, LENGTHS: TensorSpec) -> Launch:
    """Compile the sums."""
    return _starts(LENGTHS, ranges=False, end=bool(op.include_last_offset))


def write_rows(lines: Lines, *, counted: bool) -> None:
    """Write for each row the number of its segment, or its place in there."""
    at = BLOCK.lazily(lines)
    count, given, target = at.N, at.given, at.Y
    v = Vector(lines, lane_count(), DataType.INT32)

    def segment(m: Term, begin: Term) -> Term:
        length, own, number = index_at(given, m, 32), target.at(begin), v.full(m)
        each_vector(v, 0, length, lambda i, mask: v.store(v.counted(i, 1) if counted else number, own, i, mask))
        return begin + length

    fold_loop(0, count, lines.number(0), segment)


def _rows(op: OpView, LENGTHS: TensorSpec, *, counted: bool) -> SizedLaunch:
    address = SOURCES.compiled(f"rows of lengths{', counted' if counted else ''}", partial(write_rows, counted=counted))
    launch = _launch(address, LENGTHS.size, "LENGTHS")
    return SizedLaunch(
        lambda operands: {"Y": (row_count(op, "LENGTHS", operands["LENGTHS"].array),)},
        lambda sizes: launch,
        {"Y": DataType.INT32},
    )


@native(lengths_per_row["LengthsToSegmentIds"])
def prepare_lengths_to_segment_ids(op: OpView, LENGTHS: TensorSpec) -> Launch:
    """Compile the rows of each segment."""
    return _rows(op, LENGTHS, counted=False)


@native(lengths_per_row["LengthsRangeFill"])
def prepare_lengths_range_fill(op: OpView, LENGTHS: TensorSpec) -> Launch:
    """Compile the rows of each segment."""
    return _rows(op, LENGTHS, counted=True)


# -- from ids ----------------------------------------------------------------------------------------------------------


def write_segments(lines: Lines, bits: int, *, ranges: bool) -> None:
    """Write how many rows each segment has, with `ranges` also where the first stands; leave a status if unsorted."""
    at = BLOCK.lazily(lines)
    count, taken, given, target, none = at.N, at.D, at.given, at.Y, lines.number(0)

    def put(m: Term, start: Term, length: Term) -> None:
        _put(target, m, *((start, length) if ranges else (length,)))

    def one(i: Term, carried: Sequence[Term]) -> list[Term]:
        """Go on from the id before, and where its rows begin."""
        before, start = carried
        number = index_at(given, i, bits)
        stop_if(number.outside(count))  # -1 is too large
        step = number - before

        def leap() -> None:
            stop_if(step < 0)
            count_loop(lines, before + 1, number, lambda m: put(m, i, none))

        when(step.compare("ugt", 1), leap)
        first = step.equals(0).choose(start, i)
        put(number, first, i - first + 1)
        return [number, first]

    last, _ = carry_loop(0, taken, [-1, 0], one)
    count_loop(lines, last + 1, count, lambda m: put(m, none, none))


@native(*segment_ids.schemas)
def prepare_segments(op: OpView, ids: TensorSpec, like: TensorSpec | None) -> SizedLaunch:
    """Compile the pass over ids."""
    ranges, bits = segment_ids.rows[op.type].ranges, 8 * ids.dtype.itemsize
    told = None if like is None else like.shape[0]
    address = SOURCES.compiled(
        f"segments of sorted ids {bits}{', ranges' if ranges else ''}",
        partial(write_segments, bits=bits, ranges=ranges),
        finish_status,
    )

    def check(operands: Operands) -> None:
        sorted_lengths(op, operands["ids"].array.reshape(-1), told)

    def sizes(operands: Operands) -> dict[str, tuple[int, ...]]:
        found = operands["ids"].array
        named = found.item(-1) + 1 if found.size else 0
        if not 0 <= named <= (ROWS_MAX if told is None else told):
            check(operands)
        count = named if told is None else told
        return {"Y": (count, 2) if ranges else (count,)}

    def launch(sizes: Mapping[str, tuple[int, ...]]) -> BlockLaunch:
        return _launch(address, sizes["Y"][0], "ids", ids.size, check)

    return SizedLaunch(sizes, launch, {"Y": DataType.INT32})
