"""What writers of large kernels share: words by name, whole numbers, every nth float."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.codegen.fields import Fields
from tazza.codegen.kernel import lane_count, unavailable
from tazza.codegen.term import Lines
from tazza.codegen.vector import Vector
from tazza.codegen.writer import Writer, gather, scatter
from tazza.tensor import DataType
from tests.launching import run_kernel

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


def test_whole_numbers() -> None:
    found = np.zeros(8, np.int64)

    def work(lines: Lines) -> None:
        w = Writer(lines, Fields("threads a b", addresses="out"))
        a, b = w.w["a"], w.w["b"]
        values = (
            *(a + b, a - 3, a * b, a // b, a % b),
            *(a.pieces(b), a.at_most(b), a.at_least(b)),
        )
        for i, value in enumerate(values):
            w.w["out"].of("i64")[i] = value

    run_kernel("writers: whole numbers", work, 1, 23, 5, found.ctypes.data)
    assert found.tolist() == [28, 20, 115, 4, 3, 5, 5, 23]


@pytest.mark.parametrize("count", [0, 3, 100])
def test_every_nth_float(count: int) -> None:
    """Of lanes outside of the mask nothing is read, they are 0; and nothing is written."""
    L = lane_count()
    count = min(count, L)
    X, Y = np.arange(1, 1 + 3 * max(count, 1), dtype=np.float32), np.full(2 * L, -1, np.float32)

    def work(lines: Lines) -> None:
        w = Writer(lines, Fields("threads count", addresses="X Y"))
        v = w.v
        whole = Vector(lines, L, DataType.INT64)
        mask = whole.listed(range(L)).below(whole.full(w.w.count))
        scatter(v, gather(v, w.w["X"], 3, mask) + 0.5, w.w["Y"], 2, mask)

    run_kernel("writers: every nth float", work, 1, count, X.ctypes.data, Y.ctypes.data)
    expected = np.full(2 * L, -1, np.float32)
    expected[: 2 * count : 2] = X[: 3 * count : 3] + 0.5
    np.testing.assert_array_equal(Y, expected)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_wait_for_each_other(threads: int) -> None:
    """What all have written before is there behind."""
    first, second = np.zeros(threads, np.int64), np.zeros(threads, np.int64)

    def work(lines: Lines) -> None:
        w = Writer(lines, Fields("threads", addresses="first second"))
        first, second = w.w["first"], w.w["second"]
        first.of("i64")[lines.who] = lines.who + 1
        w.wait()
        following = (lines.who + 1) % w.w["threads"]
        value = first.of("i64")[following]
        second.of("i64")[lines.who] = value

    run_kernel("writers: threads", work, threads, first.ctypes.data, second.ctypes.data)
    assert second.tolist() == [(thread + 1) % threads + 1 for thread in range(threads)]
