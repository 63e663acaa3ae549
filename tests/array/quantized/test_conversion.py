"""Quantization and back: the stated bounds, the ends, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.array.quantized import QTensor, dequantize, error_bound, quantize
from tazza.array.quantized.rounding import ROUNDINGS
from tazza.errors import ArgumentError, DTypeError, NotFoundError, NumericError
from tazza.tensor import DataType, Tensor

NUMBERS = st.lists(st.floats(-1e6, 1e6), max_size=40).map(lambda numbers: np.array(numbers))


@given(NUMBERS, st.integers(1, 8), st.booleans(), st.sampled_from(ROUNDINGS.registered()))
def test_bound_over_the_range(x: np.ndarray, precision: int, signed: bool, rounding: str) -> None:
    q = quantize(x, precision, signed=signed, rounding=rounding, generator=np.random.default_rng(1))
    for dtype in (DataType.FLOAT, DataType.DOUBLE):
        found = dequantize(q, dtype).plain().astype(np.float64)
        np.testing.assert_array_less(np.abs(found - x), error_bound(q, rounding, dtype) * (1 + 1e-15) + 5e-324)
    assert x.size == 0 or not signed or q.bias == 0


@given(NUMBERS, st.integers(1, 8), st.booleans(), st.floats(0.01, 100), st.floats(-50, 50))
def test_clamped_to_the_nearest_end(x: np.ndarray, precision: int, signed: bool, scale: float, bias: float) -> None:
    q = quantize(x, precision, signed=signed, scale=scale, bias=bias)
    low, high = q.limits
    inside = np.clip(x, scale * (low + bias), scale * (high + bias))
    found = q.dequantize(DataType.DOUBLE).plain()
    np.testing.assert_array_less(np.abs(found - inside), error_bound(q, dtype=DataType.DOUBLE) * (1 + 1e-12))


def test_many_elements() -> None:
    x = np.random.default_rng(0).normal(size=(3, 25_013)).astype(np.float32)
    q = quantize(Tensor.from_numpy(x), 5)
    expected = np.rint(x.astype(np.float64) / q.scale).astype(np.int8)
    np.testing.assert_array_equal(q.integers().plain(), expected)


def test_infinities_and_halves() -> None:
    q = quantize([-np.inf, np.inf, 0.5, 1.5, 2.5], 2, signed=False, scale=1.0)
    assert q.integer_array().tolist() == [0, 3, 0, 2, 2]
    assert quantize(
        np.array([0.5, 1.5], np.float16), 2, scale=1.0, rounding="nearest_away"
    ).integer_array().tolist() == [1, 2]


@pytest.mark.parametrize("value", [0.0, -2.5, 7.0])
def test_all_the_same(value: float) -> None:
    for signed in (True, False):
        assert quantize(np.full(3, value), 3, signed=signed).dequantize().plain().tolist() == [value] * 3


def test_refusals() -> None:
    with pytest.raises(NumericError, match="NaN, which no integer"):
        quantize([1.0, np.nan], 3, scale=1.0)
    with pytest.raises(NumericError, match=r"from 0\.0 to inf have no scale"):
        quantize([0.0, np.inf], 3)
    with pytest.raises(ArgumentError, match="without a scale"):
        quantize([1.0], 3, bias=1.0)
    with pytest.raises(ArgumentError, match="precision 0"):
        quantize([1.0], 0)
    with pytest.raises(DTypeError, match="complex128 are no real"):
        quantize(np.array([1j]), 3)
    with pytest.raises(NotFoundError, match="unknown rounding 'up'"):
        quantize([1.0], 3, rounding="up")
    with pytest.raises(NotFoundError, match="unknown rounding"):
        error_bound(QTensor.of_integers([0], 1, signed=False), "up")
