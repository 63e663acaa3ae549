"""Whether two whole tensors are equal, exactly or nearly."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.errors import DTypeError
from tazza.tensor.dtype import DataType
from tazza.tensor.tensor import Tensor

__all__ = ["allclose", "array_equal"]


def array_equal(x: Tensor, y: Tensor, /, *, equal_nan: bool = False) -> bool:
    """Whether shape, element type and all elements are equal; NaN equals NaN with `equal_nan` only.

    >>> x = Tensor.from_numpy(np.arange(3)); array_equal(x, x[:]), array_equal(x, x[:2])
    (True, False)
    """
    if x.dtype is not y.dtype or x.shape != y.shape:
        return False
    mine, theirs = x.plain(), y.plain()
    same: Any = mine == theirs
    if equal_nan and x.dtype.is_float:
        same |= (mine != mine) & (theirs != theirs)  # only NaN differs from itself
    return bool(np.all(same))


def allclose(x: Tensor, y: Tensor, /, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether |x - y| <= atol + rtol * |y| for all elements, which broadcast and may be of two types.

    It is computed in float64. Infinities are close to themselves.

    Raises:
        DTypeError: strings.
        ShapeError: the shapes do not broadcast.
    """
    if DataType.STRING in (x.dtype, y.dtype):
        raise DTypeError("strings are not nearly equal", hint="array_equal compares them")
    x.shape.broadcast(y.shape)
    mine, theirs = (t.plain().astype(np.float64) for t in (x, y))
    return bool(np.allclose(mine, theirs, rtol, atol, equal_nan))
