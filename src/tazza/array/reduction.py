"""Sums, extremes, means and the like over axes: the statistical and utility functions of the array-API standard.

`axis` is one axis, several, or None for all; with `keepdims` reduced axes stay with extent 1. Most are lazy expressions
with a reduction at the root, evaluated at once. Sums of floating-point numbers are added in float64, integers and
bools in int64; half precision never adds up in itself.

Every function raises `ShapeError` for an axis that is not there or twice, and `DTypeError` for strings.

Source: Python array API standard 2024.12, "Statistical functions" and "Utility functions".
"""

from __future__ import annotations

import math
from builtins import min as min_of
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from tazza.array.creation import FLOAT, INTEGER
from tazza.array.deferred import Lazy, lazy
from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.tensor.attached import attached
from tazza.tensor.dtype import DataType
from tazza.tensor.tensor import Tensor

Axis: TypeAlias = int | tuple[int, ...] | None
DType: TypeAlias = DataType | npt.DTypeLike | None

__all__ = [
    "all",
    "any",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]


@attached
def sum(x: Tensor, /, *, axis: Axis = None, dtype: DType = None, keepdims: bool = False) -> Tensor:
    """Return the sum; integers and bools give int64, floating-point types stay, unless `dtype` is given.

    >>> sum(Tensor.from_numpy(np.arange(6).reshape(2, 3)), axis=1).tolist()
    [3, 12]
    """
    return _as(_source(x, dtype).sum(axis, keepdims=keepdims), dtype)


@attached
def prod(x: Tensor, /, *, axis: Axis = None, dtype: DType = None, keepdims: bool = False) -> Tensor:
    """Return the product; types as for `sum`. That of no elements is 1."""
    return _as(_source(x, dtype).prod(axis, keepdims=keepdims), dtype)


@attached
def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the sum divided by the number of elements, NaN for none; integers and bools give float32."""
    exact = x.dtype if x.dtype.is_float else DataType.DOUBLE
    found = _source(x, exact).mean(axis, keepdims=keepdims)
    return _as(found, x.dtype if x.dtype.is_float else FLOAT)


@attached
def max(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the greatest element, NaN if there is one; raises `ShapeError` where there are no elements."""
    return lazy(x).max(axis, keepdims=keepdims).evaluate()


@attached
def min(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return the least element, NaN if there is one; raises `ShapeError` where there are no elements."""
    return lazy(x).min(axis, keepdims=keepdims).evaluate()


@attached
def any(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether an element is not zero (NaN is not); false for no elements."""
    return lazy(x).any(axis, keepdims=keepdims).evaluate()


@attached
def all(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether no element is zero; true for no elements."""
    return lazy(x).all(axis, keepdims=keepdims).evaluate()


@attached
def var(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Return sum((x - mean(x))**2) / (n - correction) of the n elements, computed in float64 in two passes.

    Integers and bools give float32. NaN or infinity where n <= correction.
    """
    n = math.prod(x.shape[k] for k in _axes(x, axis))
    exact = lazy(x).cast(DataType.DOUBLE)
    centre = exact.mean(axis, keepdims=True).evaluate()
    squares = (exact - centre) ** 2
    total = squares.sum(axis, keepdims=keepdims).evaluate()
    freedom = n - correction
    result = lazy(total) / (freedom if freedom > 0 else 0.0)
    return result.cast(x.dtype if x.dtype.is_float else FLOAT).evaluate()


@attached
def std(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """Return the square root of `var`."""
    from tazza.array.elementwise import sqrt

    return sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def count_nonzero(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Return how many elements are not zero (NaN is not), as int64.

    >>> count_nonzero(Tensor.from_numpy(np.array([[0, 2, 3], [0, 0, 5]])), axis=0).tolist()
    [0, 1, 2]
    """
    return lazy(x).cast(DataType.BOOL).sum(axis, keepdims=keepdims).evaluate()


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: DType = None, include_initial: bool = False
) -> Tensor:
    """Return the sum of all elements up to each one along `axis`; with `include_initial` a zero comes first.

    Types as for `sum`; half precision adds up in float32.

    Raises:
        ShapeError: no axis is given for a rank other than 1.

    >>> cumulative_sum(Tensor.from_numpy(np.array([1, 2, 3])), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    return _cumulated(np.add, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: DType = None, include_initial: bool = False
) -> Tensor:
    """Return the product of all elements up to each one along `axis`; with `include_initial` a one comes first.

    Types as for `prod`; half precision is multiplied in float32.

    Raises:
        ShapeError: no axis is given for a rank other than 1.

    >>> cumulative_prod(Tensor.from_numpy(np.array([2, 3, 5])), include_initial=True).tolist()
    [1, 2, 6, 30]
    """
    return _cumulated(np.multiply, x, axis, dtype, include_initial)


def _cumulated(function: np.ufunc, x: Tensor, axis: int | None, dtype: DType, include_initial: bool) -> Tensor:
    name = f"cumulative {function.__name__}"
    if axis is None and x.shape.rank != 1:
        raise ShapeError(f"{name} of {x.shape} of rank {x.shape.rank} != 1 needs an axis", hint="axis=0")
    along = x.shape.canonical_axis(0 if axis is None else axis)
    source = _source(x, dtype).evaluate() if dtype is not None else x
    if source.dtype is DataType.STRING:
        raise DTypeError(f"{name} does not take strings")
    found = source.dtype if source.dtype.is_float or dtype is not None else INTEGER
    wide = np.float32 if found.itemsize == 2 and found.is_float else found.numpy
    extents = [extent + include_initial * (k == along) for k, extent in enumerate(x.shape)]
    result = Tensor(extents, found)
    if include_initial:
        result.array[_at(x, along, 0)] = function.identity
    with np.errstate(all="ignore"):  # an overflow is an infinity
        result.array[_at(x, along, slice(int(include_initial), None))] = function.accumulate(
            source.plain(), along, wide
        )
    result.mark_written()
    return result


def diff(
    x: Tensor, /, *, axis: int = -1, n: int = 1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Return the differences of neighbours along `axis`, taken `n` times; integers wrap around as they do in `-`.

    `prepend` and `append` are put before and behind x first; `n=0` is x.

    Raises:
        ArgumentError: n is negative.

    >>> diff(Tensor.from_numpy(np.array([1, 4, 9, 16])), n=2).tolist()
    [2, 2]
    """
    from tazza.array.elementwise import not_equal, subtract
    from tazza.array.manipulation import concat

    if n < 0:
        raise ArgumentError(f"n = {n} differences are less than 0")
    along = x.shape.canonical_axis(axis)
    if n == 0:
        return x.copy()
    parts = [part for part in (prepend, x, append) if part is not None]
    found = concat(parts, axis=along) if len(parts) > 1 else x.copy()
    step = not_equal if found.dtype is DataType.BOOL else subtract
    for _ in range(min_of(n, found.shape[along])):
        ahead, behind = (found[_at(found, along, part)] for part in (slice(1, None), slice(None, -1)))
        found = step(ahead, behind)
    return found


def _at(x: Tensor, along: int, part: int | slice) -> tuple[int | slice, ...]:
    """Return the index of a part of one axis."""
    return tuple(part if k == along else slice(None) for k in range(x.shape.rank))


def _source(x: Tensor, dtype: DType) -> Lazy:
    return lazy(x) if dtype is None else lazy(x).cast(DataType.of(dtype))


def _as(found: Lazy, dtype: DType) -> Tensor:
    """Evaluate, and convert what is then small."""
    result = found.evaluate()
    wanted = result.dtype if dtype is None else DataType.of(dtype)
    return result if wanted is result.dtype else lazy(result).cast(wanted).evaluate()


def _axes(x: Tensor, axis: Axis) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(x.shape.rank))
    return tuple(x.shape.canonical_axis(one) for one in ((axis,) if isinstance(axis, int) else axis))
