"""Parts of sparse tensors: index and value tensors from whatever is given, and sorting by index."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tazza.array.coercion import values_of
from tazza.errors import DTypeError, ShapeError
from tazza.tensor.allocation import new_array
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.tensor import Tensor

Array: TypeAlias = npt.NDArray[Any]
ArrayLike: TypeAlias = "Tensor | npt.ArrayLike"

INDEX_TYPES = (DataType.INT32, DataType.INT64)


def plain(what: ArrayLike) -> Array:
    """Return the elements of a tensor, an array or nested lists (`coercion`) as an array, which is not written to."""
    return what.plain() if isinstance(what, Tensor) else values_of(what)


def as_tensor(what: ArrayLike, *, copy: bool = False) -> Tensor:
    """Return a tensor as it is, anything else as a tensor; arrays are shared where possible, `copy=True` never."""
    if isinstance(what, Tensor) and not copy:
        return what
    return Tensor.from_numpy(np.ascontiguousarray(plain(what)), copy=True if copy else None)


def own(array: Array) -> Tensor:
    """Return a tensor that takes over an array of ours, to which nobody else has a reference."""
    tensor = Tensor.from_numpy(np.ascontiguousarray(array), copy=None)
    tensor.storage.escaped = False
    return tensor


def index_type(*numbers: int) -> np.dtype[Any]:
    """Return int32 where it holds all of these numbers, else int64.

    >>> index_type(7, 2**31 - 1), index_type(2**31)
    (dtype('int32'), dtype('int64'))
    """
    return np.dtype(np.int32 if max(numbers) <= np.iinfo(np.int32).max else np.int64)


def matrix_shape(shape: Any) -> Dim:
    """Return a shape of rank 2.

    Raises:
        ShapeError: it is of another rank, or no shape.
    """
    dims = Dim(shape)
    if len(dims) != 2:
        raise ShapeError(f"{dims} is of rank {len(dims)} != 2", hint="sparse tensors are matrices; reshape it first")
    return dims


def index_tensor(noun: str, what: ArrayLike, *, copy: bool = False) -> Tensor:
    """Return indices as a vector of int32 or int64.

    Raises:
        ShapeError: they are no vector.
        DTypeError: they are no integers.
    """
    found = plain(what)
    if found.ndim != 1:
        raise ShapeError(f"{noun} are of rank {found.ndim} != 1")
    if found.size == 0 and found.dtype.kind == "f" and not isinstance(what, Tensor):
        found = found.astype(np.int32)  # what NumPy makes of an empty list
    if found.dtype.kind not in "iu":
        raise DTypeError(f"{noun} are {found.dtype}, not integers")
    if DataType.of(found) in INDEX_TYPES:
        return as_tensor(what if isinstance(what, Tensor) else found, copy=copy)
    return own(found.astype(np.int64))


def same_index_type(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """Return both with the wider type of the two."""
    if first.dtype is second.dtype:
        return first, second
    wide = np.dtype(np.int64)
    return own(first.plain().astype(wide)), own(second.plain().astype(wide))


def value_tensor(what: ArrayLike, *, copy: bool = False) -> Tensor:
    """Return values as a tensor.

    Raises:
        DTypeError: strings, or elements that no tensor holds.
    """
    values = as_tensor(what, copy=copy)
    if values.dtype is DataType.STRING:
        raise DTypeError("values are strings, which nothing can be computed with")
    return values


def bucket_order(keys: Array, extent: int) -> Array:
    """Return the stable order that sorts indices, which are in [0, extent).

    NumPy sorts 16-bit integers by digits in linear time, so wider ones go through it digit by digit.
    """
    digits = max(1, -(-max(extent - 1, 1).bit_length() // 16))
    order = cast("Array", np.argsort(keys.astype(np.uint16), kind="stable"))
    for digit in range(1, digits):
        high = (keys[order] >> (16 * digit)).astype(np.uint16)
        order = order[np.argsort(high, kind="stable")]
    return order


def starts_of(sorted_rows: Array, rows: int, dtype: np.dtype[Any]) -> Array:
    """Return where each row begins among sorted row numbers, and at the end their number."""
    starts = new_array((rows + 1,), dtype, "starts of rows")
    starts[0] = 0
    np.cumsum(np.bincount(sorted_rows, minlength=rows), out=starts[1:])
    return starts
