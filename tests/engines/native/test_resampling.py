"""Images from tables of rows and columns: as products with matrices, on any number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.codegen import kernel
from tazza.codegen.block import Slot
from tazza.codegen.kernel import unavailable
from tazza.engines.native.resampling import NONE, Dimension, resampling
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import Tensor
from tests.launching import call_alone

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]


@st.composite
def dimensions(draw: st.DrawFn, *, single: bool, weighted: bool = False) -> Dimension:
    """Draw what each of a few places shows of a few others."""
    extent, count = draw(st.integers(1, 40)), draw(st.integers(1, 40))
    most = 1 if single else draw(st.integers(1, 3))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    places = random.integers(NONE, extent, (count, most))
    weights = random.uniform(0.5, 2, places.shape).astype(np.float32) if weighted else None
    return Dimension(places, extent, weights)


def matrix(dimension: Dimension) -> Array:
    """Return what a dimension multiplies by: a row for each place."""
    found = np.zeros((dimension.count, dimension.extent))
    weights = np.ones(dimension.places.shape) if dimension.weights is None else dimension.weights
    for place, (others, own) in enumerate(zip(dimension.places, weights, strict=True)):
        for other, weight in zip(others, own, strict=True):
            found[place, other] += weight if other != NONE else 0
    return found


def made(planes: Array, rows: Dimension, columns: Dimension, fill: float = 0.0) -> Array:
    """Return what the kernel makes of planes (P, R, C)."""
    X = Tensor.from_numpy(planes)
    Y = Tensor.from_numpy(np.full((len(planes), rows.count, columns.count), np.nan, np.float32))
    launch = resampling(len(planes), rows, columns, (Slot("X"), Slot("Y")), fill)
    call_alone(launch, {"X": X, "Y": Y})
    return np.array(Y.array)


def planes_of(rows: Dimension, columns: Dimension) -> Array:
    """Return two planes of what the dimensions pick from."""
    return np.random.default_rng(7).standard_normal((2, rows.extent, columns.extent), np.float32)


@given(dimensions(single=True), dimensions(single=True))
def test_what_shows_nothing_is_filled(rows: Dimension, columns: Dimension) -> None:
    x = planes_of(rows, columns)
    r, c = rows.places[:, 0], columns.places[:, 0]
    wanted = np.where((r[:, None] == NONE) | (c == NONE), np.float32(3.5), x[:, r[:, None], c])
    np.testing.assert_array_equal(made(x, rows, columns, 3.5), wanted)


@given(dimensions(single=False), dimensions(single=False))
def test_sums(rows: Dimension, columns: Dimension) -> None:
    x = planes_of(rows, columns)
    np.testing.assert_allclose(made(x, rows, columns), matrix(rows) @ x @ matrix(columns).T, rtol=1e-5, atol=1e-5)


@given(dimensions(single=False, weighted=True), dimensions(single=False, weighted=True))
def test_sums_by_weights(rows: Dimension, columns: Dimension) -> None:
    x = planes_of(rows, columns)
    np.testing.assert_allclose(made(x, rows, columns), matrix(rows) @ x @ matrix(columns).T, rtol=1e-5, atol=1e-4)


@given(dimensions(single=False, weighted=True))
def test_a_turned_dimension_is_the_turned_matrix(dimension: Dimension) -> None:
    np.testing.assert_allclose(matrix(dimension.turned()), matrix(dimension).T, rtol=1e-6)


@given(dimensions(single=True), dimensions(single=True))
def test_an_inner_dimension_is_the_product_of_both(outer: Dimension, inner: Dimension) -> None:
    np.testing.assert_array_equal(matrix(outer.with_inner(inner)), np.kron(matrix(outer), matrix(inner)))


def test_the_count_of_threads_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "THREAD_NS", 0.01)
    rows, columns = Dimension(np.array([[0, 1], [1, 2], [2, NONE]]), 3), Dimension(np.array([[0, 4], [3, 1]]), 5)
    x = planes_of(rows, columns)
    found: list[Array] = []
    for count in (1, 3):
        with NUM_THREADS.override(count):
            found.append(made(x, rows, columns))
    np.testing.assert_array_equal(found[0], found[1])
