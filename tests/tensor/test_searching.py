"""Searching, sorting, sets and taking, against NumPy over element types and layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tazza.tensor as tt
from tazza.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from tests.arrays import Pair, assert_same, pairs


@given(st.data(), pairs(min_rank=1, min_extent=1))
@settings(max_examples=100)
def test_against_numpy(data: st.DataObject, pair: Pair) -> None:
    x, a = pair.tensor, pair.array
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    wide = a.astype(np.float64)
    assert_same(tt.argmax(x, axis=axis), wide.argmax(axis))
    assert_same(tt.argmin(x, axis=axis, keepdims=True), wide.argmin(axis, keepdims=True))
    assert_same(tt.argmin(x), np.asarray(wide.argmin()))
    assert_same(tt.sort(x, axis=axis), np.sort(wide, axis).astype(a.dtype))
    assert_same(tt.sort(x, axis=axis, descending=True), np.flip(np.sort(wide, axis), axis).astype(a.dtype))
    assert_same(tt.argsort(x, axis=axis), np.argsort(wide, axis, kind="stable"))
    assert_same(tt.argsort(x, axis=axis, descending=True), np.argsort(-wide, axis, kind="stable"))
    for found, expected in zip(tt.nonzero(x), np.nonzero(wide), strict=True):
        assert_same(found, expected)
    values, first, inverse, counts = tt.unique_all(x)
    assert_same(values[inverse], a)
    assert_same(tt.reshape(x, (-1,))[first], values.plain())
    assert counts.sum().item() == a.size
    assert tt.unique_values(x).tolist() == tt.unique_counts(x).values.tolist() == sorted(set(a.ravel().tolist()))
    indices = data.draw(st.lists(st.integers(-a.shape[axis], a.shape[axis] - 1), max_size=5))
    assert_same(tt.take(x, tt.asarray(indices, dtype="int32"), axis=axis), np.take(a, np.array(indices, int), axis))
    extents = [data.draw(st.sampled_from([1, extent])) for extent in a.shape]
    extents[axis] = data.draw(st.integers(0, 4))
    chosen = np.random.default_rng(a.size).integers(-a.shape[axis], a.shape[axis], extents)
    assert_same(tt.take_along_axis(x, tt.asarray(chosen), axis=axis), np.take_along_axis(a, chosen, axis))
    pair.check()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_nan(dtype: str) -> None:
    x = tt.asarray([2.0, tt.nan, 1.0, tt.nan], dtype=dtype)
    assert tt.sort(x)[:2].tolist() == [1, 2]
    assert tt.argsort(x).tolist() == [2, 0, 1, 3]
    assert tt.argsort(x, descending=True).tolist() == [1, 3, 0, 2]
    assert tt.unique_inverse(x).values.shape == (4,)
    assert tt.argmax(x).item() == 1


def test_searchsorted() -> None:
    x, values = tt.asarray([1, 2, 2, 5]), tt.asarray([[2], [0], [9]])
    assert tt.searchsorted(x, values).tolist() == [[1], [0], [4]]
    assert tt.searchsorted(x, values, side="right").tolist() == [[3], [0], [4]]
    turned = tt.flip(x)
    assert tt.searchsorted(turned, values, sorter=tt.argsort(turned)).tolist() == [[1], [0], [4]]


X = tt.zeros((2, 3))
WRONG_SIDE: Any = "middle"


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: tt.argmax(tt.zeros((2, 0)), axis=1), ShapeError),
        (lambda: tt.argmin(tt.zeros(0)), ShapeError),
        (lambda: tt.nonzero(tt.zeros(())), ShapeError),
        (lambda: tt.searchsorted(X, X), ShapeError),
        (lambda: tt.searchsorted(X[0], X, side=WRONG_SIDE), ArgumentError),
        (lambda: tt.take(X, tt.asarray([0])), ShapeError),
        (lambda: tt.take(X, tt.asarray([[0]]), axis=0), ShapeError),
        (lambda: tt.take(X, tt.asarray([0.0]), axis=0), DTypeError),
        (lambda: tt.take(X, tt.asarray([3]), axis=1), BoundsError),
        (lambda: tt.sort(X, axis=2), ShapeError),
        (lambda: tt.sort(tt.asarray(["a"])), DTypeError),
    ],
)
def test_what_does_not_fit(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        wrong()
