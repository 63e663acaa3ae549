"""Memory: owned, aligned spans of bytes, and the allocators that hand them out, count them and limit them.

State: an allocator's figures change only under its `_lock`. Memory goes back when the last reference to a span dies,
which the garbage collector may notice in any thread and in the middle of any call, so the notice only appends to the
queue `_returned` (atomic, no lock); whoever allocates or reads the figures first works that queue off.

Invariant: `in_use_bytes` is the sum of the bytes of all spans that anybody, NumPy views included, can still reach.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tazza.errors import ArgumentError, OutOfMemoryError, UnavailableError, UnsupportedError
from tazza.registry import Registry
from tazza.tensor.place import CPUPlace, Place

ALIGNMENT = 64
"""Bytes that every address handed out is a multiple of: a cache line, and the widest vector register."""

_HOLDERS_SHOWN = 5

Bytes = npt.NDArray[np.uint8]


class Allocation:
    """An owned span of `nbytes` bytes at `address` of a place.

    `memory` is the array over exactly that span (None when the CPU cannot read the place), `owner` whatever keeps the
    span alive. NumPy views of `buffer` keep the memory alive by themselves, so closing never leaves a view dangling.
    """

    __slots__ = ("__weakref__", "_memory", "_owner", "address", "nbytes", "place")

    def __init__(self, place: Place, address: int, nbytes: int, *, memory: Bytes | None, owner: object) -> None:
        self.place = place
        self.address = address
        self.nbytes = nbytes
        self._memory = memory
        self._owner = owner

    @staticmethod
    def adopt(array: npt.NDArray[Any], place: Place | None = None) -> Allocation:
        """Wrap the memory of somebody else's contiguous array without copying; no allocator counts it.

        >>> values = np.arange(3, dtype=np.int32)
        >>> Allocation.adopt(values).address == values.ctypes.data
        True
        """
        raw = np.asarray(array).reshape(-1).view(np.uint8)
        where = CPUPlace() if place is None else place
        return Allocation(where, _address(raw), raw.nbytes, memory=raw, owner=array)

    @property
    def buffer(self) -> Bytes:
        """The span as a NumPy array of uint8.

        Raises:
            UnsupportedError: the CPU does not read this place, or the span is closed.
        """
        if self._memory is None:
            state = "is closed" if self._owner is None else "is not memory that the CPU reads"
            raise UnsupportedError(f"span of {self.nbytes} bytes at {self.place} {state}")
        return self._memory

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._owner is None

    def close(self) -> None:
        """Give the memory back, or, while NumPy views of it live, let the last of them give it back."""
        self._memory = None
        self._owner = None

    def __repr__(self) -> str:
        return f"Allocation({self.nbytes} bytes at {self.place}{', closed' if self.closed else ''})"


@dataclass(frozen=True, slots=True)
class AllocatorStatistics:
    """Figures of one allocator, in bytes; `reserved_bytes` adds what alignment and pooling take from the system."""

    in_use_bytes: int
    peak_bytes: int
    reserved_bytes: int
    count: int


class Allocator(ABC):
    """Hands out spans of one place and knows how much of it is in use.

    Subclasses write `_take`, which gets raw memory from the system; counting, limit and errors are here.
    """

    def __init__(self, place: Place, *, limit_bytes: int | None = None) -> None:
        self.place = place
        self.limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._returned: deque[_Owned] = deque()
        self._live: set[_Owned] = set()
        self._in_use = self._peak = self._reserved = 0

    @abstractmethod
    def _take(self, nbytes: int) -> tuple[object, int, Bytes | None, int]:
        """Return (owner, address, array over the span or None, bytes taken from the system).

        The memory goes back to the system when `owner`, which must be weakly referable and the base of the array, dies.
        Raises `MemoryError` when there is none.
        """

    def allocate(self, nbytes: int, holder: str = "") -> Allocation:
        """Return a new span; its content is undefined. `holder` names it in messages.

        Raises:
            OutOfMemoryError: the limit or the memory of the place is reached; lists the largest holders.
            ArgumentError: a negative size.
        """
        if nbytes < 0:
            raise ArgumentError(f"cannot allocate {nbytes} < 0 bytes at {self.place}")
        self._check_room(nbytes, holder)
        try:
            owner, address, memory, taken = self._take(nbytes)
        except (MemoryError, ValueError) as error:  # NumPy has ValueError for more than an address can hold
            raise self._exhausted(nbytes, holder, f"{self.place} has no more memory") from error
        record = _Owned(owner, self._returned.append)
        record.nbytes, record.taken, record.holder = nbytes, taken, holder
        with self._lock:
            self._drain()
            self._live.add(record)
            self._in_use += nbytes
            self._reserved += taken
            self._peak = max(self._peak, self._in_use)
        return Allocation(self.place, address, nbytes, memory=memory, owner=owner)

    def deallocate(self, allocation: Allocation) -> None:
        """Close `allocation`."""
        allocation.close()

    @property
    def statistics(self) -> AllocatorStatistics:
        """The figures now."""
        with self._lock:
            self._drain()
            return AllocatorStatistics(self._in_use, self._peak, self._reserved, len(self._live))

    def reset_peak(self) -> None:
        """Let `peak_bytes` start again from what is in use."""
        with self._lock:
            self._drain()
            self._peak = self._in_use

    def largest_holders(self, count: int = _HOLDERS_SHOWN) -> list[tuple[str, int]]:
        """Return (holder, bytes) of the largest living spans, largest first."""
        with self._lock:
            self._drain()
            live = [(record.holder, record.nbytes) for record in self._live]
        return sorted(live, key=lambda pair: -pair[1])[:count]

    def _check_room(self, nbytes: int, holder: str) -> None:
        limit = self.limit_bytes
        if limit is None or self.statistics.in_use_bytes + nbytes <= limit:
            return
        gc.collect()  # what only cycles hold would else count as in use
        in_use = self.statistics.in_use_bytes
        if in_use + nbytes > limit:
            relation = f"{in_use} in use + {nbytes} asked for > limit of {limit} bytes at {self.place}"
            raise self._exhausted(nbytes, holder, relation)

    def _exhausted(self, nbytes: int, holder: str, relation: str) -> OutOfMemoryError:
        whom = f" for {holder}" if holder else ""
        largest = ", ".join(f"{name if name else 'unnamed'} {size}" for name, size in self.largest_holders())
        holders = f"largest holders in bytes: {largest if largest else 'none'}"
        return OutOfMemoryError(
            f"cannot allocate {nbytes} bytes{whom}: {relation}; {holders}",
            hint="free blobs, use a smaller batch, or raise the allocator's limit_bytes",
        )

    def _drain(self) -> None:
        while self._returned:
            record = self._returned.popleft()
            self._live.discard(record)
            self._in_use -= record.nbytes
            self._reserved -= record.taken


class _Owned(weakref.ref[Any]):
    """A living span: tells when its owner dies, and what it was."""

    __slots__ = ("holder", "nbytes", "taken")
    nbytes: int
    taken: int
    holder: str

    # A plain weak reference compares its referents, which are arrays here.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


class AlignedAllocator(Allocator):
    """Ordinary memory at addresses that are multiples of `ALIGNMENT`; not filled with zeros.

    >>> allocator = AlignedAllocator()
    >>> span = allocator.allocate(100)
    >>> span.address % 64, allocator.statistics.in_use_bytes
    (0, 100)
    >>> span.close(); allocator.statistics.in_use_bytes
    0
    """

    def __init__(self, *, limit_bytes: int | None = None) -> None:
        super().__init__(CPUPlace(), limit_bytes=limit_bytes)

    def _take(self, nbytes: int) -> tuple[object, int, Bytes | None, int]:
        if nbytes > sys.maxsize - ALIGNMENT:
            raise MemoryError
        taken = nbytes + ALIGNMENT
        owner = np.empty(taken, np.uint8)
        base = _address(owner)
        start = -base % ALIGNMENT
        return owner, base + start, owner[start : start + nbytes], taken


def _address(array: npt.NDArray[Any]) -> int:
    return array.__array_interface__["data"][0]  # three times as fast as array.ctypes.data


class PinnedAllocator(Allocator):
    """Interface of page-locked memory, which a device floor brings by registering a subclass with priority 1."""

    def _take(self, nbytes: int) -> tuple[object, int, Bytes | None, int]:
        raise UnavailableError(
            f"pinned memory is not available: {nbytes} bytes asked for, and no device that pins memory is loaded",
            hint="load the CUDA device first, or use CPUPlace()",
        )


ALLOCATORS: Registry[str, Callable[[Place], Allocator]] = Registry("allocator of place kind")
"""Makes the allocator of a place, by `Place.kind`."""


@ALLOCATORS.registering("cpu", help="ordinary memory, 64-byte aligned")
def _make_aligned(place: Place) -> Allocator:
    return AlignedAllocator()


@ALLOCATORS.registering("pinned", help="unavailable until a device floor replaces it")
def _make_pinned(place: Place) -> Allocator:
    return PinnedAllocator(place)


_made: dict[Place, tuple[Callable[[Place], Allocator], Allocator]] = {}
_made_lock = threading.Lock()


def allocator_of(place: Place) -> Allocator:
    """Return the one allocator of `place`; a maker that was registered later with a higher priority replaces it.

    Raises:
        NotFoundError: no floor brings memory of this kind.
    """
    maker = ALLOCATORS[place.kind]
    with _made_lock:
        made = _made.get(place)
        if made is None or made[0] is not maker:
            made = _made[place] = (maker, maker(place))
        return made[1]


def default_allocator() -> Allocator:
    """Return the allocator of ordinary memory."""
    return allocator_of(CPUPlace())
