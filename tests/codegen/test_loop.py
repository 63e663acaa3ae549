"""Loops by themselves: each form is compiled alone, and run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tazza.codegen.kernel import lane_count, unavailable
from tazza.codegen.loop import (
    carry_loop,
    chosen,
    count_loop,
    each_vector,
    fold_loop,
    lanes_of,
    share,
    step_loop,
    sweep,
    while_loop,
)
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import KINDS
from tazza.tensor import DataType
from tests.launching import pointer_at, run_kernel, word_at

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

FLOAT = DataType.FLOAT


@pytest.mark.parametrize(("begin", "end"), [(0, 5), (2, 3), (3, 3), (4, 1)])
def test_count_loop(begin: int, end: int) -> None:
    marks = np.zeros(7, np.int64)

    def work(lines: Lines) -> None:
        def mark(i: Term) -> None:
            place.of("i64")[i] = i + 10

        first, last = (word_at(lines, word) for word in (1, 2))
        place = pointer_at(lines, 3)
        count_loop(lines, first, last, mark)

    run_kernel("loops: count", work, 1, begin, end, marks.ctypes.data)
    assert marks.tolist() == [i + 10 if begin <= i < end else 0 for i in range(7)]


@pytest.mark.parametrize("count", [0, 1, 5])
def test_carry_and_fold(count: int) -> None:
    """Two sums that change places at every turn, and one."""
    L = lane_count()
    X, Y = np.arange(1, 1 + max(count, 1) * L, dtype=np.float32), np.full(3 * L, np.nan, np.float32)

    def work(lines: Lines) -> None:
        v, n = lanes_of(lines), word_at(lines, 1)
        source, target = (pointer_at(lines, word) for word in (2, 3))

        def vector(i: Term) -> Term:
            return v.load(source, i * L, None)

        def turn(i: Term, sums: Sequence[Term]) -> Sequence[Term]:
            return [sums[1] + vector(i), sums[0]]

        found = carry_loop(0, n, [v.constant(1.0), v.constant(2.0)], turn)
        found.append(fold_loop(0, n, v.constant(0.5), lambda i, total: total + vector(i)))
        for k, value in enumerate(found):
            v.store(value, target, k * L, None)

    run_kernel("loops: carry and fold", work, 1, count, X.ctypes.data, Y.ctypes.data)
    one, other, total = np.full(L, 1.0), np.full(L, 2.0), np.full(L, 0.5)
    for row in X.reshape(-1, L)[:count]:
        one, other, total = other + row, one, total + row
    np.testing.assert_array_equal(Y, np.concatenate([one, other, total]))


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("dtype", [one for one in KINDS if one.is_float], ids=str)
def test_elements_of_each_type_come_and_go(dtype: DataType, bits: int) -> None:
    """Whatever the numbers are computed in: float64 is rounded to what is narrower."""
    if dtype is DataType.DOUBLE and bits == 32:
        pytest.skip("float32 does not hold it")
    L = lane_count(bits)
    X = np.random.default_rng(3).standard_normal(L).astype(dtype.numpy)
    Y = np.zeros(L, dtype.numpy)

    def work(lines: Lines) -> None:
        v = lanes_of(lines, DataType.FLOAT if bits == 32 else DataType.DOUBLE)
        source, target = (pointer_at(lines, word) for word in (1, 2))
        v.store(v.load(source, 0, None, dtype=dtype) * 1.25, target, 0, None, dtype=dtype)

    run_kernel(f"loops: {dtype} in {bits}", work, 1, X.ctypes.data, Y.ctypes.data)
    computed = X.astype(f"float{bits}") * 1.25
    np.testing.assert_array_equal(Y, computed.astype(dtype.numpy))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("n", [0, 1, 16, 37, 100])
def test_sweep_over_the_parts_of_threads(n: int, threads: int) -> None:
    """Whole vectors and a masked rest, of a part whose borders lie anywhere; nothing is written beside it."""
    X, Y = np.arange(n + 1, dtype=np.float32), np.full(n + 1, -1, np.float32)

    def work(lines: Lines) -> None:
        v = lanes_of(lines)
        source, target = (pointer_at(lines, word) for word in (2, 3))

        def double(i: Term, mask: Term | None, carried: Sequence[Term]) -> Sequence[Term]:
            value = v.load(source, i, mask)
            v.store(value + value, target, i, mask)
            return carried

        sweep(v, *share(lines, word_at(lines, 1)), double)

    run_kernel("loops: sweep", work, threads, n, X.ctypes.data, Y.ctypes.data)
    np.testing.assert_array_equal(Y[:n], 2 * X[:n])
    assert Y[n] == -1


@pytest.mark.parametrize(("begin", "end", "step", "turns"), [(0, 7, 2, 3), (3, 3, 1, 0), (5, 4, 1, 0), (2, 8, 3, 2)])
def test_loops_of_whole_steps(begin: int, end: int, step: int, turns: int) -> None:
    """What is left is not begun; where it ended is returned, and what was carried."""
    found = np.zeros(2, np.int64)

    def work(lines: Lines) -> None:
        first, last = (word_at(lines, word) for word in (1, 2))
        out = pointer_at(lines, 3)
        i, (total,) = step_loop(lines, (first, last, step), [100], lambda i, sums: [sums[0] + i])
        for k, value in enumerate((i, total)):
            out.of("i64")[k] = value

    run_kernel(f"loops: steps of {step}", work, 1, begin, end, found.ctypes.data)
    assert found.tolist() == [begin + turns * step, 100 + sum(begin + k * step for k in range(turns))]


@pytest.mark.parametrize(("start", "turns"), [(1, 0), (6, 8), (27, 111)])
def test_a_loop_that_ends_by_what_it_carries(start: int, turns: int) -> None:
    """The numbers of Collatz: what is carried has two types, and says itself when it ends."""
    found = np.zeros(1, np.int32)

    def work(lines: Lines) -> None:
        def turn(values: Sequence[Term]) -> list[Term]:
            n, count = values
            odd = n.to("i1")
            (following,) = chosen(odd, lambda: [n * 3 + 1], lambda: [n.shifted_down(1)])
            return [following, count + 1]

        starts = [word_at(lines, 1), lines.number(0, "i32")]
        _, count = while_loop(lines, starts, lambda values: values[0].differs(1), turn)
        pointer_at(lines, 2).of("i32").store(count)

    run_kernel("loops: by what is carried", work, 1, start, found.ctypes.data)
    assert found.tolist() == [turns]


@pytest.mark.parametrize("n", [0, 5, 40])
def test_each_vector(n: int) -> None:
    X, Y = np.arange(n + 1, dtype=np.float32), np.full(n + 1, -1, np.float32)

    def work(lines: Lines) -> None:
        v, end = lanes_of(lines), word_at(lines, 1)
        source, target = (pointer_at(lines, word) for word in (2, 3))
        each_vector(v, 0, end, lambda i, mask: v.store(v.load(source, i, mask), target, i, mask))

    run_kernel("loops: each vector", work, 1, n, X.ctypes.data, Y.ctypes.data)
    np.testing.assert_array_equal(Y, [*range(n), -1])
