"""What functions of this library take and give: array-likes as plain arrays, results and `out` as tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from tazza.array.coercion import values_of
from tazza.errors import DTypeError, ShapeError, UnsupportedError
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.layout import Opaque
from tazza.tensor.tensor import Tensor
from tazza.tensor.transfer import check_writable

Array: TypeAlias = NDArray[Any]


class SupportsArray(Protocol):
    """What becomes an array when NumPy asks, such as a lazy expression."""

    def __array__(self) -> Array:
        """Return the elements."""
        ...


Operand: TypeAlias = Tensor | Array | SupportsArray | np.generic | Sequence[Any] | float
"""A tensor, an array or what becomes one, a number, or nested sequences of numbers."""


def plain_operand(value: Operand, name: str) -> Array:
    """Return numbers as an array in the machine's byte order, aligned, with strides of whole elements; rarely a copy.

    An opaque layout is made plain. Python numbers become float32 or int64 (`coercion`). Nobody writes to it.

    Args:
        value: what was given.
        name: its letter, for messages.

    Raises:
        DTypeError: text, or elements that no tensor holds.
        UnsupportedError: a tensor that the CPU cannot read.
    """
    if isinstance(value, Tensor):
        if value.dtype is DataType.STRING:
            raise DTypeError(f"{name} holds text, this function computes with numbers")
        if not value.place.is_host:
            message = f"{name} is on {value.place}, this function computes on the CPU"
            raise UnsupportedError(message, hint="copy it there")
        return value.plain() if isinstance(value.layout, Opaque) else value.array
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(cast("Any", value))
    elif hasattr(value, "__array__"):
        array = np.asarray(cast("Any", value))
    elif not isinstance(value, (Sequence, int, float)):  # pyright: ignore[reportUnnecessaryIsInstance] -- callers err
        message = f"{name} is a {type(value).__name__}, this function takes tensors, arrays and numbers"
        raise DTypeError(message, hint="make a dense tensor of it first")
    else:
        array = values_of(value)
    dtype = DataType.of(array)
    if dtype is DataType.STRING:
        raise DTypeError(f"{name} holds text, this function computes with numbers")
    item = array.itemsize
    plain = array.dtype.isnative and array.flags.aligned and not any(step % item for step in array.strides)
    return array if plain else np.array(array, dtype.numpy)


def check_out(out: Tensor, dims: Sequence[int], dtype: DataType, who: str) -> None:
    """Check that `out` can take a result.

    Raises:
        ShapeError: it has another shape.
        DTypeError: it has another element type.
        UnsupportedError: the CPU cannot write to it, or two of its elements are one in memory.
    """
    if out.shape != tuple(dims):
        raise ShapeError(f"{who}: out has the shape {out.shape}, the result has {Dim(dims)}", hint="resize it")
    if out.dtype is not dtype:
        raise DTypeError(f"{who}: out is {out.dtype}, the result is {dtype}", hint=f"give a tensor of {dtype}")
    check_writable(out, who)


def result_for(out: Tensor | None, dims: Sequence[int], dtype: DataType, who: str) -> Tensor:
    """Return `out`, checked and in a layout that can be written, or a new tensor where it is None.

    Raises:
        ShapeError, DTypeError, UnsupportedError: see `check_out`.
    """
    if out is None:
        return Tensor(dims, dtype)
    check_out(out, dims, dtype, who)
    out.make_plain()
    return out


def as_tensor(array: Array) -> Tensor:
    """Return a tensor that takes over a fresh array: without a copy where its memory can be shared."""
    tensor = Tensor.from_numpy(np.asarray(array), copy=None)
    tensor.storage.escaped = False  # nobody else holds the array
    return tensor
