"""Values of cases: arrays, and whole numbers with scale and zero point; what the judge asks of either alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tazza.errors import CheckError
from tazza.tensor import DataType, Int8Tensor, Tensor, TensorSpec

Array: TypeAlias = NDArray[Any]
Value: TypeAlias = Array | Int8Tensor

TOLERANCE = {"bfloat16": (1.6e-2, 8e-3), "float16": (2e-3, 1e-3), "float32": (1e-5, 1e-6), "float64": (1e-12, 1e-12)}
"""dtype -> (relative, absolute) for short sums; a case with longer reductions multiplies both by its `slack`."""

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


def hold(condition: object, message: str) -> None:
    """Do nothing where a condition holds; unlike `assert` it is there under `python -O` too.

    Raises:
        CheckError: it does not.
    """
    if not condition:
        raise CheckError(message)


def assert_near(got: Value, wanted: Int8Tensor, steps: int = STEPS) -> None:
    """Require the same scale and zero point, and integers that differ by no more than some steps.

    Raises:
        CheckError: they are not.
    """
    if not isinstance(got, Int8Tensor):
        raise CheckError(f"{got} has no scale")
    hold(got.quantization == wanted.quantization, f"it is {got.quantization}, not {wanted.quantization}")
    lies, wished = (got.data.shape, got.data.dtype), (wanted.data.shape, wanted.data.dtype)
    hold(lies == wished, f"shape and type are {lies}, not {wished}")
    apart = np.abs(got.data.astype(np.int64) - wanted.data.astype(np.int64))
    hold(apart.max(initial=0) <= steps, f"integers differ by up to {apart.max(initial=0)}")


def assert_close(got: Any, wanted: Any, slack: float = 1.0) -> None:
    """Require equal shape and values, to rounding for floats and to a step for integers with a scale.

    Raises:
        AssertionError: they are not; the message shows where they part.
    """
    if isinstance(wanted, Int8Tensor):
        assert_near(got, wanted)
        return
    wanted = np.asarray(wanted)
    hold(got.shape == wanted.shape, f"the shape is {got.shape}, not {wanted.shape}")
    if DataType.of(got).is_float:
        relative, absolute = TOLERANCE[got.dtype.name]
        np.testing.assert_allclose(_plain(got), _plain(wanted), rtol=relative * slack, atol=absolute * slack)
    else:
        np.testing.assert_array_equal(got, wanted)


def _plain(array: Array) -> Array:
    """Return numbers of a type that NumPy compares: bfloat16 is none."""
    return array.astype(np.float32) if DataType.of(array) is DataType.BFLOAT16 else array
