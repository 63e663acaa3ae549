"""Evaluating: several expressions at once, assignment into what is read, memory, and what is told of it."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.array.deferred import Lazy, apply, assign, bind, evaluate, lazy
from tazza.array.evaluator import FEW
from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.tensor import ROW_MAJOR, AlignedAllocator, DataType, Tensor
from tazza.tensor.allocation import using_allocator

SIZES = (60, 2 * FEW)
"""A few elements, which NumPy computes node by node, and many."""


@given(
    st.sampled_from([None, "numpy"]),
    st.lists(st.tuples(st.integers(0, 20), st.sampled_from([1, 2, 3]), st.integers(0, 30)), min_size=2, max_size=3),
)
@settings(max_examples=60)
def test_assignment_into_a_view_that_overlaps_is_as_if_all_was_read_before(
    evaluator: str | None, windows: list[tuple[int, int, int]]
) -> None:
    memory = Tensor.from_numpy(np.arange(100.0))
    count = 12
    views = [memory.view((count,), offset=start + more, strides=(step,)) for start, step, more in windows]
    target, *operands = views
    expected = memory.copied()
    value = sum((np.array(one.plain()) for one in operands), np.zeros(count)) * 2
    start, step, more = windows[0]
    expected[start + more : start + more + count * step : step] = value
    expression = lazy(operands[0])
    for one in operands[1:]:
        expression = expression + one
    (expression * 2).evaluate(target, evaluator=evaluator)
    np.testing.assert_array_equal(memory.array, expected)


@pytest.mark.parametrize("size", SIZES)
def test_the_same_places_are_overwritten_and_others_go_through_a_temporary(size: int) -> None:
    x = Tensor.from_numpy(np.arange(size, dtype=np.float32))
    assert "copied at the end" not in (lazy(x) + 1).explain(x)
    assign(x, lazy(x) + 1)
    np.testing.assert_array_equal(x.array, np.arange(size) + 1)
    shifted = x.view((size - 1,), offset=1)
    told = (lazy(x.view((size - 1,))) + 0).explain(shifted)
    assert f"copied at the end: {4 * (size - 1):,} bytes, as the target overlaps a0, but not at the same places" in told
    assign(shifted, lazy(x.view((size - 1,))) + 0)
    np.testing.assert_array_equal(x.array, [1, *range(1, size)])
    interleaved = x.view((size // 2,), strides=(2,))
    assert "copied" not in (lazy(x.view((size // 2,), offset=1, strides=(2,))) + 0).explain(interleaved)


@pytest.mark.parametrize("size", SIZES)
def test_several_expressions_see_what_was_before(size: int) -> None:
    x, y = (Tensor.from_numpy(np.full(size, value)) for value in (1.0, 2.0))
    other = Tensor.from_numpy(np.zeros(size - 1))
    several = [lazy(x) + y, lazy(x) - y, lazy(x.view((size - 1,), offset=1)) * 10]
    step = bind(several, [x, y, other])
    assert "a later kernel reads what the target was" in step.explain()
    step.run()
    assert [x.array[0], y.array[0], other.array[0]] == [3, -1, 10]
    with pytest.raises(ArgumentError, match="targets of expressions overlap"):
        evaluate([lazy(y), lazy(y)], [x, x])
    with pytest.raises(ArgumentError, match="2 expressions do not fit 1 targets"):
        evaluate([lazy(y), lazy(y)], [x])


def test_what_shares_an_array_and_a_shape_is_one_kernel() -> None:
    x, y = np.ones((3, 4)), np.ones((3, 4))
    rate = np.array(0.5)
    told = bind([lazy(x) + 1, lazy(y) * rate, lazy(x) * rate, lazy(x).sum()]).explain()
    assert told.count("over [3, 4]") == 3
    assert "a0 + a1 -> float64\n  a0 * a2 -> float64" in told


def test_a_bound_evaluation_follows_its_tensors() -> None:
    x, total = Tensor.from_numpy(np.ones(3)), Tensor((3,), DataType.DOUBLE)
    total.assign(np.zeros(3))
    step = bind([lazy(total) + x, lazy(x).sum() * lazy(x)], [total, None])
    first = step.run()
    assert first[0] is total
    x.storage.release()  # it moves
    x.assign(np.full(3, 5.0))
    version = total.storage.version
    assert [one.array.tolist() for one in step.run()] == [[6.0] * 3, [75.0] * 3]
    assert total.storage.version > version


@pytest.mark.parametrize("shape", [(40, 50, 60), (7, 5)])
def test_ten_functions_allocate_nothing_but_the_result(shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(0)
    x, y = (Tensor.from_numpy(random.standard_normal(shape)) for _ in range(2))
    e: Lazy = lazy(x)
    for k in range(5):
        e = (e + y) * (0.5 + k)
    e = apply("abs", apply("tanh", e) - 1)
    with using_allocator(AlignedAllocator()) as allocator:
        result = e.evaluate()
        assert allocator.statistics.total_count == 1
        assert allocator.statistics.peak_bytes == result.nbytes
        e.evaluate(result)
        assert allocator.statistics.total_count == 1
    assert result.layout == ROW_MAJOR


def test_explain_tells_the_bytes_and_why() -> None:
    x = Tensor.from_numpy(np.zeros((2, 3), np.float32))
    lines = (2 * lazy(x) + np.zeros(3, np.int16)).explain().splitlines()
    assert lines == [
        "numpy: NumPy, step by step over blocks of 32768 elements (cached), over [2, 3]",
        "  a0 * a1 + float32(a2) -> float32",
        "  a0: float32[], 4 bytes read",
        "  a1: float32[2, 3], 24 bytes read",
        "  a2: int16[3], 6 bytes read",
        "  reads 34 bytes, writes 24 bytes, for 6 elements",
        f"  compiled kernels refused: 6 elements < {FEW}, too few to pay for one",
    ]


def test_blocks_cover_what_is_larger_than_one() -> None:
    random = np.random.default_rng(1)
    for shape in ((3, 70_000), (70_000, 3), (2, 3, 40_000), (5, 1, 90, 90)):
        x = random.standard_normal(shape)
        np.testing.assert_array_equal((lazy(x) * x[:1]).evaluate(evaluator="numpy").array, x * x[:1])
        for axis in range(len(shape)):
            found = lazy(x).sum(axis).evaluate(evaluator="numpy").array
            np.testing.assert_allclose(found, x.sum(axis), rtol=1e-9, atol=1e-9)


def test_threads_evaluate_side_by_side() -> None:
    x = np.arange(2 * FEW, dtype=np.float64)
    failed: list[int] = []

    def work(k: int) -> None:
        for _ in range(5):
            if not np.array_equal((lazy(x) * k + 1).evaluate().array, x * k + 1):
                failed.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failed


@pytest.mark.parametrize("size", SIZES)
def test_an_operand_that_was_resized_since_is_refused(size: int) -> None:
    x = Tensor.from_numpy(np.ones(size, np.float32))
    expression = lazy(x) * 2 + 1
    step = bind([expression])
    step.run()
    x.resize((3,))
    for compute in (expression.evaluate, step.run, expression.explain):
        with pytest.raises(ShapeError, match=rf"has the shape Dim\(3\) now, it had Dim\({size}\)"):
            compute()
    x.resize((size,), DataType.DOUBLE)
    for compute in (expression.evaluate, step.run):
        with pytest.raises(DTypeError, match="of type float64 now, it was float32"):
            compute()
    x.assign(np.full(size, 4, np.float32))
    assert step.run()[0].array[-1] == 9
    array = np.ones((2, size))
    expression = lazy(array) + 1
    array.resize((size, 2), refcheck=False)
    with pytest.raises(ShapeError, match="has the shape"):
        expression.evaluate()


def test_a_target_that_was_resized_since_is_refused() -> None:
    x, y = (Tensor.from_numpy(np.ones(2 * FEW)) for _ in range(2))
    for out in (y, None):
        step = bind([lazy(x) + 1], [out])
        (result,) = step.run()
        result.resize((3,))
        with pytest.raises(ShapeError, match="does not fit the target"):
            step.run()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("evaluator", [None, "numpy"])
def test_a_result_that_is_an_operand_is_not_overwritten_before(size: int, evaluator: str | None) -> None:
    values = np.arange(1, 1 + size)
    x, y, z = (Tensor.from_numpy(one) for one in (values, values + 1, values + 2))
    evaluate([lazy(x) * y, lazy(x), apply("trunc", y) + 0 * x], [x, y, z], evaluator=evaluator)
    np.testing.assert_array_equal(x.array, values * (values + 1))
    np.testing.assert_array_equal(y.array, values)
    np.testing.assert_array_equal(z.array, values + 1)


def test_a_single_number_in_an_array_is_followed_when_it_changes() -> None:
    for dtype in (np.float32, np.float64, np.int64):
        rate = np.array(1, dtype)
        step = bind([lazy(np.ones(4)) * rate, lazy(np.arange(3)) / rate])
        step.run()
        rate[...] = 4
        assert [one.array.tolist() for one in step.run()] == [[4.0] * 4, [0, 0.25, 0.5]]
    with pytest.raises(DTypeError, match="byte order '>' of an operand float64"):
        apply("mul", np.ones(4), np.ones(4, ">f8"))


@pytest.mark.parametrize("evaluator", ["numpy", None])
def test_what_is_shared_costs_once(evaluator: str | None) -> None:
    """As a tree the expression has 2 ** 24 leaves."""
    x = np.full(2 * FEW, 0.5, np.float32)
    shared, total = lazy(x), lazy(x)
    for _ in range(24):
        shared = shared * shared + shared * 0.5
        total = total + shared
    step = bind([total, shared.sum()], evaluator=evaluator)
    assert step.run()[0].array[0] == np.float32(12.5)
    assert len(step.explain()) < 8000
    assert "v27 = a0 * a0 + a0 * a1\n" in step.explain()


def test_explain_of_a_long_expression_needs_no_deep_stack() -> None:
    x = lazy(np.zeros(3, np.int32))
    for _ in range(3000):
        x = x + 1
    assert len(x.explain().splitlines()) > 200
