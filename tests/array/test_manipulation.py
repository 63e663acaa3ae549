"""Joining, repeating and moving elements, against NumPy over element types, rank 0-9 and layouts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tazza.array as ta
from tazza.errors import ArgumentError, DTypeError, ShapeError
from tests.arrays import Pair, assert_same, pairs


@given(st.data(), pairs(min_rank=1))
@settings(max_examples=120)
def test_against_numpy(data: st.DataObject, pair: Pair) -> None:
    x, a = pair.tensor, pair.array
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    n = data.draw(st.integers(0, 3))
    assert_same(ta.flip(x, axis=axis), np.flip(a, axis))
    assert_same(ta.flip(x), np.flip(a))
    assert_same(ta.roll(x, n, axis=axis), np.roll(a, n, axis))
    assert_same(ta.roll(x, -n), np.roll(a, -n))
    assert_same(ta.repeat(x, n, axis=axis), np.repeat(a, n, axis))
    assert_same(ta.tile(x, (n, 2)), np.tile(a, (n, 2)))
    other = data.draw(pairs([x.dtype], shape=a.shape))
    assert_same(ta.concat([x, other.tensor], axis=axis), np.concatenate([a, other.array], axis))
    if a.ndim < 9:
        assert_same(ta.stack([x, other.tensor, x], axis=axis), np.stack([a, other.array, a], axis))
    for found, expected in zip(ta.unstack(x, axis=axis), np.moveaxis(a, axis, 0), strict=True):
        assert_same(found, expected)
    pair.check()


def test_types_are_promoted_and_axes_may_be_all() -> None:
    x = ta.asarray([[1, 2]], dtype="int8")
    assert ta.concat([x, ta.asarray([[3, 4]], dtype="uint8")]).dtype is ta.int16
    assert ta.concat([x, ta.asarray([5], dtype="int8")], axis=None).tolist() == [1, 2, 5]
    assert ta.concat([ta.asarray(["a"]), ta.asarray(["b"])]).tolist() == [b"a", b"b"]
    assert ta.repeat(x, ta.asarray([2, 1]), axis=1).tolist() == [[1, 1, 2]]
    first, second = ta.broadcast_arrays(x, ta.ones((3, 1)))
    assert first.shape == second.shape == (3, 2)
    assert ta.shares_memory(first, x)


X = ta.zeros((2, 3))


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: ta.concat([]), ArgumentError),
        (lambda: ta.concat([X, ta.zeros((2, 4))]), ShapeError),
        (lambda: ta.concat([X, ta.zeros(3)]), ShapeError),
        (lambda: ta.concat([X, ta.asarray([["a"]])]), DTypeError),
        (lambda: ta.stack([X, X.T]), ShapeError),
        (lambda: ta.flip(X, axis=2), ShapeError),
        (lambda: ta.roll(X, 1, axis=2), ShapeError),
        (lambda: ta.repeat(X, -1), ArgumentError),
        (lambda: ta.repeat(X, ta.asarray([1.0])), DTypeError),
        (lambda: ta.repeat(X, ta.asarray([1, 2]), axis=1), ShapeError),
        (lambda: ta.tile(X, (-1,)), ShapeError),
    ],
)
def test_what_does_not_fit(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        wrong()
