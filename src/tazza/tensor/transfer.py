"""Copies between places. The host copies to itself; each device that brings memory registers how to reach it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tazza.registry import Registry
from tazza.tensor.place import Place
from tazza.tensor.tensor import Tensor

__all__ = ["COPIERS", "to_place"]

Copier: TypeAlias = Callable[[Tensor, Tensor], None]

COPIERS: Registry[tuple[str, str], Copier] = Registry("copier between kinds of places")
"""(kind of the source's place, kind of the target's) -> what copies all elements into a row-major target."""


def to_place(x: Tensor, place: Place | str, *, copy: bool = False) -> Tensor:
    """Return `x` at another place: itself when it is there already, unless a copy is asked for. Copies are row-major.

    Raises:
        NotFoundError: an unknown place, or nobody copies between the two.
        OutOfMemoryError: there is no room.

    >>> x = Tensor.from_numpy(np.arange(3)); to_place(x, "cpu") is x, to_place(x, "cpu", copy=True) is x
    (True, False)
    """
    where = Place.parse(place) if isinstance(place, str) else place
    if where == x.place and not copy:
        return x
    target = Tensor(x.shape, x.dtype, where)
    if where.is_host and x.place.is_host:
        np.copyto(target.array, x.plain())
    else:
        COPIERS[x.place.kind, where.kind](x, target)
    target.mark_written()
    return target
