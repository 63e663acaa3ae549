"""Memory: owned, aligned spans of bytes, and the allocators that hand them out, count them and limit them.

State: an allocator's figures and free lists change only under its `_lock`. Memory goes back when the last reference to
a span dies, which the garbage collector may notice in any thread and in the middle of any call, so the notice only
appends to the queue `_returned` (atomic, no lock); whoever allocates or reads the figures first works that queue off.
Nothing that asks another allocator or collects garbage on purpose runs under a lock: `_grow` is called without it. The
collector may still start there by itself, so a finalizer (`__del__`) may drop spans, but must not allocate: it may run
in the middle of its own thread's allocation, and gets an error then, where a plain lock would halt the thread for ever.

Invariants: `in_use_bytes` is the sum of the bytes of all spans that anybody, NumPy views included, can still reach. A
block leaves a free list before it becomes a span or part of another block, so that what interrupts an allocator
(Ctrl-C, a fork) can lose a block, which then counts as held for ever, but never hand it out twice.
"""

from __future__ import annotations

import gc
import importlib
import math
import pkgutil
import sys
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from ctypes import addressof, c_char
from functools import cache, wraps
from typing import Any, TypeVar, TypeVarTuple

import numpy as np
import numpy.typing as npt

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, OutOfMemoryError, UnavailableError, UnsupportedError
from tazza.registry import Registry
from tazza.runtime.fork import freed_in_child, in_forked_child
from tazza.runtime.memory import available_bytes
from tazza.tensor.dtype import numpy_dtype
from tazza.tensor.place import CPU_KIND, PLACE_KINDS, CPUPlace, Place

ALIGNMENT = 64
"""Bytes that every address handed out is a multiple of: a cache line, and the widest vector register."""

LARGE_BYTES = 1 << 28
"""From here on the system is asked what it has before it is asked for memory: it promises more than there is."""
_HOLDERS_SHOWN = 5

Bytes = npt.NDArray[np.uint8]

_BYTE = np.dtype(np.uint8)
_first_byte: Callable[[Any], c_char] = c_char.from_buffer


def address_of(array: npt.NDArray[Any]) -> int:
    """Return the address of the first element; in a fraction of the time of `array.ctypes.data`, for what runs often.

    >>> values = np.arange(3)
    >>> address_of(values[1:]) - address_of(values)
    8
    """
    if array.flags.writeable and array.flags.c_contiguous and array.dtype.isbuiltin == 1 and array.size:
        return addressof(_first_byte(array))  # half the time of the other
    return array.__array_interface__["data"][0]


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
        return Allocation(where, address_of(raw), raw.nbytes, memory=raw, owner=array)

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
    def owner(self) -> object:
        """What keeps the memory alive; None once closed."""
        return self._owner

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._owner is None

    def part(self, offset: int, nbytes: int) -> Allocation:
        """Return the span of `nbytes` at `offset` bytes of this one: the same memory, kept alive, counted once.

        Raises:
            ArgumentError: it does not lie inside of this span, or this span is closed.

        >>> span = default_allocator().allocate(256)
        >>> part = span.part(64, 100); part.address - span.address, part.nbytes
        (64, 100)
        """
        if offset < 0 or nbytes < 0 or offset + nbytes > self.nbytes or self.closed:
            state = "a closed span" if self.closed else f"a span of {self.nbytes}"
            raise ArgumentError(f"part of {nbytes} bytes at byte {offset} does not lie inside of {state}")
        memory = None if self._memory is None else self._memory[offset : offset + nbytes]
        return Allocation(self.place, self.address + offset, nbytes, memory=memory, owner=self._owner)

    def close(self) -> None:
        """Give the memory back, or, while NumPy views of it live, let the last of them give it back."""
        self._memory = None
        self._owner = None

    def __repr__(self) -> str:
        return f"Allocation({self.nbytes} bytes at {self.place}{', closed' if self.closed else ''})"


@dataclass(frozen=True, slots=True)
class AllocatorStatistics:
    """Figures of one allocator; `reserved_bytes` is what it holds of the system, alignment and idle blocks included.

    `count` spans live now, `total_count` were handed out so far: the difference of two readings of the latter says how
    many allocations the code between them made.
    """

    in_use_bytes: int
    peak_bytes: int
    reserved_bytes: int
    count: int
    total_count: int


Taken = tuple[object, int, Bytes | None, Any]
"""What `_take` found: owner, address, memory, block. The memory lives while the owner does; it is None where the CPU
cannot read; the block is the allocator's own note for `_give`. A plain tuple, because every allocation makes one."""


A = TypeVar("A", bound="Allocator")
Ts = TypeVarTuple("Ts")
R = TypeVar("R")


def alone(method: Callable[[A, *Ts], R]) -> Callable[[A, *Ts], R]:
    """Run a method of an allocator under its lock, and never in the middle of another such method.

    Raises:
        UnsupportedError: a finalizer called it while its thread was in one.
    """

    @wraps(method)
    def locked(allocator: A, *args: *Ts) -> R:
        with allocator._lock:  # pyright: ignore[reportPrivateUsage] -- an allocator's own method, but for the form
            if allocator._busy:  # pyright: ignore[reportPrivateUsage] -- as above
                raise UnsupportedError(
                    f"the allocator of {allocator.place} was asked in the middle of its own work, by a finalizer "
                    "(__del__)",
                    hint="let finalizers drop tensors, not make them",
                )
            try:
                allocator._busy = True  # pyright: ignore[reportPrivateUsage] -- as above
                return method(allocator, *args)
            finally:
                allocator._busy = False  # pyright: ignore[reportPrivateUsage] -- as above

    return locked


_living: weakref.WeakSet[Allocator] = weakref.WeakSet()


class Allocator(ABC):
    """Hands out spans of one place and knows how much of it is in use.

    Subclasses write `_take` and `_give`, and those that hold memory in advance `_grow` and `trim`; counting, limit,
    locking and errors are here. `limit_bytes` bounds what is in use; None is no bound.
    """

    def __init__(self, place: Place, *, limit_bytes: int | None = None) -> None:
        self.place = place
        self.limit_bytes = limit_bytes
        self._lock = freed_in_child(threading.RLock())
        self._busy = False
        self._returned: deque[_Owned] = deque()
        self._note_death = self._returned.append
        self._live: dict[_Owned, tuple[int, int, Any, str]] = {}  # address, nbytes, block, holder
        self._in_use = self._peak = self._reserved = self._count = self._total = 0
        _living.add(self)

    # -- what a kind of allocator brings -------------------------------------------------------------------------------

    @abstractmethod
    def _take(self, nbytes: int) -> Taken | None:
        """Return memory for a span, or None when there is none until `_grow`; under the lock.

        The owner must be weakly referable, and the base of the array over the memory.
        """

    @abstractmethod
    def _give(self, address: int, nbytes: int, block: Any) -> None:
        """Take back the block of a span that died, as `_take` noted it; under the lock."""

    def _grow(self, nbytes: int, holder: str) -> None:
        """Get memory from the system so that the next `_take` of `nbytes` succeeds; without the lock.

        Raises:
            MemoryError: there is none.
        """
        raise MemoryError

    def trim(self) -> int:
        """Give idle memory back to the system; return how many bytes that were."""
        return 0

    # -- what is the same for all --------------------------------------------------------------------------------------

    def allocate(self, nbytes: int, holder: str = "") -> Allocation:
        """Return a new span; its content is undefined. `holder` names it in messages.

        Raises:
            OutOfMemoryError: the limit or the memory of the place is reached; lists the largest holders.
            ArgumentError: a negative size.
        """
        if nbytes < 0:
            raise ArgumentError(f"cannot allocate {nbytes} < 0 bytes at {self.place}")
        found = self._attempt(nbytes, holder)
        return self._allocate_hard(nbytes, holder) if found is None else found

    @alone
    def _attempt(self, nbytes: int, holder: str) -> Allocation | None:
        if self._returned:
            self._drain()
        in_use = self._in_use + nbytes
        if self.limit_bytes is not None and in_use > self.limit_bytes:
            return None
        taken = self._take(nbytes)
        if taken is None:
            return None
        owner, address, memory, block = taken
        self._live[_Owned(owner, self._note_death)] = (address, nbytes, block, holder)
        self._in_use = in_use
        if in_use > self._peak:
            self._peak = in_use
        self._count += 1
        self._total += 1
        return Allocation(self.place, address, nbytes, memory=memory, owner=owner)

    def _allocate_hard(self, nbytes: int, holder: str) -> Allocation:
        """Allocate where the first attempt found no room: grow; then collect garbage and give idle memory back."""
        for last in (False, True):
            relation = self._over_limit(nbytes)
            error: MemoryError | None = None
            while relation is None and error is None:
                error = self._try_to_grow(nbytes, holder)
                found = self._attempt(nbytes, holder)  # another thread may take what has just been got
                if found is not None:
                    return found
                relation = self._over_limit(nbytes)
            if last:
                raise self._exhausted(nbytes, holder, relation, error) from error
            gc.collect()  # what only cycles hold would else count as in use
            self.trim()
        raise AssertionError("the last round returns or raises")

    def _try_to_grow(self, nbytes: int, holder: str) -> MemoryError | None:
        try:
            self._grow(nbytes, holder)
        except MemoryError as error:  # OutOfMemoryError of an allocator below is one
            return error
        return None

    def _over_limit(self, nbytes: int) -> str | None:
        limit, in_use = self.limit_bytes, self.statistics.in_use_bytes
        if limit is None or in_use + nbytes <= limit:
            return None
        return f"{in_use} in use + {nbytes} asked for > limit of {limit} bytes at {self.place}"

    def deallocate(self, allocation: Allocation) -> None:
        """Close `allocation`; NumPy views of it keep the memory, and it counts as in use, until they die.

        Raises:
            ArgumentError: it is closed already, or comes from another allocator.
        """
        if not any(reference in self._live for reference in weakref.getweakrefs(allocation.owner)):
            reason = "was given back before" if allocation.closed else "comes from another allocator"
            raise ArgumentError(f"cannot give back {allocation}: it {reason}", hint="give each span back once")
        allocation.close()

    @property
    def statistics(self) -> AllocatorStatistics:
        """The figures now."""
        return AllocatorStatistics(*self._figures())

    @alone
    def _figures(self) -> tuple[int, int, int, int, int]:
        self._drain()
        return self._in_use, self._peak, self._reserved, self._count, self._total

    @alone
    def reset_peak(self) -> None:
        """Let `peak_bytes` start again from what is in use."""
        self._drain()
        self._peak = self._in_use

    def largest_holders(self, count: int = _HOLDERS_SHOWN) -> list[tuple[str, int]]:
        """Return (holder, bytes) of the largest living spans, largest first."""
        return sorted(self._holders(), key=lambda pair: -pair[1])[:count]

    @alone
    def _holders(self) -> list[tuple[str, int]]:
        self._drain()
        return [(holder, nbytes) for _, nbytes, _, holder in self._live.values()]

    def _exhausted(self, nbytes: int, holder: str, relation: str | None, error: MemoryError | None) -> OutOfMemoryError:
        whom = f" for {holder}" if holder else ""
        if relation is None:
            below = f": {error.message}" if isinstance(error, OutOfMemoryError) else ""
            relation = f"{self.place} has no more memory{below}"
        largest = ", ".join(f"{name if name else 'unnamed'} {size}" for name, size in self.largest_holders())
        holders = f"largest holders in bytes: {largest if largest else 'none'}"
        return OutOfMemoryError(
            f"cannot allocate {nbytes} bytes{whom}: {relation}; {holders}",
            hint="free blobs, use a smaller batch, or raise the allocator's limit_bytes",
        )

    def leave_fork(self) -> None:
        """Forget, in a forked child, that another thread was at work here; it may have lost a block to nobody."""
        self._lock = freed_in_child(threading.RLock())
        self._busy = False

    def _drain(self) -> None:
        while self._returned:
            noted = self._live.pop(self._returned.popleft(), None)
            if noted is None:
                continue  # it was interrupted before it became a span
            address, nbytes, block, _ = noted
            self._in_use -= nbytes
            self._count -= 1
            self._give(address, nbytes, block)

    def __repr__(self) -> str:
        figures = self.statistics
        return (
            f"{type(self).__name__}({self.place}, {figures.in_use_bytes} bytes in use, {figures.reserved_bytes} held)"
        )


class _Owned(weakref.ref[Any]):
    """A living span: tells when its owner dies."""

    __slots__ = ()

    # A plain weak reference compares its referents, which are arrays here.
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def _is_beyond_memory(nbytes: int) -> bool:
    """Whether so much is more than there is: the system would give it, and end some process once it is written to."""
    left = available_bytes()
    return left is not None and nbytes > left


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

    def _take(self, nbytes: int) -> Taken | None:
        if nbytes > sys.maxsize - ALIGNMENT or (nbytes >= LARGE_BYTES and _is_beyond_memory(nbytes)):
            return None
        taken = nbytes + ALIGNMENT
        try:
            owner = np.empty(taken, _BYTE)
        except (MemoryError, ValueError):  # NumPy has ValueError for more than an address can hold
            return None
        base = addressof(_first_byte(owner))  # what it is is known: none of the questions of `address_of`
        start = -base % ALIGNMENT
        self._reserved += taken
        return owner, base + start, owner[start : start + nbytes], None

    def _give(self, address: int, nbytes: int, block: Any) -> None:
        self._reserved -= nbytes + ALIGNMENT


class PinnedAllocator(Allocator):
    """Interface of page-locked memory, which a device floor brings by registering a subclass with priority 1."""

    def allocate(self, nbytes: int, holder: str = "") -> Allocation:
        """Say that there is no such memory.

        Raises:
            UnavailableError: always.
        """
        raise UnavailableError(
            f"pinned memory is not available: {nbytes} bytes asked for, and no device that pins memory is loaded",
            hint="load the CUDA device first, or use CPUPlace()",
        )

    def _take(self, nbytes: int) -> Taken | None:
        return None

    def _give(self, address: int, nbytes: int, block: Any) -> None:
        raise AssertionError("nothing was taken")


# -- allocators by name ------------------------------------------------------------------------------------------------

_POLICIES = "tazza.tensor.allocators"


@cache
def _policies() -> frozenset[str]:
    package = importlib.import_module(_POLICIES)
    return frozenset(module.name for module in pkgutil.iter_modules(package.__path__))


def _load_policy(name: str) -> None:
    if name in _policies():
        importlib.import_module(f"{_POLICIES}.{name}")


ALLOCATORS: Registry[str, Callable[[Place], Allocator]] = Registry(
    "allocator of place kind", loader=_load_policy, listed=_policies
)
"""Makes an allocator for a place. A kind of place (`Place.kind`) names its usual one; the modules of the package
`allocators` bring policies (buddy, arena, caching), which cut up what the usual one of the place gives them."""


@ALLOCATORS.registering(CPU_KIND, help="ordinary memory, 64-byte aligned")
def _make_aligned(place: Place) -> Allocator:
    return AlignedAllocator()


@ALLOCATORS.registering("pinned", help="unavailable until a device floor replaces it")
def _make_pinned(place: Place) -> Allocator:
    return PinnedAllocator(place)


_made: dict[tuple[str, Place], tuple[Callable[[Place], Allocator], Allocator]] = {}
_made_lock = freed_in_child(threading.RLock())  # a policy asks for the allocator below it


def _leave_fork() -> None:
    """Replace all locks: threads that held one when the process was forked will never release it in the child."""
    global _made_lock
    _made_lock = freed_in_child(threading.RLock())
    for allocator in list(_living):
        allocator.leave_fork()


in_forked_child(_leave_fork)


def allocator_of(place: Place, name: str | None = None) -> Allocator:
    """Return the one allocator of that name for `place`; None is the usual one of the place.

    A maker that was registered later with a higher priority replaces it.

    Raises:
        NotFoundError: no floor brings memory of this kind, or an allocator of this name.
        ArgumentError: the name is that of another kind of place.

    >>> allocator_of(CPUPlace(), "buddy") is allocator_of(CPUPlace(), "buddy")
    True
    """
    key = place.kind if name is None else name
    maker = ALLOCATORS[key]
    made = _made.get((key, place))
    if made is not None and made[0] is maker:
        return made[1]
    if key in PLACE_KINDS and key != place.kind:
        raise ArgumentError(f"allocator {key!r} does not serve {place}", hint=f"use {place.kind!r} or a policy")
    with _made_lock:
        made = _made.get((key, place))
        if made is None or made[0] is not maker:
            made = _made[key, place] = (maker, maker(place))
        return made[1]


def made_allocators() -> dict[tuple[str, Place], Allocator]:
    """Return the shared allocators that were asked for so far, by name and place."""
    with _made_lock:
        return {key: allocator for key, (_, allocator) in _made.items()}


def default_allocator() -> Allocator:
    """Return the allocator of ordinary memory."""
    return allocator_of(CPUPlace())


_usual: dict[Place, tuple[int, Allocator]] = {}
"""For each place the allocator that `allocator_of` gave at a generation of the registry: every tensor asks for it."""

_chosen: ContextVar[dict[Place, Allocator] | None] = ContextVar("tazza_allocators", default=None)


def current_allocator(place: Place) -> Allocator:
    """Return the allocator that new tensors at `place` get their memory from in this thread.

    Raises:
        NotFoundError: no floor brings memory of this kind.
    """
    chosen = _chosen.get()
    found = None if chosen is None else chosen.get(place)
    if found is not None:
        return found
    usual = _usual.get(place)
    if usual is not None and usual[0] == ALLOCATORS.generation:
        return usual[1]
    generation = ALLOCATORS.generation  # read first: a maker that comes meanwhile counts the next time
    found = allocator_of(place)
    _usual[place] = generation, found
    return found


def new_array(shape: Sequence[int], dtype: npt.DTypeLike, holder: str = "") -> npt.NDArray[Any]:
    """Return an array for a result or for work, in memory of the allocator in force; its content is undefined.

    Raises:
        OutOfMemoryError: there is not that much, or it is over the allocator's limit.

    >>> with using_allocator(AlignedAllocator()) as allocator:
    ...     new_array((2, 3), np.float32).shape, allocator.statistics.total_count
    ((2, 3), 1)
    """
    kind = numpy_dtype(dtype)
    nbytes = math.prod(shape) * kind.itemsize
    span = current_allocator(CPUPlace()).allocate(nbytes, holder)
    return np.ndarray(tuple(shape), kind, span.buffer)


@contextmanager
def using_allocator(which: str | Allocator, place: Place | None = None) -> Generator[Allocator]:
    """Let tensors of this thread (or task) take memory from `which` while the block runs; blocks nest.

    `which` is an allocator, which serves its own place, or a name of `ALLOCATORS`, made for `place` (by default the
    place that the name is, else the CPU). Tensors at other places are not touched, nor is memory that tensors have.

    Raises:
        NotFoundError: there is no allocator of this name.
        ArgumentError: the allocator does not serve `place`.

    >>> with using_allocator("caching") as allocator:
    ...     current_allocator(CPUPlace()) is allocator
    True
    """
    if isinstance(which, Allocator):
        allocator = which
        if place is not None and place != which.place:
            raise ArgumentError(f"allocator of {which.place} does not serve {place}")
    else:
        usual = Place.parse(which) if which in PLACE_KINDS else CPUPlace()
        allocator = allocator_of(usual if place is None else place, which)
    former = _chosen.get()
    token = _chosen.set({**({} if former is None else former), allocator.place: allocator})
    try:
        yield allocator
    finally:
        _chosen.reset(token)
