"""Reductions against NumPy over element types, rank 0-9, layouts and axes."""

from __future__ import annotations

import warnings
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tazza.array as ta
from tazza.errors import ArgumentError, DTypeError, ShapeError
from tests.arrays import FLOATS, INTEGERS, Array, Pair, assert_same, pairs

DataType = ta.DataType
NUMERIC = [*INTEGERS, *FLOATS]
TOLERANCE = {DataType.FLOAT16: 2e-3, DataType.BFLOAT16: 1.6e-2, DataType.FLOAT: 2e-6, DataType.DOUBLE: 1e-12}


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if array.dtype.kind not in "iub" else array


def _check(found: ta.Tensor, expected: Any, dtype: DataType) -> None:
    assert found.dtype is dtype
    assert found.shape == expected.shape
    rtol = TOLERANCE.get(dtype, 0)
    np.testing.assert_allclose(found.plain().astype(np.float64), np.asarray(expected, np.float64), rtol, rtol)


@st.composite
def axes_of(draw: st.DrawFn, rank: int) -> int | tuple[int, ...] | None:
    """Draw one axis, several, or all."""
    several = draw(st.lists(st.integers(0, rank - 1), unique=True)) if rank else []
    signed = [axis - draw(st.sampled_from([0, rank])) for axis in several]
    return draw(st.sampled_from([None, tuple(signed), *signed[:1]]))


def _kept(x: DataType) -> DataType:
    return x if x.is_float else DataType.INT64


@given(
    st.data(),
    pairs(),
    st.booleans(),
    st.sampled_from(["sum", "prod", "mean", "any", "all", "max", "min", "var", "count_nonzero"]),
)
@settings(max_examples=200, deadline=None)
def test_reductions(data: st.DataObject, pair: Pair, keepdims: bool, name: str) -> None:
    axis = data.draw(axes_of(pair.array.ndim))
    dtype, array = pair.tensor.dtype, pair.array
    rounded = dtype if dtype.is_float else DataType.FLOAT
    give = {"any": DataType.BOOL, "all": DataType.BOOL, "max": dtype, "min": dtype, "mean": rounded, "var": rounded}
    if name in ("max", "min") and 0 in array.shape:
        return
    if name == "prod":
        pair = Pair(ta.sign(pair.tensor) if dtype is not DataType.BOOL else pair.tensor, np.sign(array * 1), "signs")
        array = pair.array
    expected = _quietly(getattr(np, name), _wide(array), axis, keepdims)
    give["count_nonzero"] = DataType.INT64
    _check(getattr(ta, name)(pair.tensor, axis=axis, keepdims=keepdims), expected, give.get(name, _kept(dtype)))


def _quietly(function: Any, array: Array, axis: Any, keepdims: bool) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy warns of means of nothing
        return np.asarray(function(array, axis=axis, keepdims=keepdims))


@given(st.data(), pairs(NUMERIC, max_rank=4), st.booleans())
@settings(max_examples=60, deadline=None)
def test_differences(data: st.DataObject, pair: Pair, more: bool) -> None:
    if pair.array.ndim == 0 or (pair.tensor.dtype.is_float and pair.tensor.dtype.itemsize == 2):
        return  # NumPy rounds half precision after each step, as we do, but has none of bfloat16's rules
    axis, n = data.draw(st.integers(-pair.array.ndim, pair.array.ndim - 1)), data.draw(st.integers(0, 3))
    front = {"prepend": pair.tensor, "append": pair.tensor} if more else {}
    expected = np.diff(pair.array, n, axis, **({"prepend": pair.array, "append": pair.array} if more else {}))
    assert_same(ta.diff(pair.tensor, axis=axis, n=n, **front), expected)


@given(st.data(), pairs(NUMERIC, max_rank=4), st.booleans())
@settings(max_examples=60, deadline=None)
def test_cumulative_product(data: st.DataObject, pair: Pair, initial: bool) -> None:
    if pair.array.ndim == 0:
        return
    axis = data.draw(st.integers(-pair.array.ndim, pair.array.ndim - 1))
    signs = np.sign(_wide(pair.array))
    expected = np.cumprod(signs, axis)
    if initial:
        expected = np.concatenate([np.ones(_one(expected, axis)), expected], axis)
    found = ta.cumulative_prod(ta.sign(pair.tensor), axis=axis, include_initial=initial)
    _check(found, expected, _kept(pair.tensor.dtype))


@given(st.data(), pairs(NUMERIC, max_rank=4), st.booleans())
@settings(max_examples=60, deadline=None)
def test_cumulative_sum(data: st.DataObject, pair: Pair, initial: bool) -> None:
    if pair.array.ndim == 0:
        return
    axis = data.draw(st.integers(-pair.array.ndim, pair.array.ndim - 1))
    expected = np.cumsum(_wide(pair.array), axis)
    if initial:
        expected = np.concatenate([np.zeros(_one(expected, axis)), expected], axis)
    found = ta.cumulative_sum(pair.tensor, axis=axis, include_initial=initial)
    _check(found, expected, _kept(pair.tensor.dtype))


def _one(array: Array, axis: int) -> tuple[int, ...]:
    return tuple(1 if k == axis % array.ndim else extent for k, extent in enumerate(array.shape))


def test_half_precision_does_not_add_up_in_itself() -> None:
    x = ta.ones(5000, dtype="bfloat16")
    assert float(ta.sum(x)) == 4992  # 5000 in bfloat16
    assert float(ta.mean(x)) == 1
    assert float(ta.cumulative_sum(x)[-1]) == 4992
    assert float(ta.std(ta.full(100, 300.0, dtype="float16"))) == 0


def test_nan_wins() -> None:
    for dtype in FLOATS:
        x = ta.asarray([1.0, ta.nan, -ta.inf], dtype=dtype)
        assert all(
            ta.isnan(cast("ta.Tensor", getattr(ta, name)(x))).item()
            for name in ("max", "min", "sum", "mean", "prod", "var")
        )
        assert (ta.max(x[::2]).item(), ta.min(x[::2]).item(), ta.all(x).item()) == (1, -ta.inf, True)


def test_types_and_corrections() -> None:
    x = ta.asarray([1, 2, 3, 6], dtype="int16")
    assert ta.sum(x, dtype="float32").dtype is ta.float32
    assert ta.prod(x, dtype=ta.int32).item() == 36
    assert ta.var(x, correction=1).item() == pytest.approx(14 / 3)
    assert ta.std(x).item() == pytest.approx(3.5**0.5)
    assert ta.isnan(ta.var(ta.ones(1), correction=1)).item()
    assert ta.cumulative_sum(x, dtype="float64").tolist() == [1, 3, 6, 12]
    assert (x.sum().item(), x.max().item(), x.min().item(), x.mean().item(), x.prod().item()) == (12, 6, 1, 3, 36)
    assert x.any().item()
    assert not (x > 2).all()


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: ta.max(ta.zeros((0, 3))), ShapeError),
        (lambda: ta.sum(ta.zeros((2, 3)), axis=2), ShapeError),
        (lambda: ta.sum(ta.zeros((2, 3)), axis=(0, -2)), ShapeError),
        (lambda: ta.cumulative_sum(ta.zeros((2, 3))), ShapeError),
        (lambda: ta.cumulative_sum(ta.asarray(["a"])), DTypeError),
        (lambda: ta.sum(ta.asarray(["a"])), DTypeError),
    ],
)
def test_what_does_not_fit(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        wrong()


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "min", "any", "all"])
def test_functions_of_numpy_find_the_method(name: str) -> None:
    x = ta.asarray([[1, 2, 3], [4, 5, 0]], dtype=np.float32)
    function = getattr(np, name)
    assert function(x).tolist() == function(x.plain()).tolist()
    found = function(x, axis=1, keepdims=True)
    assert isinstance(found, ta.Tensor)
    assert found.tolist() == function(x.plain(), axis=1, keepdims=True).tolist()
    with pytest.raises(ArgumentError, match="out = "):
        function(x, out=np.zeros(()))


def test_types_of_sums_that_numpy_hands_on() -> None:
    x = ta.asarray([100, 100], dtype=np.int8)
    assert np.sum(x, dtype=np.float32).dtype is ta.DataType.FLOAT
    with pytest.raises(ArgumentError, match=r"dtype = .* is not supported"):
        np.mean(x, dtype=np.float32)
