"""Which element type comes out of two: the rules of the Python array-API standard, else those of NumPy.

Within a kind (bool, integers, floating point) the result is the smallest type that holds both. The standard says
nothing of two kinds: as in NumPy the higher one wins, in a width that holds the values of the lower one (int32 with
float32 gives float64). bfloat16 counts as wide as float16, and the two of them give float32. A Python number has no
width: it takes the type of the array, and one of a higher kind is refused.

Source: Python array API standard 2024.12, "Type promotion rules"; NumPy Enhancement Proposal 50.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from tazza.errors import ArgumentError, DTypeError
from tazza.tensor.dtype import DataType

if TYPE_CHECKING:
    from typing import Any

__all__ = ["float_type", "kind_of", "promote", "result_type"]

BOOL, INTEGER, FLOATING = range(3)
_KINDS = ("bool", "integers", "floating point")
_SCALARS: dict[type, int] = {bool: BOOL, int: INTEGER, float: FLOATING}
_ALONE = (DataType.BOOL, DataType.INT64, DataType.DOUBLE)
"""What Python numbers alone give, by kind."""


class Typed(Protocol):
    """A tensor or a lazy expression."""

    @property
    def dtype(self) -> DataType:
        """Its element type."""
        ...


Operand: TypeAlias = "DataType | Typed | npt.NDArray[Any] | np.generic | bool | int | float"


@functools.cache
def kind_of(dtype: DataType) -> int:
    """Return 0 for bool, 1 for integers, 2 for floating point.

    Raises:
        DTypeError: strings are none of these.
    """
    if dtype is DataType.STRING:
        raise DTypeError("strings are not computed with", hint="compare them with ta.equal, or convert them to numbers")
    if dtype is DataType.BOOL:
        return BOOL
    return FLOATING if dtype.is_float else INTEGER


@functools.cache
def promote(a: DataType, b: DataType) -> DataType:
    """Return the type of a result of two operands.

    Raises:
        DTypeError: one of them is a string.

    >>> promote(DataType.INT8, DataType.UINT8), promote(DataType.BFLOAT16, DataType.FLOAT16)
    (DataType.INT16, DataType.FLOAT)
    """
    for one in (a, b):
        kind_of(one)  # no strings
    if a is b:
        return a
    if DataType.BFLOAT16 in (a, b):
        other = b if a is DataType.BFLOAT16 else a
        narrow = kind_of(other) != FLOATING and other.itemsize == 1
        return DataType.BFLOAT16 if narrow else promote(DataType.FLOAT, other)
    return DataType.of(np.promote_types(a.numpy, b.numpy))


@functools.cache
def float_type(dtype: DataType) -> DataType:
    """Return what a function such as exp gives: floating point stays, integers take the smallest that holds them.

    >>> float_type(DataType.INT16), float_type(DataType.BFLOAT16)
    (DataType.FLOAT, DataType.BFLOAT16)
    """
    return dtype if kind_of(dtype) == FLOATING else promote(dtype, DataType.FLOAT16)


def result_type(*operands: Operand) -> DataType:
    """Return the type of a result of types, arrays and Python numbers.

    Raises:
        DTypeError: a Python number is of a higher kind than all arrays (1.5 with integers), or an operand is no number.
        ArgumentError: there is no operand.

    >>> result_type(DataType.INT16, 3), result_type(DataType.FLOAT16, 2.5), result_type(1, 2.5)
    (DataType.INT16, DataType.FLOAT16, DataType.DOUBLE)
    """
    if not operands:
        raise ArgumentError("result_type takes at least 1 operand, it got 0")
    found: DataType | None = None
    kind, strongest = BOOL, None
    for one in operands:
        scalar = _SCALARS.get(type(one))
        if scalar is None:
            dtype = _dtype_of(one)
            found = dtype if found is None else promote(found, dtype)
        elif strongest is None or scalar > kind:
            kind, strongest = scalar, one
    if found is None:
        return _ALONE[kind]
    if strongest is not None and kind > kind_of(found):
        raise DTypeError(
            f"the Python number {strongest!r} is of the kind {_KINDS[kind]}, the array's {found} is not",
            hint=f"cast the array, or give the number a width: np.{_ALONE[kind]}({strongest!r})",
        )
    kind_of(found)
    return found


def _dtype_of(operand: Operand) -> DataType:
    if isinstance(operand, DataType):
        return operand
    dtype = getattr(operand, "dtype", None)
    if isinstance(dtype, DataType):
        return dtype
    if isinstance(dtype, np.dtype):
        return DataType.of(dtype)  # pyright: ignore[reportUnknownArgumentType] -- a dtype of whatever scalar
    raise DTypeError(f"{type(operand).__name__} is neither an array, an element type nor a real number")


@functools.cache
def can_cast(source: DataType, target: DataType) -> bool:
    """Whether a result may be written into an array of type `target` without being asked: the kind is not lowered.

    >>> can_cast(DataType.DOUBLE, DataType.FLOAT16), can_cast(DataType.FLOAT, DataType.INT64)
    (True, False)
    """
    return kind_of(source) <= kind_of(target)
