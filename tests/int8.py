"""Whole numbers with scale and zero point among the arrays of tests: what a harness asks of either alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tazza.tensor import DataType, Int8Tensor, Tensor, TensorSpec

Array: TypeAlias = NDArray[Any]
Value: TypeAlias = Array | Int8Tensor

STEPS = 1
"""How many integers results may differ by: engines scale in other orders."""


def data_of(value: Value) -> Array:
    """Return the elements."""
    return value.data if isinstance(value, Int8Tensor) else value


def changed(value: Value, change: Callable[[Array], Array]) -> Value:
    """Return a value with other elements."""
    return value._replace(data=change(value.data)) if isinstance(value, Int8Tensor) else change(value)


def fresh(value: Any) -> Value:
    """Return a copy; numbers and lists become arrays."""
    return changed(value, np.array) if isinstance(value, Int8Tensor) else np.array(value)


def spec_of(value: Value) -> TensorSpec:
    """Return the spec of a row-major tensor with that value."""
    data = data_of(value)
    return TensorSpec(
        data.shape, DataType.of(data), quantization=value.quantization if isinstance(value, Int8Tensor) else None
    )


def tensor_of(value: Any) -> Any:
    """Return the tensor of an array, whose memory is shared, or of integers; anything else as it is."""
    if isinstance(value, Int8Tensor):
        tensor = tensor_of(value.data)
        tensor.quantize_as(value.quantization)
        return tensor
    return Tensor.from_numpy(cast("Array", value), copy=None) if isinstance(value, np.ndarray) else value


def assert_near(got: Value, wanted: Int8Tensor, steps: int = STEPS) -> None:
    """Assert the same scale and zero point, and integers that differ by no more than some steps."""
    assert isinstance(got, Int8Tensor), f"{got} has no scale"
    assert got.quantization == wanted.quantization
    assert (got.data.shape, got.data.dtype) == (wanted.data.shape, wanted.data.dtype)
    apart = np.abs(got.data.astype(np.int64) - wanted.data.astype(np.int64))
    assert apart.max(initial=0) <= steps, f"integers differ by up to {apart.max()}"
