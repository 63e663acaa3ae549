"""What methods of arrays do beyond the functions of the array-API standard: NumPy's forms of them.

Source: NumPy 2, `numpy.ndarray`.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tazza.array.creation import asarray
from tazza.array.elementwise import multiply
from tazza.array.elementwise import round as nearest
from tazza.array.linear_algebra import matmul, tensordot
from tazza.array.reduction import cumulative_prod, cumulative_sum
from tazza.array.searching import searchsorted
from tazza.array.views import flatten
from tazza.errors import BoundsError
from tazza.tensor.attached import attached
from tazza.tensor.dtype import DataType
from tazza.tensor.tensor import Tensor

__all__: list[str] = []
"""Nothing: these are methods, and functions of other modules do the same for who calls functions."""


@attached
def cumulated(what: Literal["sum", "prod"], x: Tensor, axis: int | None, dtype: DataType | npt.DTypeLike) -> Tensor:
    """Return sums or products up to each element; `axis=None` flattens first."""
    function = cumulative_sum if what == "sum" else cumulative_prod
    return function(flatten(x), axis=0, dtype=dtype) if axis is None else function(x, axis=axis, dtype=dtype)


@attached
def rounded(x: Tensor, decimals: int) -> Tensor:
    """Return the elements rounded to `decimals`; below 0 to tens, hundreds and so on, integers too.

    >>> rounded(Tensor.from_numpy(np.float32([0.125, 2.71])), 1).tolist() == np.float32([0.1, 2.7]).tolist()
    True
    """
    if decimals == 0 or (decimals > 0 and not x.dtype.is_float):
        return nearest(x)
    if x.dtype is DataType.BFLOAT16:
        return Tensor.from_numpy(np.round(x.plain().astype(np.float32), decimals).astype(x.dtype.numpy))
    return Tensor.from_numpy(np.asarray(np.round(x.plain(), decimals)))


@attached
def dot(a: Tensor, b: Any) -> Tensor:
    """Return the sum of products over the last axis of `a` and the last but one of `b`; numbers multiply."""
    other = asarray(b)
    if not a.shape.rank or not other.shape.rank:
        return multiply(a, other)
    if other.shape.rank <= 2:
        return matmul(a, other)
    return tensordot(a, other, axes=([a.shape.rank - 1], [other.shape.rank - 2]))


@attached
def taken(x: Tensor, indices: Any, axis: int | None) -> Tensor:
    """Return the parts at `indices`, of any shape, along an axis; `axis=None` flattens first.

    Raises:
        BoundsError: an index outside of the extent.
    """
    wanted = np.asarray(indices.plain() if isinstance(indices, Tensor) else indices, np.int64)
    along = None if axis is None else x.shape.canonical_axis(axis)
    try:
        return Tensor.from_numpy(np.asarray(np.take(x.plain(), wanted, along)))
    except IndexError as error:
        raise BoundsError(f"{x.spec}: {error}") from error


@attached
def places_in_order(x: Tensor, values: Any, side: Literal["left", "right"], sorter: Any) -> Tensor:
    """Return where in the sorted `x` each of `values`, of any shape, goes."""
    order = None if sorter is None else asarray(sorter)
    return searchsorted(x, asarray(values), side=side, sorter=order)
