"""Caches: what is kept so that it need not be made again, each with a name, a bound, counts, and one way to forget.

    PRIMITIVES: Cache[Key, Primitive] = Cache("primitives", entries=2048)
    found = PRIMITIVES.get(key)
    if found is None:
        PRIMITIVES.put(key, found := make(key))

What was not asked for the longest goes first, and the entry that was put in last always stays. `another` makes a cache
of the same name for an owner of its own, such as a net; `remembered` keeps the results of a function. `statistics`
tells of all that live, by name: `tazza doctor --memory` prints it.

Two rules hold for all. Flags: what depends on flags of kernels (`kernels=True`) is found under the values that it was
made under only, and again when they return. Fork: a child has what its parent had, but a cache that another thread was
changing at that moment is empty there.

State: `_living`, weakly; the entries and counts of each cache, under its lock.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any, Generic, ParamSpec, TypeVar, cast

from tazza.data_class import dataclass
from tazza.runtime.flags import Flag, kernel_changes, kernel_flags
from tazza.runtime.fork import in_forked_child, is_free

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
P = ParamSpec("P")
R = TypeVar("R")

COUNTED = ("caches", "held", "nbytes", "hits", "misses", "evictions")
"""What adds up over caches of one name."""


@dataclass(frozen=True, slots=True)
class CacheStatistics:
    """How caches of one name do together; the bounds are those of each.

    Attributes:
        name: theirs.
        caches: how many live.
        held: entries of all.
        bound: the most entries of one.
        nbytes: what their owners said that the entries take; 0 where nobody counts.
        bound_bytes: the most of one; None where entries alone are bounded.
        hits: how often they had what was asked for.
        misses: how often not.
        evictions: how often an entry had to go for another.
    """

    name: str
    caches: int
    held: int
    bound: int
    nbytes: int
    bound_bytes: int | None
    hits: int
    misses: int
    evictions: int

    def __add__(self, other: CacheStatistics) -> CacheStatistics:
        sums = {name: getattr(self, name) + getattr(other, name) for name in COUNTED}
        most = self.bound_bytes if other.bound_bytes is None else other.bound_bytes
        return replace(self, bound=max(self.bound, other.bound), bound_bytes=most, **sums)


class Cache(Generic[K, V]):
    """At most so many entries, of so many bytes; what nobody asked for the longest goes first.

    >>> squares = Cache[int, int]("squares", 2)
    >>> for number in (1, 2, 3):
    ...     squares.put(number, number**2)
    >>> squares.get(1), squares.get(3), len(squares)
    (None, 9, 2)
    """

    __slots__ = (
        "__weakref__",
        "_bytes",
        "_counts",
        "_dropped",
        "_entries",
        "_kept",
        "_kernels",
        "_lock",
        "_most",
        "name",
    )

    def __init__(
        self,
        name: str,
        entries: int | Flag[int],
        nbytes: int | Callable[[], int] | None = None,
        *,
        kernels: bool = False,
        dropped: Callable[[V], object] | None = None,
    ) -> None:
        """Start empty.

        Args:
            name: one for all caches that hold the same kind of thing.
            entries: the most of them.
            nbytes: the most bytes, as `put` is told of them; the latest entry may have more.
            kernels: entries depend on flags of kernels.
            dropped: gets what the bound or `clear` put out.
        """
        self.name = name
        self._entries, self._most, self._kernels, self._dropped = entries, nbytes, kernels, dropped
        # A plain one: an interrupt (Ctrl-C) within the hash of a key leaves an OrderedDict in parts.
        self._kept: dict[Hashable, tuple[V, int]] = {}
        self._bytes = 0
        self._counts = [0, 0, 0]  # hits, misses, evictions
        self._lock = threading.RLock()
        _living.add(weakref.ref(self, _living.discard))

    def another(self) -> Cache[K, V]:
        """Return an empty one of the same name and bounds, for another owner."""
        return type(self)(self.name, self._entries, self._most, kernels=self._kernels, dropped=self._dropped)

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def bound(self) -> int:
        """The most entries."""
        return self._entries if isinstance(self._entries, int) else self._entries.value

    @property
    def bound_bytes(self) -> int | None:
        """The most bytes."""
        return self._most() if callable(self._most) else self._most

    @property
    def nbytes(self) -> int:
        """What the entries take."""
        return self._bytes

    def values(self) -> list[V]:
        """Return what is kept, what was asked for last at the end."""
        with self._lock:
            return [value for value, _ in self._kept.values()]

    def get(self, key: K) -> V | None:
        """Return what is kept under a key, which is used now, or None."""
        known: Hashable = (_flags_now(), key) if self._kernels else key
        with self._lock:
            found = self._kept.get(known)
            if found is None:
                self._counts[1] += 1
                return None
            self._counts[0] += 1
            self._kept[known] = self._kept.pop(known)
            return found[0]

    def put(self, key: K, value: V, nbytes: int = 0) -> None:
        """Keep a value, in place of the one of that key; what is beyond the bound goes."""
        known: Hashable = (_flags_now(), key) if self._kernels else key
        with self._lock:
            former = self._kept.pop(known, None)
            self._kept[known] = value, nbytes
            self._bytes += nbytes - (0 if former is None else former[1])
        self.trim()

    def take(self, key: K) -> V | None:
        """Return what is kept under a key and keep it no more: nobody else gets it until it is put back."""
        known: Hashable = (_flags_now(), key) if self._kernels else key
        with self._lock:
            found = self._kept.pop(known, None)
            self._counts[found is None] += 1
            if found is None:
                return None
            self._bytes -= found[1]
            return found[0]

    def trim(self) -> None:
        """Let go of what is beyond the bound, such as after an entry has grown."""
        gone: list[V] = []
        with self._lock:
            while len(self._kept) > 1 and self.is_over():
                value, nbytes = self._kept.pop(next(iter(self._kept)))
                self._bytes -= nbytes
                self._counts[2] += 1
                gone.append(value)
        self._let_go(gone)

    def is_over(self) -> bool:
        """Whether there are more entries, or bytes, than the bound allows."""
        most = self.bound_bytes
        return len(self._kept) > self.bound or (most is not None and self.nbytes > most)

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            gone = self.values()
            self._kept.clear()
            self._bytes = 0
        self._let_go(gone)

    def _let_go(self, gone: list[V]) -> None:
        """Tell of what went: outside of the lock, as are the values' own ends."""
        if self._dropped is not None:
            for value in gone:
                self._dropped(value)

    @property
    def statistics(self) -> CacheStatistics:
        """How it does."""
        with self._lock:
            held, nbytes, counts = len(self._kept), self.nbytes, tuple(self._counts)
        return CacheStatistics(self.name, 1, held, self.bound, nbytes, self.bound_bytes, *counts)

    def leave_fork(self) -> None:
        """Be free in a child; empty where another thread was inside, which may have left it half-changed."""
        if is_free(self._lock):
            return
        self._lock = threading.RLock()
        self._kept = {}
        self._bytes = 0


class Remembered(Generic[R]):
    """The last results of a function whose result depends on nothing but its arguments; `call` asks them first.

    What keeps them is `functools.lru_cache`, since a hit of it takes a third of the time of `Cache.get`.
    """

    def __init__(self, name: str, entries: int, function: Callable[..., R]) -> None:
        """Remember nothing yet."""
        self.name = name
        self.bound = entries
        self.function = function
        self.call = functools.lru_cache(maxsize=entries)(self._compute)
        functools.update_wrapper(self.call, function)
        _living.add(weakref.ref(self, _living.discard))

    def _compute(self, *arguments: Any, **named: Any) -> R:
        return self.function(*arguments, **named)

    def clear(self) -> None:
        """Forget all."""
        self.call.cache_clear()

    @property
    def statistics(self) -> CacheStatistics:
        """How it does; what raised is a miss of which nothing is kept, and counts as if it had gone."""
        found = self.call.cache_info()
        gone = found.misses - found.currsize
        return CacheStatistics(self.name, 1, found.currsize, self.bound, 0, None, found.hits, found.misses, gone)

    def leave_fork(self) -> None:
        """Stay as it is: it is whole between two steps of the interpreter."""


def remembered(name: str, entries: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that keeps the last results of a function, which are known by its arguments alone.

    >>> @remembered("doubles", 2)
    ... def double(x: int) -> int:
    ...     return 2 * x
    >>> double(2), double(2), [one.hits for one in statistics() if one.name == "doubles"]
    (4, 4, [1])
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        kept = Remembered(name, entries, function)
        cast("Any", kept.call).kept = kept  # which lives as long as the function
        return cast("Callable[P, R]", kept.call)

    return decorate


_living: set[weakref.ref[Any]] = set()


def living() -> list[Cache[Any, Any] | Remembered[Any]]:
    """Return all caches of the process."""
    return [cache for reference in list(_living) if (cache := reference()) is not None]


def statistics() -> list[CacheStatistics]:
    """Return how all caches of the process do, those of one name together, by name."""
    found: dict[str, CacheStatistics] = {}
    for cache in living():
        one = cache.statistics
        found[one.name] = found[one.name] + one if one.name in found else one
    return [found[name] for name in sorted(found)]


def clear(name: str | None = None) -> None:
    """Forget what caches of a name hold, or all caches; what somebody uses now lives on."""
    for cache in living():
        if name is None or cache.name == name:
            cache.clear()


_under: tuple[int, Hashable] = (-1, ())


def _flags_now() -> Hashable:
    """Return `kernel_flags()`, read again after a change alone."""
    global _under
    changes, found = _under
    if changes != kernel_changes():
        changes = kernel_changes()  # before the values: a change in between is seen by the next call
        found = kernel_flags()
        _under = changes, found
    return found


def _leave_fork() -> None:
    for cache in living():
        cache.leave_fork()


in_forked_child(_leave_fork)
