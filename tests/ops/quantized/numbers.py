"""Integers with a scale for tests, and what they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.tensor import Int8Tensor, PerTensor


def octets(*shape: int, scale: float = 0.05, zero_point: int = 120, seed: int = 0) -> Int8Tensor:
    """Return bytes of all values."""
    data = np.random.default_rng([seed, *shape]).integers(0, 256, shape).astype(np.uint8)
    return Int8Tensor(data, scale, zero_point)


def by_channel(value: Int8Tensor, low: float, high: float, zero_point: int = 0) -> Int8Tensor:
    """Return the same integers with a scale for each slice of the first axis."""
    count, dims = len(value.data), (-1, *[1] * (value.data.ndim - 1))
    scales = np.linspace(low, high, count, dtype=np.float32).reshape(dims)
    return value._replace(scale=scales, zero_point=np.full(scales.shape, zero_point, np.int32))


def whole(count: int, scale: float, seed: int = 0) -> Int8Tensor:
    """Return a bias."""
    data = np.random.default_rng([seed, count]).integers(-3000, 3000, count).astype(np.int32)
    return Int8Tensor(data, scale, 0)


def real(value: Int8Tensor) -> NDArray[np.float64]:
    """Return the numbers, in float64."""
    return (value.data.astype(np.float64) - value.zero_point) * np.float64(value.scale)


def quantized(numbers: Any, scale: float, zero_point: int = 0) -> Int8Tensor:
    """Return numbers as bytes: half away from zero, which is at most a step from half to even."""
    steps = np.asarray(numbers, np.float64) / np.float64(np.float32(scale)) + zero_point
    return Int8Tensor(np.clip(np.floor(steps + 0.5), 0, 255).astype(np.uint8), PerTensor(scale).scale, zero_point)
