"""Finding, ordering, choosing: the searching, sorting, set and indexing functions of the array-API standard.

Indices are int64. Sorting is stable. NaN comes last in ascending order and first in descending order.
Every function raises `ShapeError` for an axis that is not there.

Source: Python array API standard 2024.12, "Searching", "Sorting", "Set" and "Indexing functions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from tazza.array.views import flatten
from tazza.errors import ArgumentError, BoundsError, DTypeError, ShapeError
from tazza.tensor.attached import attached
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.promotion import kind_of
from tazza.tensor.tensor import Tensor

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "nonzero",
    "searchsorted",
    "sort",
    "take",
    "take_along_axis",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]


# -- searching ---------------------------------------------------------------------------------------------------------


@attached
def argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first greatest element (of a NaN, if there is one); `axis=None` as if flattened.

    Raises:
        ShapeError: there are no elements to choose from.
    """
    return _extreme(np.argmax, x, axis, keepdims)


@attached
def argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Return the index of the first least element; see `argmax`."""
    return _extreme(np.argmin, x, axis, keepdims)


def _extreme(choose: Callable[..., Any], x: Tensor, axis: int | None, keepdims: bool) -> Tensor:
    kind_of(x.dtype)
    along = None if axis is None else x.shape.canonical_axis(axis)
    if (x.size if along is None else x.shape[along]) == 0:
        where = "" if along is None else f" along axis {along}"
        raise ShapeError(f"{choose.__name__} of {x.shape}{where}: there is no element to choose from")
    return Tensor.from_numpy(np.asarray(choose(x.plain(), along, keepdims=keepdims), np.int64))


@attached
def nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """Return the indices of the elements that are not zero, in row-major order: one tensor an axis.

    Raises:
        ShapeError: the rank is 0.

    >>> [axis.tolist() for axis in nonzero(Tensor.from_numpy(np.array([[0, 3], [5, 0]])))]
    [[0, 1], [1, 0]]
    """
    if x.shape.rank == 0:
        raise ShapeError(f"{x.spec} of rank 0 has no axis to index", hint="x.reshape(1)")
    return tuple(Tensor.from_numpy(found.astype(np.int64)) for found in np.nonzero(x.plain()))


def searchsorted(
    x1: Tensor, x2: Tensor, /, *, side: Literal["left", "right"] = "left", sorter: Tensor | None = None
) -> Tensor:
    """Return where in the sorted `x1` each value of `x2` goes: before ("left") or after ("right") those equal to it.

    `sorter` holds the indices that sort an `x1` that is not.

    Raises:
        ArgumentError: another `side`.
        ShapeError: `x1` is not of rank 1.
    """
    if side not in ("left", "right"):
        raise ArgumentError(f"side {side!r} is neither 'left' nor 'right'")
    if x1.shape.rank != 1:
        raise ShapeError(f"x1 {x1.shape} has rank {x1.shape.rank} != 1")
    order = None if sorter is None else sorter.plain()
    found: Any = np.searchsorted(_comparable(x1), _comparable(x2), side, order)
    return Tensor.from_numpy(np.asarray(found, np.int64))


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return the parts of `x` at these indices (rank 1, negative ones from the end) along `axis`, copied.

    Raises:
        ShapeError: the indices are not of rank 1, or no axis is given for a rank other than 1.
        DTypeError: the indices are no integers.
        BoundsError: an index outside of the extent.

    >>> take(Tensor.from_numpy(np.arange(5)), Tensor.from_numpy(np.array([3, -1]))).tolist()
    [3, 4]
    """
    if axis is None and x.shape.rank != 1:
        raise ShapeError(f"take from {x.shape} of rank {x.shape.rank} != 1 needs an axis", hint="axis=0")
    along = x.shape.canonical_axis(0 if axis is None else axis)
    if indices.shape.rank != 1:
        raise ShapeError(f"indices {indices.shape} have rank {indices.shape.rank} != 1")
    return _taken(np.take, x, indices, along, (*x.shape[:along], indices.size, *x.shape[along + 1 :]))


def take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return for each index the element of `x` that it names along `axis`, copied; other axes broadcast.

    Raises:
        ShapeError: the ranks differ, or other axes do not broadcast.
        DTypeError: the indices are no integers.
        BoundsError: an index outside of the extent.

    >>> x, indices = Tensor.from_numpy(np.array([[10, 20], [30, 40]])), Tensor.from_numpy(np.array([[1], [0]]))
    >>> take_along_axis(x, indices).tolist()
    [[20], [30]]
    """
    along = x.shape.canonical_axis(axis)
    if indices.shape.rank != x.shape.rank:
        raise ShapeError(f"indices {indices.shape} of rank {indices.shape.rank} for {x.shape} of rank {x.shape.rank}")
    others = [Dim((*one[:along], *one[along + 1 :])) for one in (x.shape, indices.shape)]
    common = others[0].broadcast(others[1])
    extents = (*common[:along], indices.shape[along], *common[along:])
    return _taken(np.take_along_axis, x, indices, along, extents)


def _taken(
    function: Callable[..., npt.NDArray[Any]], x: Tensor, indices: Tensor, along: int, extents: tuple[int, ...]
) -> Tensor:
    if indices.dtype.is_float or indices.dtype in (DataType.BOOL, DataType.STRING):
        raise DTypeError(f"indices of type {indices.dtype} are no integers")
    result = Tensor(extents, x.dtype)
    try:
        result.array[...] = function(x.plain(), indices.plain(), along)
    except IndexError as error:
        raise BoundsError(f"take from axis {along} of {x.shape}: {error}") from error
    result.mark_written()
    return result


# -- sorting -----------------------------------------------------------------------------------------------------------


@attached
def sort(x: Tensor, /, *, axis: int | None = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the elements in ascending or descending order along `axis`; None: all of them, along one axis."""
    if axis is None:
        return sort(flatten(x), descending=descending, stable=stable)
    along = x.shape.canonical_axis(axis)
    result = Tensor(x.shape, x.dtype)
    ordered = np.sort(_comparable(x), along, kind="stable" if stable else None)
    result.array[...] = np.flip(ordered, along) if descending else ordered
    result.mark_written()
    return result


@attached
def argsort(x: Tensor, /, *, axis: int | None = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the indices along `axis` that sort; equal elements stay in their order, in descending order too.

    With None they are those of all elements, along one axis.
    """
    if axis is None:
        return argsort(flatten(x), descending=descending, stable=stable)
    along = x.shape.canonical_axis(axis)
    values = _comparable(x)
    if not descending:
        return Tensor.from_numpy(np.argsort(values, along, kind="stable" if stable else None).astype(np.int64))
    # The order of the mirrored elements, mirrored, keeps equal ones in their order.
    order = np.argsort(np.flip(values, along), along, kind="stable")
    return Tensor.from_numpy((x.shape[along] - 1 - np.flip(order, along)).astype(np.int64))


def _comparable(x: Tensor) -> npt.NDArray[Any]:
    """Return elements that NumPy sorts with NaN at the end: not bfloat16, which all fits float32."""
    kind_of(x.dtype)
    return x.plain().astype(np.float32) if x.dtype is DataType.BFLOAT16 else x.plain()


# -- sets --------------------------------------------------------------------------------------------------------------


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def unique_all(x: Tensor, /) -> UniqueAll:
    """Return the distinct elements in ascending order, where each is first, where each of `x` went, and how often.

    `indices` count the elements of `x` in row-major order; `inverse_indices` has the shape of `x`. NaN equals no other.
    """
    values, first, inverse, counts = np.unique(
        _comparable(x), return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    where = cast("npt.NDArray[Any]", inverse).reshape(x.shape)  # its shape varies with NumPy's version
    found = (Tensor.from_numpy(np.asarray(one, np.int64)) for one in (first, where, counts))
    return UniqueAll(Tensor.from_numpy(values.astype(x.dtype.numpy)), *found)


def unique_counts(x: Tensor, /) -> UniqueCounts:
    """Return the distinct elements in ascending order, and how often each occurs."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: Tensor, /) -> UniqueInverse:
    """Return the distinct elements in ascending order, and where among them each of `x` is."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: Tensor, /) -> Tensor:
    """Return the distinct elements in ascending order; each NaN is distinct."""
    return Tensor.from_numpy(np.unique(_comparable(x), equal_nan=False).astype(x.dtype.numpy))
