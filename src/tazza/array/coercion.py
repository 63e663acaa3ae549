"""What Python numbers, and lists of them, become: one rule wherever they are given, that of `asarray`.

Floats become float32, integers int64, bools bool. Beside a tensor or an array they take its element type, if that is of
their kind or a higher one. Arrays keep their type. Only `run_op` differs: operators of nets take integers as int32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tazza.errors import DTypeError, ShapeError
from tazza.tensor.attached import attached
from tazza.tensor.dtype import DataType
from tazza.tensor.tensor import Tensor

_KINDS = "biuf"
_NARROW = {"f": np.dtype(np.float32), "i": np.dtype(np.int64)}


def values_of(values: Any) -> npt.NDArray[Any]:
    """Return Python values as an array of the type that they have alone; others as NumPy sees them.

    >>> values_of([1.0]).dtype, values_of(2).dtype, values_of(np.float64(1)).dtype
    (dtype('float32'), dtype('int64'), dtype('float64'))

    Raises:
        ShapeError: nested lists of different lengths.
    """
    try:
        array: npt.NDArray[Any] = np.asarray(values)
    except ValueError as error:
        raise ShapeError(f"nested lists are no array: {error}", hint="make inner lists equally long") from error
    narrow = _NARROW.get(array.dtype.kind) if is_python(values) else None
    return array if narrow is None else array.astype(narrow, copy=False)


@attached
def values_beside(values: Any, other: Any) -> Any:
    """Return Python values as an array of the type of a tensor or array beside them; anything else as it is.

    >>> values_beside([1, 2], np.float64([3.0])).dtype, values_beside([0.5], np.int32([3])).dtype
    (dtype('float64'), dtype('float32'))

    Raises:
        DTypeError: an integer does not fit.
    """
    if not is_python(values):
        return values
    array = values_of(values)
    if not isinstance(other, (Tensor, np.ndarray, np.generic)):
        return array
    kind = DataType.of(cast("Any", other).dtype)
    target = kind.numpy
    if kind is DataType.STRING or array.dtype.kind not in _KINDS:
        return array
    floats, integers = kind.is_float, target.kind in "iu"
    if not floats and (array.dtype.kind == "f" or (array.dtype.kind != "b" and not integers)):
        return array  # of a higher kind than its neighbour
    if floats:
        return np.asarray(values, np.float64).astype(target)
    limits = np.iinfo(target) if integers else None
    if limits is not None and array.size > 0 and not limits.min <= array.min() <= array.max() <= limits.max:
        raise DTypeError(f"{array.min()} to {array.max()} do not fit into {kind}, the type of the tensor beside them")
    return array.astype(target)


def is_python(values: Any) -> bool:
    """Whether these are Python numbers, or sequences of whatever, rather than arrays or scalars of NumPy."""
    if isinstance(values, (np.generic, np.ndarray, Tensor, str, bytes)):
        return False
    return isinstance(values, (bool, int, float, Sequence))
