"""Functions with one case per place, element type and rank: visitors, which say what is missing.

A case says which places, element types and ranks it is for; what it does not say, it takes any of. The most special
case wins: one that names the place before one that does not, then the element type, then the rank. So nothing depends
on the order in which cases were registered, and an upper floor adds those of its device.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, runtime_checkable

from tazza.errors import ArgumentError, UnsupportedError
from tazza.registry import Entry, Registry
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.place import Place

__all__ = ["Dispatch"]

P = ParamSpec("P")
R = TypeVar("R")

Coordinates = tuple[str | None, DataType | None, int | None]
"""Kind of place, element type and rank; None is any, or not known."""

_NOUNS = ("place", "dtype", "rank")


@runtime_checkable
class Located(Protocol):
    """What has a place, an element type and a shape: a tensor, a spec."""

    @property
    def place(self) -> Place:
        """Where it is."""
        ...

    @property
    def dtype(self) -> DataType:
        """The element type."""
        ...

    @property
    def shape(self) -> Dim:
        """The extents."""
        ...


class Dispatch(Generic[P, R]):
    """A function that chooses its case by its first argument: a tensor, a spec, a `Place`, a `DataType` or a `Dim`.

    >>> stride: Dispatch[[Dim], int] = Dispatch("stride of the first axis")
    >>> @stride.case(rank=(1, 2))
    ... def of_few(dim: Dim) -> int: return dim.strides()[0]
    >>> stride(Dim((2, 3)))
    3
    >>> stride(Dim())
    Traceback (most recent call last):
        ...
    tazza.errors.UnsupportedError: stride of the first axis has no case for rank 0: rank 0 is missing
      hint: there is rank 1, 2
    """

    def __init__(self, name: str) -> None:
        """Have no case yet; `name` is how messages call the function."""
        self.name = name
        self._cases: Registry[Coordinates, Callable[P, R]] = Registry(f"case of {name}")

    def case(
        self,
        *,
        place: str | Iterable[str] | None = None,
        dtype: DataType | Iterable[DataType] | None = None,
        rank: int | Iterable[int] | None = None,
        priority: int = 0,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Return a decorator that registers a case for all combinations of these kinds of place, dtypes and ranks.

        None is any. A case of a higher priority replaces one for the same combination.

        Raises:
            DuplicateError: there is a case for one of the combinations, of the same priority.
        """

        def register(function: Callable[P, R]) -> Callable[P, R]:
            for coordinates in itertools.product(_listed(place), _listed(dtype), _listed(rank)):
                self._cases.register(coordinates, function, priority=priority)
            return function

        return register

    def find(
        self, place: Place | None = None, dtype: DataType | None = None, rank: int | None = None
    ) -> Callable[P, R]:
        """Return the case for these; None is what is not known, and takes cases that do not ask for it.

        Raises:
            UnsupportedError: there is none; names what is missing, and what there is instead.
        """
        found = self.entry(place, dtype, rank)
        if found is None:
            raise self._missing(_wanted(place, dtype, rank))
        return found.value

    def entry(
        self, place: Place | None = None, dtype: DataType | None = None, rank: int | None = None
    ) -> Entry[Callable[P, R]] | None:
        """Return the case for these with its priority, or None; see `find`."""
        return self._match(_wanted(place, dtype, rank))

    def why_not(self, place: Place | None = None, dtype: DataType | None = None, rank: int | None = None) -> str:
        """Return what is missing where there is no case, and what there is instead."""
        why, there = self._reasons(_wanted(place, dtype, rank))
        return f"{why}, there is {there}"

    @property
    def priority(self) -> int:
        """The highest priority of a case; 0 without one."""
        entries = (self._cases.entry(key) for key in self._cases.registered())
        return max((entry.priority for entry in entries if entry is not None), default=0)

    def __call__(self, *args: P.args, **options: P.kwargs) -> R:
        """Call the case of the first argument.

        Raises:
            UnsupportedError: there is none.
            ArgumentError: the first argument has neither place, nor element type, nor rank.
        """
        return self.find(*_read(self.name, args))(*args, **options)

    def missing(
        self, places: Iterable[Place], dtypes: Iterable[DataType] = DataType, ranks: Iterable[int] = range(10)
    ) -> list[tuple[Place, DataType, int]]:
        """Return the combinations that have no case."""
        all_of_them = itertools.product(places, dtypes, ranks)
        return [each for each in all_of_them if self._match((each[0].kind, each[1], each[2])) is None]

    def _match(self, wanted: Coordinates) -> Entry[Callable[P, R]] | None:
        kind, dtype, rank = wanted
        keys = itertools.product((kind, None), (dtype, None), (rank, None))
        found = (self._cases.entry(key) for key in keys)  # the first key is the most special one
        return next((case for case in found if case is not None), None)

    def _missing(self, wanted: Coordinates) -> UnsupportedError:
        named = ", ".join(f"{noun} {value}" for noun, value in zip(_NOUNS, wanted, strict=True) if value is not None)
        why, there = self._reasons(wanted)
        whom = f" for {named}" if named else ""
        return UnsupportedError(f"{self.name} has no case{whom}: {why}", hint=f"there is {there}")

    def _reasons(self, wanted: Coordinates) -> tuple[str, str]:
        """Return what is missing, and what there is."""
        alternatives = [(noun, i, self._others(wanted, i)) for i, noun in enumerate(_NOUNS)]
        reasons = [
            (f"{noun} {'' if wanted[i] is None else wanted[i]} is missing".replace("  ", " "), f"{noun} {others}")
            for noun, i, others in alternatives
            if others
        ]
        why = " or ".join(reason for reason, _ in reasons) if reasons else "they are not served together"
        there = "; or ".join(hint for _, hint in reasons) if reasons else self._listing()
        return why, there

    def _others(self, wanted: Coordinates, axis: int) -> str:
        """Return the values of one coordinate with which there would be a case, all others being as wanted."""
        keys = [key for key in self._cases.registered() if key[axis] not in (None, wanted[axis])]
        fitting = {str(key[axis]) for key in keys if self._match(_with(wanted, key, axis)) is not None}
        return ", ".join(sorted(fitting))

    def _listing(self) -> str:
        cases = [
            " ".join(f"{noun} {value}" for noun, value in zip(_NOUNS, key, strict=True) if value is not None)
            for key in self._cases.registered()
        ]
        return "; ".join(cases) if cases else "no case at all"


def _wanted(place: Place | None, dtype: DataType | None, rank: int | None) -> Coordinates:
    return None if place is None else place.kind, dtype, rank


def _with(wanted: Coordinates, other: Coordinates, axis: int) -> Coordinates:
    """Return `wanted` with the coordinate `axis` of `other`."""
    kind, dtype, rank = wanted
    return (other[0], dtype, rank) if axis == 0 else (kind, other[1], rank) if axis == 1 else (kind, dtype, other[2])


def _listed(choice: Any) -> tuple[Any, ...]:
    return (choice,) if choice is None or isinstance(choice, str | DataType | int) else tuple(choice)


def _read(name: str, args: tuple[object, ...]) -> tuple[Place | None, DataType | None, int | None]:
    """Return place, dtype and rank as far as the first argument tells them."""
    what = args[0] if args else None
    if isinstance(what, Place):
        return what, None, None
    if isinstance(what, DataType):
        return None, what, None
    if isinstance(what, Dim):
        return None, None, what.rank
    if isinstance(what, Located):
        return what.place, what.dtype, what.shape.rank
    raise ArgumentError(
        f"{name} cannot choose its case by {type(what).__name__}", hint="give a tensor, spec, place, dtype or Dim first"
    )
