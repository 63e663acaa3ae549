"""Gather and its kin, compiled: the reference's bits on any number of threads; a wrong index is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen import kernel
from tazza.codegen.kernel import unavailable
from tazza.errors import NumericError
from tazza.operator import operator_def
from tazza.runtime.threads import NUM_THREADS
from tests.check import run

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
INDICES = np.array([[3, 0, 3], [1, 3, 2]])


def results(shape: tuple[int, ...], indices: Array, engine: str) -> tuple[Array, Array]:
    """Return what is gathered, and the gradient of it."""
    random = np.random.default_rng(len(shape))
    x = random.standard_normal(shape).astype(np.float32)
    (y,), _ = run(operator_def("BatchGather", ["x", "i"], ["y"]), [x, indices], engine)
    dy = random.standard_normal(y.shape).astype(np.float32)
    (dx,), _ = run(operator_def("BatchGatherGradient", ["x", "i", "dy"], ["dx"]), [x, indices, dy], engine)
    return y, dx


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3), (5, 4, 2, 17), (0, 4), (5, 4, 0), (1, 4)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_it_is_the_reference(shape: tuple[int, ...], dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = results(shape, INDICES.astype(dtype), "reference")
    monkeypatch.setattr(kernel, "THREAD_NS", 0.01)
    for count in (1, 3):
        with NUM_THREADS.override(count):
            found = results(shape, INDICES.astype(dtype), "native")
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("index", [-1, 4])
def test_a_wrong_index_is_named(index: int) -> None:
    x, indices = np.zeros((2, 4), np.float32), np.array([0, index])
    with pytest.raises(NumericError, match="INDICES"):
        run(operator_def("BatchGather", ["x", "i"], ["y"]), [x, indices], "native")
    gradient = operator_def("BatchGatherGradient", ["x", "i", "dy"], ["dx"])
    with pytest.raises(NumericError, match="INDICES"):
        run(gradient, [x, indices, np.zeros((2, 2), np.float32)], "native")


@pytest.mark.parametrize("dtype", [np.bool_, np.float16, np.int32, np.int64, np.float64])
@pytest.mark.parametrize("shape", [(4,), (4, 3), (4, 17, 2), (4, 0)])
def test_numbers_of_any_size_are_copied(shape: tuple[int, ...], dtype: Any) -> None:
    x = np.arange(4 * int(np.prod(shape[1:]))).reshape(shape).astype(dtype)
    (y,), _ = run(operator_def("Gather", ["x", "i"], ["y"]), [x, np.array([[3, -4, -1], [0, 2, -2]])], "native")
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, x[[[3, 0, 3], [0, 2, 2]]])


def test_outer_places_have_indices_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "THREAD_NS", 0.01)
    x = np.arange(30, dtype=np.float32).reshape(5, 3, 2)
    indices = np.array([[0, 2], [1, 1], [2, 0], [0, 0], [1, 2]], np.int32)
    for count in (1, 3):
        with NUM_THREADS.override(count):
            (y,), _ = run(operator_def("BatchGather", ["x", "i"], ["y"], match_outer=1), [x, indices], "native")
            np.testing.assert_array_equal(y, np.take_along_axis(x, indices[:, :, None].repeat(2, 2), 1))
            gradient = operator_def("BatchGatherGradient", ["x", "i", "dy"], ["dx"], match_outer=1)
            (dx,), _ = run(gradient, [x, indices, y], "native")
            (wanted,), _ = run(gradient, [x, indices, y], "reference")
            np.testing.assert_array_equal(dx, wanted)


@pytest.mark.parametrize("index", [-1, 5])
def test_rows_are_permuted_and_a_wrong_one_is_named(index: int) -> None:
    x, order = np.arange(10, dtype=np.float32).reshape(5, 2), np.array([4, 0, 0, 3, 1], np.int32)
    (y,), _ = run(operator_def("BatchPermutation", ["x", "i"], ["y"]), [x, order], "native")
    np.testing.assert_array_equal(y, x[order])
    gradient = operator_def("BatchPermutationGradient", ["i", "dy"], ["dx"])
    (dx,), _ = run(gradient, [order, y], "native")
    np.testing.assert_array_equal(dx, [[0, 2], [2, 3], [0, 0], [6, 7], [8, 9]])
    order[2] = index
    for definition, given in (
        (operator_def("BatchPermutation", ["x", "i"], ["y"]), [x, order]),
        (gradient, [order, y]),
    ):
        with pytest.raises(NumericError, match="indices"):
            run(definition, given, "native")
