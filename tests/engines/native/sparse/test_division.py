"""Where segments begin, written by one thread before all of them go on; what is wrong stops them all."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.codegen.kernel import unavailable
from tazza.codegen.rows import ROWS, finish_status
from tazza.codegen.term import Lines
from tazza.engines.native.sparse.division import ORDERED, WRITE, Places, divide
from tazza.ops.sparse.segment import BY_IDS, BY_LENGTHS, BY_SORTED_IDS, DIVISIONS, Division
from tazza.runtime.native import call_native
from tests.launching import kernel_of, pointer_at, word_at

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
N, STATUS = (ROWS.place(name) for name in ("N", "status"))
FIRST = len(ROWS)


def run(
    division: Division, count: int, rows: int, by: Sequence[int], threads: int = 2
) -> tuple[int, list[int], list[int], list[int]]:
    """Return the status, starts, order, and which threads went on."""
    numbers = np.array([*by, -5], np.int32)
    starts, order = np.full(count + 2, -7, np.int64), np.full(rows + 1, -7, np.int64)
    marks = np.zeros(threads, np.int64)

    def work(lines: Lines) -> None:
        m, taken = word_at(lines, N), word_at(lines, FIRST)
        kinds = ("i32", "i64", "i64", "i64")
        given, begins, places, out = (pointer_at(lines, FIRST + 1 + k).of(kind) for k, kind in enumerate(kinds))
        divide(division, Places(lines, m, taken, given, begins, places))
        # Behind the division every thread sees all of it.
        out[lines.who] = begins[m] + 1

    address = kernel_of(f"division: {division.name}", work, finish_status)
    addresses = [one.ctypes.data for one in (numbers, starts, order, marks)]
    block = (ctypes.c_int64 * (FIRST + 5))(threads, count, 0, 0, rows, *addresses)
    status = call_native(address, ctypes.addressof(block), threads=threads)
    assert block[STATUS] == 0, "it is ready for the next call"
    assert starts[-1] == -7
    assert order[-1] == -7, "it wrote behind its results"
    return status, starts[: count + 1].tolist(), order[:rows].tolist(), marks.tolist()


IDS = st.lists(st.integers(0, 6), max_size=30)


@given(st.lists(st.integers(0, 5), max_size=20), st.integers(1, 3))
def test_lengths_are_added_up(lengths: list[int], threads: int) -> None:
    rows = sum(lengths)
    status, starts, _, marks = run(BY_LENGTHS, len(lengths), rows, lengths, threads)
    assert status == 0
    assert starts == [0, *np.cumsum(lengths).tolist()]
    assert marks == [rows + 1] * threads


@given(st.lists(st.integers(1, 4), max_size=12))
def test_sorted_ids_begin_where_they_are_first_seen(lengths: list[int]) -> None:
    ids = np.repeat(np.arange(len(lengths)), lengths).tolist()
    status, starts, order, _ = run(BY_SORTED_IDS, len(lengths), len(ids), ids)
    assert status == 0
    assert starts == [0, *np.cumsum(lengths).tolist()]
    assert order == [-7] * len(ids), "rows lie in their order already"


@given(IDS, st.integers(0, 3))
def test_ids_are_sorted_as_they_come(ids: list[int], more: int) -> None:
    """Segments without rows begin where the next one does; rows of one segment keep their order."""
    count = max(ids, default=-1) + 1 + more
    status, starts, order, _ = run(BY_IDS, count, len(ids), ids)
    assert status == 0
    assert order == np.argsort(ids, kind="stable").tolist()
    assert starts == [sum(one < m for one in ids) for m in range(count + 1)]


WRONG = {
    "a length below 0": (BY_LENGTHS, 3, 4, [2, -1, 3]),
    "more than there are": (BY_LENGTHS, 3, 4, [2, 1, 2]),
    "fewer than there are": (BY_LENGTHS, 3, 4, [2, 0, 1]),
    "lengths that wrap around": (BY_LENGTHS, 3, 4, [2**31 - 1, 2**31 - 1, 6]),
    "an id that is left out": (BY_SORTED_IDS, 3, 4, [0, 0, 2, 2]),
    "ids that fall": (BY_SORTED_IDS, 2, 4, [0, 1, 0, 1]),
    "ids that do not begin with 0": (BY_SORTED_IDS, 2, 3, [1, 1, 1]),
    "too few ids": (BY_SORTED_IDS, 3, 2, [0, 1]),
    "too many ids": (BY_SORTED_IDS, 2, 3, [0, 1, 2]),
    "a sorted id below 0": (BY_SORTED_IDS, 2, 2, [-1, 0]),
    "an id beyond the last": (BY_IDS, 2, 3, [0, 2, 1]),
    "an id below 0": (BY_IDS, 2, 3, [0, -1, 1]),
}


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_stops_all_threads(what: str, threads: int) -> None:
    status, _, _, marks = run(*WRONG[what], threads)
    assert status == 1
    assert marks == [0] * threads


def test_every_division_has_its_code() -> None:
    assert set(WRITE) == {division.name for division in DIVISIONS}
    assert set(WRITE) >= ORDERED
