"""Searching, sorting, sets and taking, against NumPy over element types and layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tazza.array as ta
from tazza.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from tests.arrays import Pair, assert_same, pairs


@given(st.data(), pairs(min_rank=1, min_extent=1))
@settings(max_examples=100)
def test_against_numpy(data: st.DataObject, pair: Pair) -> None:
    x, a = pair.tensor, pair.array
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    wide = a.astype(np.float64)
    assert_same(ta.argmax(x, axis=axis), wide.argmax(axis))
    assert_same(ta.argmin(x, axis=axis, keepdims=True), wide.argmin(axis, keepdims=True))
    assert_same(ta.argmin(x), np.asarray(wide.argmin()))
    assert_same(ta.sort(x, axis=axis), np.sort(wide, axis).astype(a.dtype))
    assert_same(ta.sort(x, axis=axis, descending=True), np.flip(np.sort(wide, axis), axis).astype(a.dtype))
    assert_same(ta.argsort(x, axis=axis), np.argsort(wide, axis, kind="stable"))
    assert_same(ta.sort(x, axis=None), np.sort(wide, None).astype(a.dtype))
    assert_same(x.argsort(axis=None), np.argsort(wide, None, kind="stable"))
    assert_same(ta.argsort(x, axis=axis, descending=True), np.argsort(-wide, axis, kind="stable"))
    for found, expected in zip(ta.nonzero(x), np.nonzero(wide), strict=True):
        assert_same(found, expected)
    values, first, inverse, counts = ta.unique_all(x)
    assert_same(values[inverse], a)
    assert_same(ta.reshape(x, (-1,))[first], values.plain())
    assert counts.sum().item() == a.size
    assert ta.unique_values(x).tolist() == ta.unique_counts(x).values.tolist() == sorted(set(a.ravel().tolist()))
    indices = data.draw(st.lists(st.integers(-a.shape[axis], a.shape[axis] - 1), max_size=5))
    assert_same(ta.take(x, ta.asarray(indices, dtype="int32"), axis=axis), np.take(a, np.array(indices, int), axis))
    extents = [data.draw(st.sampled_from([1, extent])) for extent in a.shape]
    extents[axis] = data.draw(st.integers(0, 4))
    chosen = np.random.default_rng(a.size).integers(-a.shape[axis], a.shape[axis], extents)
    assert_same(ta.take_along_axis(x, ta.asarray(chosen), axis=axis), np.take_along_axis(a, chosen, axis))
    pair.check()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_nan(dtype: str) -> None:
    x = ta.asarray([2.0, ta.nan, 1.0, ta.nan], dtype=dtype)
    assert ta.sort(x)[:2].tolist() == [1, 2]
    assert ta.argsort(x).tolist() == [2, 0, 1, 3]
    assert ta.argsort(x, descending=True).tolist() == [1, 3, 0, 2]
    assert ta.unique_inverse(x).values.shape == (4,)
    assert ta.argmax(x).item() == 1


def test_searchsorted() -> None:
    x, values = ta.asarray([1, 2, 2, 5]), ta.asarray([[2], [0], [9]])
    assert ta.searchsorted(x, values).tolist() == [[1], [0], [4]]
    assert ta.searchsorted(x, values, side="right").tolist() == [[3], [0], [4]]
    turned = ta.flip(x)
    assert ta.searchsorted(turned, values, sorter=ta.argsort(turned)).tolist() == [[1], [0], [4]]


X = ta.zeros((2, 3))
WRONG_SIDE: Any = "middle"
NO_AXIS: Any = None


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: ta.argmax(ta.zeros((2, 0)), axis=1), ShapeError),
        (lambda: ta.argmin(ta.zeros(0)), ShapeError),
        (lambda: ta.nonzero(ta.zeros(())), ShapeError),
        (lambda: ta.searchsorted(X, X), ShapeError),
        (lambda: ta.searchsorted(X[0], X, side=WRONG_SIDE), ArgumentError),
        (lambda: ta.take(X, ta.asarray([0])), ShapeError),
        (lambda: ta.take(X, ta.asarray([[0]]), axis=0), ShapeError),
        (lambda: ta.take(X, ta.asarray([0.0]), axis=0), DTypeError),
        (lambda: ta.take(X, ta.asarray([3]), axis=1), BoundsError),
        (lambda: ta.sort(X, axis=2), ShapeError),
        (lambda: X.sort(axis=NO_AXIS), ArgumentError),
        (lambda: ta.sort(ta.asarray(["a"])), DTypeError),
    ],
)
def test_what_does_not_fit(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        wrong()
