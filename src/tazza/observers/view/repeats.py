"""Repeated blocks of a net: the same operators in the same order, several times one behind the other.

Operators are the same where their keys are: type and arguments. A repetition of period p is a run of positions i where
key i and key i + p agree; such runs are found for every period up to `PERIOD_MAX`, so the time is linear in the number
of operators. Of repetitions that overlap the one that saves most operators counts; what is left of another one may
count as well. A block may begin with any of its operators: it is cut where the fewest values lead from one to the next.
"""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass

PERIOD_MAX = 400
"""Operators of the longest block that is looked for."""
OPERATORS_MIN = 6
"""Operators that a repetition has at least; shorter ones are as easily seen whole."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """`count` blocks of `length` operators each, from position `first` on."""

    first: int
    length: int
    count: int

    @property
    def end(self) -> int:
        """The position behind the last block."""
        return self.first + self.length * self.count


def find_repeats(keys: Sequence[Hashable], crossing: Sequence[int]) -> list[Repeat]:
    """Return the repetitions among operators, in order; none overlaps another.

    `crossing` says for each position, and for the end, how many values lead over it from before.

    >>> find_repeats("xabcabcaby", [1] * 11)
    [Repeat(first=1, length=3, count=2)]
    >>> find_repeats("xabcabcaby", [9, 9, 1, 9, 9, 1, 9, 9, 1, 9, 9])
    [Repeat(first=2, length=3, count=2)]
    """
    numbers: dict[Hashable, int] = {}
    codes = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
    widths = np.asarray(crossing, np.int64)
    taken: list[Repeat] = []
    for start, end, period in sorted(_runs(codes), key=lambda run: (run[2] - (run[1] - run[0]), run[2], run[0])):
        for free_start, free_end in _free(taken, start, end):
            found = _cut(widths, free_start, free_end, period)
            if found is not None:
                bisect.insort(taken, found, key=lambda one: one.first)
    return taken


def _runs(codes: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Yield start, end and period of every stretch of operators that repeats itself."""
    for period in range(1, min(len(codes) // 2, PERIOD_MAX) + 1):
        same = np.concatenate(([False], codes[:-period] == codes[period:], [False]))
        edges = np.flatnonzero(same[1:] != same[:-1])
        starts, ends = edges[::2], edges[1::2]
        least = max(period, OPERATORS_MIN - period)
        for start, end in zip(starts[ends - starts >= least], ends[ends - starts >= least], strict=True):
            yield int(start), int(end) + period, period


def _free(taken: Sequence[Repeat], start: int, end: int) -> list[tuple[int, int]]:
    """Return the parts between `start` and `end` that no repetition has taken."""
    found: list[tuple[int, int]] = []
    at = max(0, bisect.bisect_right(taken, start, key=lambda one: one.first) - 1)
    for one in taken[at:]:
        if one.first >= end:
            break
        if one.first > start:
            found.append((start, one.first))
        start = max(start, one.end)
    if start < end:
        found.append((start, end))
    return found


def _cut(widths: NDArray[np.int64], start: int, end: int, period: int) -> Repeat | None:
    """Return the blocks in a stretch, such that the fewest values lead from one to the next."""
    if end - start < max(2 * period, OPERATORS_MIN):
        return None
    shifts = min(period, end - start - max(2 * period, OPERATORS_MIN) + 1)
    best: tuple[int, int, int] | None = None
    for shift in range(shifts):
        count = (end - start - shift) // period
        begin = start + shift
        key = int(widths[begin : begin + count * period + 1 : period].max()), -count, shift
        best = key if best is None or key < best else best
    assert best is not None, "there is room for two blocks"
    return Repeat(start + best[2], period, -best[1])
