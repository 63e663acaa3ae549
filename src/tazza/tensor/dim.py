"""The shape of a tensor: an immutable tuple of extents with the algebra that goes with it.

Everything is pure: a method returns another `Dim`, strides in elements, or an index, and refuses with a `ShapeError`
that names the shape and the relation. Strides are given in elements, row-major ones when not said otherwise.
"""

from __future__ import annotations

import builtins
import itertools
import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, SupportsIndex, overload

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

    # -- rank and axes -------------------------------------------------------------------------------------------------

    @overload
    def of_rank(self, rank: Literal[0]) -> tuple[()]: ...
    @overload
    def of_rank(self, rank: Literal[1]) -> tuple[int]: ...
    @overload
    def of_rank(self, rank: Literal[2]) -> tuple[int, int]: ...
    @overload
    def of_rank(self, rank: Literal[3]) -> tuple[int, int, int]: ...
    @overload
    def of_rank(self, rank: Literal[4]) -> tuple[int, int, int, int]: ...
    @overload
    def of_rank(self, rank: Literal[5]) -> tuple[int, int, int, int, int]: ...
    @overload
    def of_rank(self, rank: int) -> tuple[int, ...]: ...
    def of_rank(self, rank: int) -> tuple[int, ...]:
        """Return the shape itself, known from then on, to type checkers too, to have `rank` extents.

        Raises:
            ShapeError: it has another rank.

        >>> rows, columns = Dim((2, 3)).of_rank(2); columns
        3
        """
        if len(self) != rank:
            raise ShapeError(f"{self} of rank {len(self)} was expected to have rank {rank}")
        return self

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

    def canonical_axes(self, axes: int | Sequence[int] | None) -> tuple[int, ...]:
        """Return `axes` counted from the front, in ascending order; None stands for all of them.

        Raises:
            ShapeError: an axis is outside of the rank or named twice.

        >>> Dim((2, 3, 5)).canonical_axes((-1, 0)), Dim((2, 3)).canonical_axes(None)
        ((0, 2), (0, 1))
        """
        if axes is None:
            return tuple(range(len(self)))
        named = sorted(map(self.canonical_axis, (axes,) if isinstance(axes, int) else axes))
        twice = next((axis for axis, following in itertools.pairwise(named) if axis == following), None)
        if twice is not None:
            raise ShapeError(f"axes {axes} name axis {twice} of {self} twice")
        return tuple(named)

    def transposed(self, axes: Sequence[int] | None = None) -> Dim:
        """Return the shape whose axis i is axis `axes[i]` of this one; None reverses all.

        Raises:
            ShapeError: the axes are not each of this shape's axes once.

        >>> Dim((2, 3, 5)).transposed((1, -1, 0))
        Dim(3, 5, 2)
        """
        if axes is None:
            return Dim(reversed(self))
        if len(self.canonical_axes(axes)) != len(self):
            raise ShapeError(f"{len(axes)} axes {tuple(axes)} do not order the {len(self)} axes of {self}")
        return Dim(self[axis] for axis in axes)

    def expanded(self, axis: int) -> Dim:
        """Return the shape with an axis of extent 1 put in, so that it is number `axis` of the result.

        Raises:
            ShapeError: not -R - 1 <= axis <= R.

        >>> Dim((2, 3)).expanded(-1), Dim((2, 3)).expanded(0)
        (Dim(2, 3, 1), Dim(1, 2, 3))
        """
        rank = len(self)
        if not -rank - 1 <= axis <= rank:
            raise ShapeError(f"new axis {axis} is outside of {self}", hint=f"{-rank - 1} <= axis <= {rank}")
        at = axis + rank + 1 if axis < 0 else axis
        return Dim((*self[:at], 1, *self[at:]))

    def squeezed(self, axes: int | Sequence[int] | None = None) -> Dim:
        """Return the shape without `axes`, whose extents are 1; None takes all such axes out.

        Raises:
            ShapeError: an axis is outside of the rank, named twice, or its extent is not 1.

        >>> Dim((2, 1, 3, 1)).squeezed(), Dim((2, 1, 3, 1)).squeezed(1)
        (Dim(2, 3), Dim(2, 3, 1))
        """
        if axes is None:
            return Dim(extent for extent in self if extent != 1)
        gone = self.canonical_axes(axes)
        wide = next((axis for axis in gone if self[axis] != 1), None)
        if wide is not None:
            raise ShapeError(f"cannot take axis {wide} out of {self}: its extent is {self[wide]} != 1")
        return self.without(gone)

    def without(self, axes: int | Sequence[int] | None) -> Dim:
        """Return the shape without `axes`, whatever their extents: that of a reduction over them.

        Raises:
            ShapeError: an axis is outside of the rank or named twice.

        >>> Dim((2, 3, 5)).without((0, -1)), Dim((2, 3)).without(None)
        (Dim(3), Dim())
        """
        gone = self.canonical_axes(axes)
        return Dim(extent for axis, extent in enumerate(self) if axis not in gone)

    def reshaped(self, dims: Iterable[SupportsIndex]) -> Dim:
        """Return `dims` with its one -1, if any, replaced by what keeps the number of elements.

        Raises:
            ShapeError: the numbers of elements differ, or no extent fits the -1.

        >>> Dim((2, 3, 5)).reshaped((-1, 6))
        Dim(5, 6)
        """
        wanted = tuple(map(operator.index, dims))
        if wanted.count(-1) == 1:
            rest = math.prod(extent for extent in wanted if extent != -1)
            if rest <= 0 or self.numel % rest:
                raise ShapeError(f"{self} of {self.numel} elements has no extent for -1 in {wanted}")
            wanted = tuple(self.numel // rest if extent == -1 else extent for extent in wanted)
        found = Dim(wanted)
        if found.numel != self.numel:
            raise ShapeError(f"{self} of {self.numel} elements does not reshape to {found} of {found.numel}")
        return found

    # -- broadcasting --------------------------------------------------------------------------------------------------

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

    def broadcast_strides(self, dims: Sequence[int], strides: Sequence[int] | None = None) -> tuple[int, ...]:
        """Return the strides that show a tensor of this shape as one of shape `dims`: 0 where an extent stretches.

        `strides` are those of the tensor; None is row-major.

        Raises:
            ShapeError: this shape does not stretch to `dims`.

        >>> Dim((3, 1)).broadcast_strides((2, 3, 5))
        (0, 1, 0)
        """
        wide, steps = Dim(dims), self.strides() if strides is None else tuple(strides)
        new = len(wide) - len(self)
        if new < 0 or any(mine not in (1, theirs) for mine, theirs in zip(self, wide[new:], strict=True)):
            raise ShapeError(f"{self} does not stretch to {wide}", hint="only extents of 1 and new leading axes do")
        pairs = zip(self, wide[new:], steps, strict=True)
        return (0,) * new + tuple(step if mine == theirs else 0 for mine, theirs, step in pairs)

    # -- parts and elements --------------------------------------------------------------------------------------------

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

    def sliced(self, *slices: builtins.slice) -> Dim:
        """Return the shape of the elements that Python's slices of the first axes choose; the other axes stay whole.

        They mean what they mean for a list: bounds are clipped, steps may be negative.

        Raises:
            ShapeError: more slices than axes, or a step of 0.

        >>> Dim((7, 5, 3)).sliced(slice(1, None, 2), slice(None, None, -1))
        Dim(3, 5, 3)
        """
        if len(slices) > len(self):
            raise ShapeError(f"{len(slices)} slices for {self} of rank {len(self)}")
        if any(part.step == 0 for part in slices):
            raise ShapeError(f"a slice of {self} has the step 0", hint="a step is 1 or more, or -1 or less")
        chosen = (len(range(*part.indices(extent))) for part, extent in zip(slices, self, strict=False))
        return Dim((*chosen, *self[len(slices) :]))

    def contains(self, index: Sequence[int]) -> bool:
        """Whether there is an element at `index`: as many numbers as axes, each at least 0 and less than its extent.

        >>> Dim((2, 3)).contains((1, 2)), Dim((2, 3)).contains((1, 3)), Dim().contains(())
        (True, False, True)
        """
        return len(index) == len(self) and all(0 <= i < extent for i, extent in zip(index, self, strict=True))

    def indices(self) -> Iterator[tuple[int, ...]]:
        """Yield the index of every element in row-major order.

        >>> list(Dim((2, 2)).indices())
        [(0, 0), (0, 1), (1, 0), (1, 1)]
        """
        return itertools.product(*map(range, self))

    def ravel(self, index: Sequence[int]) -> int:
        """Return the row-major number of the element at `index`.

        Raises:
            ShapeError: another rank, or an index outside of its extent.

        >>> Dim((2, 3)).ravel((1, 2)), Dim((2, 3)).unravel(5)
        (5, (1, 2))
        """
        if not self.contains(index):
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


def broadcast_shapes(*shapes: Sequence[int]) -> Dim:
    """Return the shape of an elementwise result of tensors of these shapes; of none it is that of a single value.

    Raises:
        ShapeError: two aligned extents differ and neither is 1.

    >>> broadcast_shapes((2, 1, 5), (3, 1), ())
    Dim(2, 3, 5)
    """
    found = Dim()
    for shape in shapes:
        found = found.broadcast(shape)
    return found
