"""Pieces of kernels that go row by row: the rows of threads, labels and what is reported of them, softmax, sums."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.kernel import lane_count, unavailable
from tazza.codegen.loop import lanes_of, when
from tazza.codegen.rows import (
    ROWS,
    ask_ahead,
    each_row,
    finish_status,
    report,
    row_total,
    softmax_row,
    sum_float64,
    with_label,
)
from tazza.codegen.term import Lines, Number, Term
from tazza.runtime.native import call_native
from tests.launching import kernel_of, pointer_at, run_kernel, word_at

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
N, D, STATUS = (ROWS.place(name) for name in ("N", "D", "status"))
FIRST = len(ROWS)


def store(lines: Lines, value: Number, pointer: Term, index: Number, kind: str = "i64") -> None:
    pointer.of(kind)[index] = value


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 3, 17])
def test_threads_share_the_rows(count: int, threads: int) -> None:
    """Each row once, whoever has it."""
    marks = np.zeros(count + 1, np.int64)

    def work(lines: Lines) -> None:
        out = pointer_at(lines, FIRST)

        def row(n: Term) -> None:
            before = out.of("i64")[n]
            store(lines, before + 1, out, n)

        each_row(lines, row)

    run_kernel("rows: shared", work, threads, count, 7, 0, marks.ctypes.data)
    assert marks.tolist() == [1] * count + [0]


def test_rows_and_elements_have_addresses() -> None:
    X, found = np.arange(35, dtype=np.float32).reshape(5, 7), np.zeros(2, np.float32)

    def work(lines: Lines) -> None:
        x, out = (pointer_at(lines, FIRST + k) for k in range(2))
        for k, at in enumerate((x.at(3 * 7), x.at(11))):
            store(lines, at.of("float").load(), out, k, "float")

    run_kernel("rows: addresses", work, 1, 5, 7, 0, X.ctypes.data, found.ctypes.data)
    assert found.tolist() == [21, 11]


@pytest.mark.parametrize(("now", "later"), [(0, 3), (4, 7), (5, 7), (7, 7)])
def test_the_rows_of_a_later_turn_are_asked_for(now: int, later: int) -> None:
    """The last one where there is none that late. Nothing is read: wherever a wrong index leads, that does no harm."""
    found, texts = np.zeros(1, np.int64), list[str]()

    def work(lines: Lines) -> None:
        turn, out = word_at(lines, FIRST), pointer_at(lines, FIRST + 1)

        def starts(k: Term) -> list[Term]:
            store(lines, k, out, 0)
            far = k << 60
            return [out.of("i64").at(far)]

        ask_ahead((turn, 3, word_at(lines, N)), starts, 2, write=True)
        texts[:] = lines.lines

    run_kernel("rows: ask ahead", work, 1, 8, 0, 0, now, found.ctypes.data)
    assert found.tolist() == [later]
    assert sum("prefetch" in line for line in texts) == 2


@pytest.mark.parametrize("chosen", [0, 1])
def test_one_of_two_bodies_runs(chosen: int) -> None:
    found = np.zeros(2, np.int64)

    def work(lines: Lines) -> None:
        word, out = word_at(lines, FIRST), pointer_at(lines, FIRST + 1)
        condition = word.differs(0)
        when(condition, lambda: store(lines, 5, out, 0), lambda: store(lines, 6, out, 1))
        when(condition, lambda: store(lines, 7, out, 0))

    run_kernel("rows: when", work, 1, 0, 0, 0, chosen, found.ctypes.data)
    assert found.tolist() == ([7, 0] if chosen else [0, 6])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("labels", [[2, 0, 4, 1], [2, 0, 5, 1], [-1, 0, 4, 1], [2, 0, 4, 2**31 - 1]])
def test_labels_that_are_no_class_are_reported(labels: list[int], threads: int) -> None:
    """The status is the number of such a row, from 1; the last step is left out then, and the status reset."""
    given, found, end = np.array(labels, np.int32), np.full(4, -1, np.int64), np.zeros(1, np.int64)

    def work(lines: Lines) -> None:
        source, out = (pointer_at(lines, FIRST + k) for k in range(2))

        def row(n: Term) -> None:
            with_label(lines, source, n, lambda label: store(lines, label, out, n), lambda: report(lines, n))

        each_row(lines, row)

    def finish(lines: Lines) -> None:
        finish_status(lines, lambda: store(lines, 1, pointer_at(lines, FIRST + 2), 0))

    address = kernel_of("rows: labels", work, finish)
    addresses = [one.ctypes.data for one in (given, found, end)]
    block = (ctypes.c_int64 * (FIRST + 3))(threads, 4, 5, 0, *addresses)
    assert [N, D, STATUS] == [1, 2, 3]
    status = call_native(address, ctypes.addressof(block), threads=threads)
    wrong = [n for n, label in enumerate(labels) if not 0 <= label < 5]
    assert status == (wrong[0] + 1 if wrong else 0)
    assert found.tolist() == [-1 if n in wrong else label for n, label in enumerate(labels)]
    assert end[0] == (0 if wrong else 1)
    assert block[STATUS] == 0


@pytest.mark.parametrize("width", [1, 3, lane_count(), lane_count() + 1, 5 * lane_count() + 2])
@pytest.mark.parametrize("shift", [0.0, 300.0, -300.0])
def test_softmax_of_a_row(width: int, shift: float) -> None:
    """In registers where one vector holds it; large numbers overflow nothing, and nothing is written beside it."""
    x = (np.random.default_rng(width).standard_normal(width) * 3 + shift).astype(np.float32)
    y, pair = np.full(width + 1, -7, np.float32), np.zeros(2, np.float32)

    def work(lines: Lines) -> None:
        v = lanes_of(lines)
        source, target, out = (pointer_at(lines, FIRST + k) for k in range(3))
        for k, value in enumerate(softmax_row(v, source, target, word_at(lines, D))):
            store(lines, value.lane(0), out, k, "float")

    run_kernel("rows: softmax", work, 1, 1, width, 0, x.ctypes.data, y.ctypes.data, pair.ctypes.data)
    powers = np.exp(x.astype(float) - x.max())
    np.testing.assert_allclose(y[:width], powers / powers.sum(), rtol=1e-5, atol=1e-9)
    assert y[width] == -7
    assert pair[0] == x.max()
    np.testing.assert_allclose(pair[1], powers.sum(), rtol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("count", [0, 1, 7, 100])
def test_sums_are_added_up_in_float64(count: int, weighted: bool) -> None:
    """What float32 would lose stays; without weights rows count by their number."""
    random = np.random.default_rng(count)
    x, w = ((random.standard_normal(count + 1) + 1e4).astype(np.float32) for _ in range(2))
    found = np.zeros(2)

    def work(lines: Lines) -> None:
        source, weights, out = (pointer_at(lines, FIRST + k) for k in range(3))
        given = weights if weighted else None
        total = sum_float64(lines, source, word_at(lines, N), given)
        for k, value in enumerate((total, row_total(lines, given))):
            store(lines, value, out, k, "double")

    run_kernel(f"rows: sums {weighted}", work, 1, count, 1, 0, x.ctypes.data, w.ctypes.data, found.ctypes.data)
    factors = w[:count].astype(float) if weighted else np.ones(count)
    np.testing.assert_allclose(found, [(x[:count] * factors).sum(), factors.sum()], rtol=1e-12)
