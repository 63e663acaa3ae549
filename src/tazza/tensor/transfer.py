"""Copies between places and layouts.

The host copies to itself; each device that brings memory registers how to reach it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from tazza.errors import UnavailableError, UnsupportedError
from tazza.registry import Registry
from tazza.tensor.attached import attached
from tazza.tensor.layout import Layout, Strided
from tazza.tensor.place import Place
from tazza.tensor.tensor import Tensor

__all__ = ["COPIERS", "to_layout", "to_place"]

Copier: TypeAlias = Callable[[Tensor, Tensor], None]

COPIERS: Registry[tuple[str, str], Copier] = Registry("copier between kinds of places")
"""(kind of the source's place, kind of the target's) -> what copies all elements into a row-major target."""


@attached
def to_place(x: Tensor, place: Place | str, *, copy: bool = False) -> Tensor:
    """Return `x` at another place: itself when it is there already, unless a copy is asked for. Copies are row-major.

    Raises:
        NotFoundError: an unknown place.
        UnavailableError: no engine that is here reaches one of the places.
        OutOfMemoryError: there is no room.

    >>> x = Tensor.from_numpy(np.arange(3)); to_place(x, "cpu") is x, to_place(x, "cpu", copy=True) is x
    (True, False)
    """
    where = Place.parse(place) if isinstance(place, str) else place
    if where == x.place and not copy:
        return x
    target = Tensor(x.shape, x.dtype, where)
    copy_to(x, target)
    return target


@attached
def copy_to(x: Tensor, target: Tensor) -> None:
    """Copy all elements into a row-major tensor of the same shape and element type, wherever both lie.

    Raises:
        UnavailableError: no engine that is here reaches one of the places.
    """
    if target.place.is_host and x.place.is_host:
        np.copyto(target.array, x.plain())
    else:
        _copier(x.place, target.place)(x, target)
    target.mark_written()


def to_layout(x: Tensor, layout: Layout) -> Tensor:
    """Return `x` with its elements in another order in memory: itself when they lie so already, else a copy.

    Opaque layouts are made by the engines that they belong to, when a net or an operator runs.

    Raises:
        ShapeError: the strides are of another rank.
        UnsupportedError: an opaque layout, or memory that the CPU does not reach.

    >>> from tazza.tensor.layout import channels_last
    >>> x = Tensor((2, 3, 5, 7)); x.reserve(); to_layout(x, channels_last(x.shape)).layout.strides
    (105, 1, 21, 3)
    """
    if x.layout == layout:
        return x
    if not isinstance(layout, Strided):
        raise UnsupportedError(f"{layout} is made by its engine, not by hand", hint="give strides, or channels_last")
    if not x.place.is_host:
        raise UnsupportedError(f"{x.spec} is on {x.place}, this function works on the CPU", hint="copy it there")
    checked = layout if layout.strides is None else Strided.of(x.shape, layout.strides)
    target = Tensor(x.shape, x.dtype, x.place)
    target.resize_to(replace(target.spec, layout=checked))
    check_writable(target, "to_layout")
    np.copyto(target.array, x.plain())
    target.mark_written()
    return target


def check_writable(out: Tensor, who: str) -> None:
    """Check that each element of `out` has a place of its own, which the CPU can write to.

    Raises:
        UnsupportedError: it is elsewhere, or two elements are one in memory, as after `broadcast_to`.
    """
    if not out.place.is_host:
        raise UnsupportedError(f"{who}: out is on {out.place}, this function computes on the CPU")
    if isinstance(out.layout, Strided) and out.layout.overlaps_itself(out.shape):
        message = f"{who}: {out.spec} cannot be written to, it has one element in several places"
        raise UnsupportedError(message, hint="write to a copy: x.copy()")


def _copier(source: Place, target: Place) -> Copier:
    found = COPIERS.get((source.kind, target.kind))
    if found is None:
        away = target if source.is_host else source
        raise UnavailableError(
            f"no {away.kind.upper()} engine is here, so that nothing is copied from {source} to {target}",
            hint="tazza doctor lists engines and why one is missing; tensors can be on the CPU",
        )
    return found
