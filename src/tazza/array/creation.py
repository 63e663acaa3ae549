"""New tensors: from values, filled, in sequence. Those of the Python array-API standard, and `array`.

Where no element type is given, floating-point values are float32 and integers int64. `device` is a place or its text
("cpu", "pinned"); None is the CPU. Every function raises `DTypeError` for an element type that no tensor has,
`ShapeError` for an extent below 0, and `OutOfMemoryError`.

Source: Python array API standard 2024.12, "Creation functions".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, SupportsIndex, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from tazza.array.views import broadcast_to, check_range, value_for
from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.place import CPUPlace, Place
from tazza.tensor.tensor import Tensor
from tazza.tensor.transfer import to_place

Shape: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
DType: TypeAlias = DataType | npt.DTypeLike | None
Device: TypeAlias = Place | str | None
Number: TypeAlias = bool | int | float

__all__ = [
    "arange",
    "array",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]

FLOAT, INTEGER = DataType.FLOAT, DataType.INT64
"""Element types of Python's numbers where nobody names one."""

_DEFAULTS = {"b": DataType.BOOL, "i": INTEGER, "f": FLOAT, "U": DataType.STRING, "S": DataType.STRING}


def asarray(obj: Any, /, *, dtype: DType = None, device: Device = None, copy: bool | None = None) -> Tensor:
    """Return `obj` as a tensor: a tensor, an array of NumPy or of a library with DLPack, a buffer, a number, lists.

    `copy=None` shares memory where type, place and order of bytes allow, `False` always, `True` never. A tensor that
    fits is returned itself.

    Raises:
        ArgumentError: `copy=False`, and only a copy would do.
        DTypeError: no tensor holds such values.

    >>> asarray([[1, 2], [3, 4]])
    Tensor([[1, 2],
            [3, 4]], dtype=int64)
    """
    kind = None if dtype is None else DataType.of(dtype)
    where = _place(device)
    source = obj if isinstance(obj, Tensor) else _of_foreign(obj, kind, copy)
    same_type = kind is None or kind is source.dtype
    same_place = device is None or where == source.place
    if same_type and same_place:
        return source.copy() if copy is True and source is obj else source
    if copy is False:
        target = f"{source.dtype if kind is None else kind} at {where}"
        raise ArgumentError(f"{source.spec} becomes {target} only as a copy", hint="copy=None, or True")
    if not same_type:
        converted = Tensor(source.shape, cast("DataType", kind))
        convert_into(converted, source.plain())
        source = converted
    return to_place(source, where) if device is not None else source


def array(obj: Any, /, *, dtype: DType = None, device: Device = None) -> Tensor:
    """Return a copy of `obj` as a tensor; see `asarray`."""
    return asarray(obj, dtype=dtype, device=device, copy=True)


def convert_into(target: Tensor, source: npt.NDArray[Any]) -> None:
    """Write elements of another type, as NumPy's `astype` gives them.

    Raises:
        DTypeError: text into numbers, or numbers into text.
    """
    is_text = source.dtype.kind in "OUS"
    if is_text != (target.dtype is DataType.STRING):
        raise DTypeError(f"{source.dtype} does not convert to {target.dtype}", hint="text and numbers stay apart")
    with np.errstate(all="ignore"):  # an infinity that becomes an integer is what astype says it is
        np.copyto(target.array, source, casting="unsafe")
    target.mark_written()


def _place(device: Device) -> Place:
    if device is None:
        return CPUPlace()
    return Place.parse(device) if isinstance(device, str) else device


def _of_foreign(obj: Any, dtype: DataType | None, copy: bool | None) -> Tensor:
    """Return a tensor over, or with, the values of something that is none."""
    if isinstance(obj, np.ndarray | np.generic):
        found = np.asarray(cast("npt.NDArray[Any]", obj))
    elif hasattr(obj, "__dlpack__"):
        from tazza.tensor.interchange import from_dlpack

        return from_dlpack(obj, copy=copy)
    elif _has_buffer(obj):
        found = np.asarray(obj)
    else:
        if copy is False:
            raise ArgumentError(f"{type(obj).__name__} has no memory to share", hint="copy=None, or True")
        return _of_values(obj, dtype)
    return Tensor.from_numpy(found, copy=copy)


def _has_buffer(obj: object) -> bool:
    if hasattr(obj, "__array_interface__") or hasattr(obj, "__array__"):
        return True
    if isinstance(obj, str | bytes):
        return False
    try:
        memoryview(cast("bytes", obj))
    except TypeError:
        return False
    return True


def _of_values(obj: Any, dtype: DataType | None) -> Tensor:
    """Return the tensor of numbers, text, or nested sequences of them."""
    if dtype is DataType.STRING:
        return Tensor.from_numpy(np.asarray(obj, object))
    try:
        # As they are first: float32 would round integers beyond 2**24.
        values = np.asarray(obj)
    except (ValueError, TypeError) as error:
        raise ShapeError(f"the values are no array: {error}", hint="nested lists of equal lengths") from error
    if dtype is not None and values.dtype.kind in _DEFAULTS:
        check_range(values, dtype)
        converted = Tensor(values.shape, dtype)
        convert_into(converted, values)
        return converted
    if values.dtype.kind not in _DEFAULTS:
        return Tensor.from_numpy(values)  # says what is wrong with the type
    kind = _DEFAULTS[values.dtype.kind]
    # Text of NumPy loses zero bytes at its end.
    return Tensor.from_numpy(np.asarray(obj, object) if kind is DataType.STRING else values.astype(kind.numpy))


# -- filled ------------------------------------------------------------------------------------------------------------


def empty(shape: Shape, *, dtype: DType = None, device: Device = None) -> Tensor:
    """Return a tensor whose content is undefined; the memory is taken by the first touch."""
    dims = (shape,) if hasattr(type(shape), "__index__") else shape
    return Tensor(cast("Sequence[SupportsIndex]", dims), FLOAT if dtype is None else DataType.of(dtype), _place(device))


def full(shape: Shape, fill_value: Number | str | bytes, *, dtype: DType = None, device: Device = None) -> Tensor:
    """Return a tensor of one value; without `dtype` the value's kind decides.

    Raises:
        DTypeError: the value is of a higher kind than `dtype`.

    >>> full((2,), 7), full((), 0.5).dtype
    (Tensor([7, 7], dtype=int64), DataType.FLOAT)
    """
    kind = _kind_of(fill_value) if dtype is None else DataType.of(dtype)
    result = empty(shape, dtype=kind, device=device)
    if not result.place.is_host:
        return to_place(full(shape, fill_value, dtype=kind), result.place)
    result.array[...] = value_for(result, fill_value)
    result.mark_written()
    return result


def _kind_of(value: object) -> DataType:
    kind = np.asarray(value).dtype.kind
    if kind not in _DEFAULTS:
        raise DTypeError(f"{value!r} is no element of a tensor", hint="give a number, a bool or text")
    return _DEFAULTS[kind]


def zeros(shape: Shape, *, dtype: DType = None, device: Device = None) -> Tensor:
    """Return a tensor of zeros (float32)."""
    return full(shape, False, dtype=FLOAT if dtype is None else dtype, device=device)


def ones(shape: Shape, *, dtype: DType = None, device: Device = None) -> Tensor:
    """Return a tensor of ones (float32)."""
    return full(shape, True, dtype=FLOAT if dtype is None else dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: DType = None, device: Device = None) -> Tensor:
    """Return a row-major tensor of the shape of `x`, and of its type and at its place unless others are given."""
    return empty(x.shape, dtype=x.dtype if dtype is None else dtype, device=x.place if device is None else device)


def full_like(x: Tensor, /, fill_value: Number, *, dtype: DType = None, device: Device = None) -> Tensor:
    """Return a tensor of one value like `x`; see `empty_like` and `full`."""
    kind, where = x.dtype if dtype is None else dtype, x.place if device is None else device
    return full(x.shape, fill_value, dtype=kind, device=where)


def zeros_like(x: Tensor, /, *, dtype: DType = None, device: Device = None) -> Tensor:
    """Return zeros like `x`; see `empty_like`."""
    return full_like(x, False, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: DType = None, device: Device = None) -> Tensor:
    """Return ones like `x`; see `empty_like`."""
    return full_like(x, True, dtype=dtype, device=device)


# -- in sequence -------------------------------------------------------------------------------------------------------


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: DType = None, device: Device = None
) -> Tensor:
    """Return `start + i * step` for all i >= 0 for which that lies before `stop`; `arange(n)` counts from 0.

    Raises:
        ArgumentError: `step` is 0, or one of the numbers is not finite.
        ShapeError: that are too many.
        DTypeError: an integer is beyond 64 bits.

    >>> arange(2, 8, 3)
    Tensor([2, 5], dtype=int64)
    """
    first, end = (0, start) if stop is None else (start, stop)
    if not all(isinstance(value, int) or math.isfinite(value) for value in (first, end, step)):
        raise ArgumentError(f"arange from {first} to {end} by {step} is not between finite numbers")
    if step == 0:
        raise ArgumentError("step == 0: the range would not end", hint="a step is not 0")
    whole = all(isinstance(value, int) for value in (first, end, step))
    kind = (INTEGER if whole else FLOAT) if dtype is None else DataType.of(dtype)
    length = _length(first, end, step, whole)
    exact = empty((length,), dtype=INTEGER if whole else DataType.DOUBLE)
    values = exact.array  # an impossible length is told here
    if length > 0:
        last = first + (length - 1) * step
        beyond = next((value for value in (first, last) if whole and not -(2**63) <= value < 2**63), None)
        if beyond is not None:
            raise DTypeError(f"{beyond} does not fit {INTEGER}", hint="give floating-point numbers")
        values[...] = np.arange(length, dtype=values.dtype) * (step if length > 1 else 0) + first
    return asarray(exact, dtype=kind, device=device)


def _length(first: float, end: float, step: float, whole: bool) -> int:
    """Return how many values lie from `first` to before `end`."""
    if whole:
        return max(0, int(-((first - end) // step)))
    if first >= end if step > 0 else first <= end:
        return 0
    try:
        # A quotient that underflows still stands for the first element.
        return max(1, math.ceil((end - first) / step))
    except OverflowError as error:
        raise ShapeError(f"arange from {first} to {end} by {step} has too many elements") from error


def linspace(
    start: float,
    stop: float,
    /,
    num: int,
    *,
    dtype: DType = None,
    device: Device = None,
    endpoint: bool = True,
) -> Tensor:
    """Return `num` values evenly from `start` to `stop`, which is the last one, or just not with `endpoint=False`.

    Raises:
        ShapeError: `num` < 0.

    >>> linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if num < 0:
        raise ShapeError(f"num {num} < 0", hint="a number of elements is 0 or more")
    exact = np.linspace(start, stop, num, endpoint=endpoint, dtype=np.float64)
    return asarray(Tensor.from_numpy(exact), dtype=FLOAT if dtype is None else dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType = None, device: Device = None) -> Tensor:
    """Return a matrix of ones on diagonal `k` (above the main one for k > 0), zeros elsewhere.

    >>> eye(2, 3, k=1, dtype="int32").tolist()
    [[0, 1, 0], [0, 0, 1]]
    """
    result = zeros((n_rows, n_rows if n_cols is None else n_cols), dtype=dtype)
    columns = result.shape[1]
    if -n_rows < k < columns:
        first = k if k >= 0 else -k * columns
        result.array.reshape(-1)[first : max(columns - k, 0) * columns : columns + 1] = True
    return to_place(result, _place(device))


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return a copy with zeros above diagonal `k` of the last two axes; raises `ShapeError` for a rank below 2."""
    return _triangle(x, k, lower=True)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """Return a copy with zeros below diagonal `k` of the last two axes; raises `ShapeError` for a rank below 2."""
    return _triangle(x, k, lower=False)


def _triangle(x: Tensor, k: int, *, lower: bool) -> Tensor:
    if x.shape.rank < 2:
        raise ShapeError(f"{x.shape} of rank {x.shape.rank} < 2 has no triangles", hint="give a matrix")
    below = np.tri(x.shape[-2], x.shape[-1], k if lower else k - 1, dtype=bool)
    result = Tensor.from_numpy(x.plain())
    result.array[..., ~below if lower else below] = False
    return result


def meshgrid(*arrays: Tensor, indexing: str = "xy") -> list[Tensor]:
    """Return one tensor a coordinate, all of the shape of the grid: stretched views, which nobody can write to.

    With "ij" axis k is coordinate k; with "xy" the first two axes are swapped.

    Raises:
        ArgumentError: another `indexing`.
        ShapeError: a coordinate is not of rank 1.
        DTypeError: the coordinates are of several types.
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"indexing {indexing!r} is neither 'xy' nor 'ij'")
    wrong = next((x for x in arrays if x.shape.rank != 1), None)
    if wrong is not None:
        raise ShapeError(f"coordinates {wrong.shape} have rank {wrong.shape.rank} != 1")
    if len({x.dtype for x in arrays}) > 1:
        raise DTypeError(f"coordinates have the types {', '.join(str(x.dtype) for x in arrays)}", hint="take one type")
    rank = len(arrays)
    order = list(range(rank))
    if indexing == "xy" and rank > 1:
        order[:2] = (1, 0)
    extents = [0] * rank
    for axis, x in zip(order, arrays, strict=True):
        extents[axis] = x.shape[0]
    grid = Dim(extents)
    lines = [x.reshape([-1 if k == axis else 1 for k in range(rank)]) for axis, x in zip(order, arrays, strict=True)]
    return [broadcast_to(line, grid) for line in lines]
