"""Joining, repeating and moving elements, against NumPy over element types, rank 0-9 and layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tazza.tensor as tt
from tazza.errors import ArgumentError, DTypeError, ShapeError
from tests.arrays import Pair, assert_same, pairs


@given(st.data(), pairs(min_rank=1))
@settings(max_examples=120)
def test_against_numpy(data: st.DataObject, pair: Pair) -> None:
    x, a = pair.tensor, pair.array
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    n = data.draw(st.integers(0, 3))
    assert_same(tt.flip(x, axis=axis), np.flip(a, axis))
    assert_same(tt.flip(x), np.flip(a))
    assert_same(tt.roll(x, n, axis=axis), np.roll(a, n, axis))
    assert_same(tt.roll(x, -n), np.roll(a, -n))
    assert_same(tt.repeat(x, n, axis=axis), np.repeat(a, n, axis))
    assert_same(tt.tile(x, (n, 2)), np.tile(a, (n, 2)))
    other = data.draw(pairs([x.dtype], shape=a.shape))
    assert_same(tt.concat([x, other.tensor], axis=axis), np.concatenate([a, other.array], axis))
    if a.ndim < 9:
        assert_same(tt.stack([x, other.tensor, x], axis=axis), np.stack([a, other.array, a], axis))
    for found, expected in zip(tt.unstack(x, axis=axis), np.moveaxis(a, axis, 0), strict=True):
        assert_same(found, expected)
    pair.check()


def test_types_are_promoted_and_axes_may_be_all() -> None:
    x = tt.asarray([[1, 2]], dtype="int8")
    assert tt.concat([x, tt.asarray([[3, 4]], dtype="uint8")]).dtype is tt.int16
    assert tt.concat([x, tt.asarray([5], dtype="int8")], axis=None).tolist() == [1, 2, 5]
    assert tt.concat([tt.asarray(["a"]), tt.asarray(["b"])]).tolist() == [b"a", b"b"]
    assert tt.repeat(x, tt.asarray([2, 1]), axis=1).tolist() == [[1, 1, 2]]
    first, second = tt.broadcast_arrays(x, tt.ones((3, 1)))
    assert first.shape == second.shape == (3, 2)
    assert tt.shares_memory(first, x)


X = tt.zeros((2, 3))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: tt.concat([]), ArgumentError),
        (lambda: tt.concat([X, tt.zeros((2, 4))]), ShapeError),
        (lambda: tt.concat([X, tt.zeros(3)]), ShapeError),
        (lambda: tt.concat([X, tt.asarray([["a"]])]), DTypeError),
        (lambda: tt.stack([X, X.T]), ShapeError),
        (lambda: tt.flip(X, axis=2), ShapeError),
        (lambda: tt.roll(X, 1, axis=2), ShapeError),
        (lambda: tt.repeat(X, -1), ArgumentError),
        (lambda: tt.repeat(X, tt.asarray([1.0])), DTypeError),
        (lambda: tt.repeat(X, tt.asarray([1, 2]), axis=1), ShapeError),
        (lambda: tt.tile(X, (-1,)), ShapeError),
    ],
)
def test_what_does_not_fit(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        wrong()
