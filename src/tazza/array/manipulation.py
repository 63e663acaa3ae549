"""Joining, repeating and moving elements: what cannot be a view, and views of several tensors at once.

Every function raises `ShapeError` for an axis that is not there and for shapes that do not fit.

Source: Python array API standard 2024.12, "Manipulation functions" (those that are views are in views.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from tazza.array.views import broadcast_to, expand_dims, flatten
from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.tensor.attached import attached
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.promotion import result_type
from tazza.tensor.tensor import Tensor

__all__ = ["broadcast_arrays", "concat", "flip", "repeat", "roll", "stack", "tile", "unstack"]


def broadcast_arrays(*arrays: Tensor) -> list[Tensor]:
    """Return views of one shape, to which all are stretched; nobody can write to those that were."""
    shape = Dim()
    for x in arrays:
        shape = shape.broadcast(x.shape)
    return [broadcast_to(x, shape) for x in arrays]


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """Return the tensors one after the other along an axis; `None` flattens them first. The types are promoted.

    >>> concat([Tensor.from_numpy(np.arange(2)), Tensor.from_numpy(np.arange(3))]).tolist()
    [0, 1, 0, 1, 2]
    """
    given = [flatten(x) for x in arrays] if axis is None else list(arrays)
    dtype = _joint_type(given)
    along = given[0].shape.canonical_axis(0 if axis is None else axis)
    rests = [(*x.shape[:along], *x.shape[along + 1 :]) for x in given]
    for x, rest in zip(given, rests, strict=True):
        if rest != rests[0] or x.shape.rank != given[0].shape.rank:
            raise ShapeError(
                f"{x.shape} does not continue {given[0].shape} along axis {along}", hint="others are equal"
            )
    length = sum(x.shape[along] for x in given)
    result = Tensor((*rests[0][:along], length, *rests[0][along:]), dtype)
    np.concatenate([x.plain() for x in given], axis=along, out=result.array, casting="unsafe")
    result.mark_written()
    return result


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """Return the tensors, all of one shape, along a new axis of the result."""
    wrong = next((x for x in arrays if x.shape != arrays[0].shape), None)
    if wrong is not None:
        raise ShapeError(f"{wrong.shape} cannot be stacked on {arrays[0].shape}", hint="all shapes are one")
    return concat([expand_dims(x, axis=axis) for x in arrays], axis=axis)


def _joint_type(arrays: Sequence[Tensor]) -> DataType:
    if not arrays:
        raise ArgumentError("0 tensors have no element type", hint="give one or more")
    kinds = {x.dtype for x in arrays}
    if len(kinds) == 1:
        return kinds.pop()
    if DataType.STRING in kinds:
        raise DTypeError(f"types {', '.join(sorted(map(str, kinds)))} cannot be joined", hint="text joins only text")
    return result_type(*kinds)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the parts along an axis, as views without that axis."""
    before: tuple[slice, ...] = (slice(None),) * x.shape.canonical_axis(axis)
    return tuple(x[(*before, i)] for i in range(x.shape[axis]))


def flip(x: Tensor, /, *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return a copy in reverse order along these axes, all of them for None. Tensors have no steps below 0."""
    axes = range(x.shape.rank) if axis is None else (axis,) if isinstance(axis, int) else axis
    turned = {x.shape.canonical_axis(one) for one in axes}
    backwards, forwards = slice(None, None, -1), slice(None)
    return _copied(x.plain()[tuple(backwards if k in turned else forwards for k in range(x.shape.rank))])


def roll(x: Tensor, /, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Return a copy whose elements moved on by `shift`, the last ones to the front; `axis=None` as if flattened."""
    return _copied(np.roll(x.plain(), cast("Any", shift), cast("Any", _checked(x, axis))))


@attached
def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return each element (or part along `axis`) several times in a row; `axis=None` flattens first.

    Raises:
        ArgumentError: a number of repeats is negative.
        ShapeError: there are not as many numbers as parts, nor one.
    """
    source = flatten(x) if axis is None else x
    along = source.shape.canonical_axis(0 if axis is None else axis)
    times = np.asarray(repeats.plain() if isinstance(repeats, Tensor) else repeats)
    if times.dtype.kind not in "iu":
        raise DTypeError(f"repeats of type {times.dtype} are no integers")
    if times.size > 0 and times.min() < 0:
        raise ArgumentError(f"{times.min()} repeats < 0", hint="0 drops an element")
    if times.shape not in ((), (1,), (source.shape[along],)):
        raise ShapeError(f"repeats {Dim(times.shape)} for the {source.shape[along]} parts along axis {along}")
    return _copied(np.repeat(source.plain(), times, along))


def tile(x: Tensor, repetitions: Sequence[int], /) -> Tensor:
    """Return `x` laid out side by side, `repetitions[k]` times along axis k; axes in front are added where one lacks.

    >>> tile(Tensor.from_numpy(np.arange(2)), (2, 2)).tolist()
    [[0, 1, 0, 1], [0, 1, 0, 1]]
    """
    times = Dim(repetitions)
    rank = max(len(times), x.shape.rank)
    counts = (1,) * (rank - len(times)) + times
    extents = (1,) * (rank - x.shape.rank) + x.shape
    parted = x.reshape([n for extent in extents for n in (1, extent)])
    stretched = broadcast_to(parted, [n for pair in zip(counts, extents, strict=True) for n in pair])
    return _copied(stretched.plain().reshape([n * extent for n, extent in zip(counts, extents, strict=True)]))


def _checked(x: Tensor, axis: int | Sequence[int] | None) -> int | tuple[int, ...] | None:
    if axis is None:
        return None
    return x.shape.canonical_axis(axis) if isinstance(axis, int) else tuple(map(x.shape.canonical_axis, axis))


def _copied(array: npt.NDArray[Any]) -> Tensor:
    return Tensor.from_numpy(array)
