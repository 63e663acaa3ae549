"""Axes: which one an argument means, and the extents before and behind it.

Operators that work on matrices take blobs of any rank R and cut the shape in two at `axis`: the extents before it are
rows, those from it on are columns. -R <= axis < R; negative axes count from the end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from tazza.errors import DTypeError, NumericError
from tazza.operator import Array, Cut, Dims, OpView, show_dims
from tazza.tensor import DataType, TensorSpec

RANK_MAX = 64
"""NumPy knows no more dimensions."""


def unknown_dims(op: OpView, letter: str, count: int | None) -> Dims | None:
    """Return the shape that blob `letter`, a list of `count` sizes, stands for before its values are known.

    Raises:
        ShapeError: no tensor has so many dimensions.
    """
    if count is None:
        return None
    op.require(count <= RANK_MAX, f"{letter} holds {count} sizes, a tensor has at most {RANK_MAX} dimensions")
    return (None,) * count


def cut(op: OpView, argument: str, letter: str, dims: Sequence[int | None]) -> tuple[Dims, Dims]:
    """Return the extents of blob `letter` before the axis that `argument` names, and those from it on.

    Raises:
        ShapeError: the blob has no such axis.
    """
    axis, rank = cast("int", op.arguments[argument]), len(dims)
    hint = "axes count from 0, or from the end with -1" if rank > 0 else f"{letter} must have at least one dimension"
    op.require(
        -rank <= axis < rank,
        f"{argument} = {axis} is not an axis of {letter}, which has {rank} dimensions {show_dims(dims)}",
        hint,
    )
    return tuple(dims[:axis]), tuple(dims[axis:])


def axes_from(axis: int, rank: int) -> tuple[int, ...]:
    """Return the axes from `axis` on.

    >>> axes_from(-2, 3)
    (1, 2)
    """
    return tuple(range(rank))[axis:]


def matrix(op: OpView, argument: str, array: Array) -> Array:
    """Return `array` as (rows, columns), cut at the axis that `argument` names; a view where the array is row-major."""
    axis = cast("int", op.arguments[argument])
    return array.reshape(math.prod(array.shape[:axis]), math.prod(array.shape[axis:]))


def matrix_cut(op: OpView, dims: Sequence[int]) -> Cut:
    """Return the rows of a blob that is cut at the argument `axis`."""
    return Cut(math.prod(dims[: op.axis]), math.prod(dims[op.axis :]))


def product(extents: Sequence[int | None]) -> int | None:
    """Return the number of elements, None where an extent is unknown.

    >>> product((2, 3)), product(()), product((2, None))
    (6, 1, None)
    """
    known = [extent for extent in extents if extent is not None]
    return math.prod(known) if len(known) == len(extents) else None


def agree(first: int | None, second: int | None) -> bool:
    """Whether two extents are equal, as far as both are known."""
    return first is None or second is None or first == second


def require_as_many(
    op: OpView, letter: str, dims: Sequence[int | None] | None, **others: Sequence[int | None] | None
) -> None:
    """Check that other blobs have as many elements as blob `letter`, as far as their shapes are known.

    Raises:
        ShapeError: one has not.
    """
    for other, own in others.items():
        if own is not None and dims is not None:
            relation = f"{other} has the shape {show_dims(own)}, {letter} {show_dims(dims)}"
            op.require(agree(product(own), product(dims)), relation, "all must have as many elements")


def require_within(
    op: OpView, letter: str, values: Array, least: int, below: int | None = None, hint: str | None = None
) -> None:
    """Check that no element of blob `letter` is smaller than `least`, or as large as `below`.

    Raises:
        NumericError: one is; the first is named with its place.
    """
    wrong = values < least if below is None else (values < least) | (values >= below)
    if wrong.any():
        place = tuple(np.argwhere(wrong)[0].tolist())
        relation = f"it must be at least {least}" if below is None else f"not in [{least}, {below})"
        name = f"{letter}[{', '.join(map(str, place))}]" if place else letter
        raise op.error(NumericError, f"{name} is {values[place]}, {relation}", hint)


def shapes_agree(first: Sequence[int | None], second: Sequence[int | None]) -> bool:
    """Whether two shapes are equal, as far as both are known.

    >>> shapes_agree((2, None), (2, 3)), shapes_agree((2,), (2, 3))
    (True, False)
    """
    return len(first) == len(second) and all(map(agree, first, second))


def require_one_type(op: OpView, letter: str, specs: Sequence[TensorSpec]) -> DataType:
    """Return the element type that all blobs of a variadic letter have.

    Raises:
        DTypeError: they have several.
    """
    for i, spec in enumerate(specs):
        if spec.dtype is not specs[0].dtype:
            message = f"{letter}{i} is {spec.dtype.label}, {letter}0 is {specs[0].dtype.label}"
            raise op.error(DTypeError, message, "all must have one type: insert a Cast")
    return specs[0].dtype


def require_one_element(op: OpView, name: str, dims: Sequence[int | None] | None) -> None:
    """Check that a blob stands for a single number, of whatever rank."""
    if dims is not None:
        op.require(agree(product(dims), 1), f"{name} has the shape {show_dims(dims)}, it must have 1 element")
