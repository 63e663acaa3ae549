"""How rows are divided into segments: by lengths, by sorted ids, by ids in any order. What is wrong names its position.

A division answers with `Parts`: the rows in the order of their segments, and where each segment begins among them.
A new one is a line of `DIVISIONS`, and one of the engine's.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import NumericError
from tazza.operator import ArgSpec, Array, BlobSpec, OpView, Role, arg, blob
from tazza.ops.shape.axis import require_within
from tazza.tensor import DataType


@dataclass(frozen=True, slots=True)
class Parts:
    """Which rows each of M segments takes: `order[starts[m]:starts[m + 1]]`, or those numbers themselves."""

    starts: Array
    order: Array | None = None

    def rows(self, m: int) -> Array | slice:
        """Return what picks the rows of segment m."""
        span = slice(int(self.starts[m]), int(self.starts[m + 1]))
        return span if self.order is None else self.order[span]

    def count(self, m: int) -> int:
        """Return how many rows segment m takes."""
        return int(self.starts[m + 1] - self.starts[m])


@dataclass(frozen=True, slots=True)
class Division:
    """One way to divide rows.

    Attributes:
        name: what it is called.
        letter: the input that says it.
        counted: its values say how many segments there are; else its extent does.
        extent: dimension letters of that input, M segments or one of each row, for which `{}` stands.
        parts: Parts of so many rows, which are called `noun` in messages, and of so many segments. Raises NumericError.
        count: of a division that is counted, how many segments there are. Raises NumericError.
        args: arguments of its operators.
        example: values that give segment 0 two rows, and the last one a third.
        doc: of the letter.
        between: how many empty segments stand between these two in the example.
    """

    name: str
    letter: str
    counted: bool
    extent: str
    parts: Callable[[OpView, Array, int, int, str], Parts]
    count: Callable[[OpView, Array], int]
    doc: str
    example: str
    between: int
    args: tuple[ArgSpec, ...] = ()

    def blob(self, rows: str) -> BlobSpec:
        """Return the letter, where rows are called so."""
        return blob(self.letter, DataType.INT32, self.extent.format(rows), role=Role.INDEX, doc=self.doc)


def starts_of(op: OpView, letter: str, lengths: Array, rows: int, noun: str, *, whole: bool = True) -> Array:
    """Return where each of M segments begins among `rows` rows, and behind them where the last one ends: M + 1.

    Args:
        op: the operator, for messages.
        letter: the input that holds lengths, for messages.
        lengths: how many rows each takes, one behind the other.
        rows: how many there are.
        noun: what the rows are, for messages.
        whole: each row belongs to a segment; else some may be left behind the last one.

    Raises:
        NumericError: a length is negative, reaches beyond the rows, or some rows are left that must not be.
    """
    starts = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, dtype=np.int64, out=starts[1:])
    require_within(op, letter, lengths, 0, hint="an empty segment has 0")
    beyond = starts[1:] > rows
    hint = f"the lengths must add up to the number of {noun}"
    if beyond.any():
        m = int(beyond.argmax())
        message = f"{letter}[{m}] = {lengths[m]} ends at {starts[m + 1]}, and there are {rows} {noun}"
        raise op.error(NumericError, message, hint)
    if whole and starts[-1] != rows:
        message = f"the {lengths.size} {letter} add up to {starts[-1]}, and there are {rows} {noun}"
        raise op.error(NumericError, message, hint)
    return starts


ROWS_MAX = 2**27
"""More rows, or segments, than this are taken for a mistake in the numbers: they would fill the memory."""


def row_count(op: OpView, letter: str, lengths: Array) -> int:
    """Return how many rows lengths, which are the input `letter`, add up to.

    Raises:
        NumericError: one is negative, or they are more than `ROWS_MAX`.
    """
    require_within(op, letter, lengths, 0, hint="an empty segment has 0")
    rows = int(np.sum(lengths, dtype=np.int64))
    if rows > ROWS_MAX:
        raise op.error(NumericError, f"{letter} add up to {rows} rows, {ROWS_MAX} are the most")
    return rows


def places_within(lengths: Array) -> Array:
    """Return for each row which one of its segment it is.

    >>> places_within(np.array([2, 0, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    ends = np.cumsum(lengths, dtype=np.int64)
    return np.arange(ends[-1] if ends.size else 0) - np.repeat(ends - lengths, lengths)


def _by_lengths(op: OpView, lengths: Array, rows: int, segments: int, noun: str) -> Parts:
    del segments  # as many as there are lengths
    return Parts(starts_of(op, BY_LENGTHS.letter, lengths, rows, noun))


def _check_sorted(op: OpView, ids: Array) -> None:
    steps = np.diff(ids.astype(np.int64), prepend=-1)
    wrong = (steps < 0) | (steps > 1)
    wrong[:1] = ids[:1] != 0
    if wrong.any():
        i = int(wrong.argmax())
        relation = f"behind {ids[i - 1]}" if i else "the first is 0"
        hint = "sorted ids count segments from 0, and none of them is empty: UnsortedSegment* takes others"
        raise op.error(NumericError, f"SEGMENT_IDS[{i}] is {ids[i]}, {relation}", hint)


def _count_sorted(op: OpView, ids: Array) -> int:
    _check_sorted(op, ids)
    return int(ids[-1]) + 1 if ids.size else 0


def _by_sorted_ids(op: OpView, ids: Array, rows: int, segments: int, noun: str) -> Parts:
    del noun
    found = _count_sorted(op, ids)
    if found != segments:
        message = f"the SEGMENT_IDS name {found} segments, and dY has {segments} rows"
        raise op.error(NumericError, message, "one row of dY for each segment")
    return Parts(np.searchsorted(ids[:rows], np.arange(segments + 1)))


def _count_ids(op: OpView, ids: Array) -> int:
    given = int(op.num_segments)
    if given >= 0:
        return given
    _check_ids(op, ids, ROWS_MAX)
    return int(ids.max(initial=-1)) + 1


def _check_ids(op: OpView, ids: Array, segments: int) -> None:
    require_within(op, "SEGMENT_IDS", ids, 0, segments, "ids count from 0")


def _by_ids(op: OpView, ids: Array, rows: int, segments: int, noun: str) -> Parts:
    del noun
    _check_ids(op, ids, segments)
    order = np.argsort(ids[:rows], kind="stable")
    return Parts(np.searchsorted(ids[order], np.arange(segments + 1)), order)


def check_rows(op: OpView, indices: Array, rows: int, letter: str = "INDICES") -> None:
    """Check that every index is one of `rows` rows.

    Raises:
        NumericError: one is not.
    """
    require_within(op, letter, indices, 0, rows, "indices count rows from 0")


NUM_SEGMENTS = arg(
    "num_segments", int, default=-1, minimum=-1, doc="how many there are; -1: one more than the largest id"
)
DIVISIONS = (
    Division(
        "lengths",
        "LENGTHS",
        counted=False,
        extent="M",
        parts=_by_lengths,
        count=lambda op, lengths: lengths.size,
        doc="how many rows each segment takes, one behind the other",
        example="[2, 0, 1]",
        between=1,
    ),
    Division(
        "sorted ids",
        "SEGMENT_IDS",
        counted=True,
        extent="{}",
        parts=_by_sorted_ids,
        count=_count_sorted,
        doc="the segment of each row: 0 first, then each that before it or one more",
        example="[0, 0, 1]",
        between=0,
    ),
    Division(
        "ids",
        "SEGMENT_IDS",
        counted=True,
        extent="{}",
        parts=_by_ids,
        count=_count_ids,
        doc="the segment of each row, in any order",
        example="[0, 0, 2]",
        between=1,
        args=(NUM_SEGMENTS,),
    ),
)
"""All ways to divide rows."""
BY_LENGTHS, BY_SORTED_IDS, BY_IDS = DIVISIONS
