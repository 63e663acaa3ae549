"""The shape of a tensor: an immutable tuple of extents with the rules that go with it."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import SupportsIndex

from tazza.errors import ShapeError


class Dim(tuple[int, ...]):
    """Extents d0 ... dR-1, each an integer >= 0; rank R is 0 for a single value.

    It equals, and hashes like, the plain tuple.

    Raises:
        ShapeError: an extent is negative or not an integer.

    >>> Dim((2, 3, 5)).numel, Dim((2, 3, 5)).strides(), Dim().numel
    (30, (15, 5, 1), 1)
    """

    __slots__ = ()

    def __new__(cls, extents: Iterable[SupportsIndex] = ()) -> Dim:
        """Check the extents; a `Dim` is returned as it is."""
        if type(extents) is Dim:
            return extents
        try:
            whole = super().__new__(cls, map(operator.index, extents))
        except TypeError as error:
            raise ShapeError(f"extents {extents!r} are not all integers", hint="give a tuple of ints") from error
        if whole and min(whole) < 0:
            raise ShapeError(f"extents {tuple(whole)} have {min(whole)} < 0", hint="extents are 0 or more")
        return whole

    @property
    def rank(self) -> int:
        """Number of extents."""
        return len(self)

    @property
    def numel(self) -> int:
        """Number of elements: the product of the extents, 1 for rank 0."""
        return math.prod(self)

    def strides(self) -> tuple[int, ...]:
        """Steps of each axis in *elements* when the last axis is dense; an extent of 0 counts as 1."""
        steps = itertools.accumulate((max(extent, 1) for extent in reversed(self[1:])), operator.mul, initial=1)
        return tuple(steps)[::-1] if self else ()

    def canonical_axis(self, axis: int) -> int:
        """Return `axis` counted from the front; negative ones count from the end.

        Raises:
            ShapeError: not -R <= axis < R.

        >>> Dim((2, 3)).canonical_axis(-1)
        1
        """
        rank = len(self)
        if not -rank <= axis < rank:
            raise ShapeError(f"axis {axis} is outside of {self} of rank {rank}", hint=f"-{rank} <= axis < {rank}")
        return axis + rank if axis < 0 else axis

    def broadcast(self, other: Sequence[int]) -> Dim:
        """Return the shape of an elementwise result: aligned at the last axis, an extent of 1 stretches.

        Raises:
            ShapeError: two aligned extents differ and neither is 1.

        >>> Dim((2, 1, 5)).broadcast((3, 1))
        Dim(2, 3, 5)
        """
        theirs = Dim(other)
        pairs = itertools.zip_longest(reversed(self), reversed(theirs), fillvalue=1)
        extents: list[int] = []
        for mine, your in pairs:
            if mine != your and mine != 1 and your != 1:
                axis = len(extents) + 1
                raise ShapeError(
                    f"{self} does not broadcast with {theirs}: {mine} != {your} at axis -{axis}",
                    hint="aligned extents must be equal, or one of them 1",
                )
            extents.append(your if mine == 1 else mine)
        return Dim(reversed(extents))

    def slice(self, axis: int, start: int, stop: int) -> Dim:
        """Return the shape of the half-open range `start:stop` of one axis; negative bounds count from the end.

        Raises:
            ShapeError: the bounds are outside of the extent or in the wrong order.

        >>> Dim((2, 7)).slice(1, 1, -2)
        Dim(2, 4)
        """
        axis = self.canonical_axis(axis)
        extent = self[axis]
        first = start + extent if start < 0 else start
        last = stop + extent if stop < 0 else stop
        if not 0 <= first <= last <= extent:
            raise ShapeError(f"slice {start}:{stop} does not fit extent {extent} of axis {axis} of {self}")
        return Dim((*self[:axis], last - first, *self[axis + 1 :]))

    def ravel(self, index: Sequence[int]) -> int:
        """Return the row-major number of the element at `index`.

        Raises:
            ShapeError: another rank, or an index outside of its extent.

        >>> Dim((2, 3)).ravel((1, 2)), Dim((2, 3)).unravel(5)
        (5, (1, 2))
        """
        inside = len(index) == len(self) and all(0 <= i < extent for i, extent in zip(index, self, strict=True))
        if not inside:
            raise ShapeError(f"index {tuple(index)} is outside of {self}")
        return sum(map(operator.mul, index, self.strides()))

    def unravel(self, i: int) -> tuple[int, ...]:
        """Return the index of row-major element number `i`: the inverse of `ravel`.

        Raises:
            ShapeError: not 0 <= i < numel.
        """
        if not 0 <= i < self.numel:
            raise ShapeError(f"element {i} is outside of {self}, which has {self.numel} elements")
        index: list[int] = []
        for step in self.strides():
            index.append(i // step)
            i %= step
        return tuple(index)

    def __repr__(self) -> str:
        return f"Dim({', '.join(map(str, self))})"

    __str__ = __repr__

    def __reduce__(self) -> tuple[type[Dim], tuple[tuple[int, ...]]]:
        return Dim, (tuple(self),)
