"""Hazards between pieces of work that are queued one by one: who has to end before the next one starts.

    before = hazards.before(reads, writes); hazards.note(work, reads, writes)

Work depends on earlier work where one of them writes a variable that the other one reads or writes (read after write,
write after read, write after write). A variable is anything hashable; a tensor stands for its storage, so that views of
one storage are one variable. Storages are told apart by identity: two that were made on one span of memory by hand are
two variables.

State: for each variable its last writer, and the readers since. Invariant: work that is *forgotten* (it has ended
well) is never returned, and is dropped when its variable is met again or at the next sweep, which comes when there are
twice as many variables as the last one left. Whoever uses this holds a lock.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, Protocol, TypeVar

from tazza.errors import ArgumentError
from tazza.tensor import Storage, Tensor

Variable = Hashable | Tensor | Storage
"""What work reads and writes."""

SWEEP_MIN = 64
"""Variables and readers from which on it is worth while to look for those that can go."""


class Tracked(Protocol):
    """A piece of work, as far as hazards go."""

    @property
    def serial(self) -> int:
        """Its number; later work has a higher one."""
        ...

    @property
    def forgotten(self) -> bool:
        """Whether nobody has to wait for it any more."""
        ...

    @property
    def broken(self) -> bool:
        """Whether it has failed: kept, so that those who depend on it are told."""
        ...


T = TypeVar("T", bound=Tracked)


class _Use(Generic[T]):
    """What was last done to a variable."""

    __slots__ = ("readers", "readers_max", "writer")

    def __init__(self) -> None:
        self.writer: T | None = None
        self.readers: list[T] = []
        self.readers_max = SWEEP_MIN

    def clean(self, *, broken: bool = False) -> bool:
        """Drop what can go, what failed too if asked; return whether nothing is left. One failed reader is enough."""
        if self.writer is not None and (self.writer.forgotten or (broken and self.writer.broken)):
            self.writer = None
        readers = [reader for reader in self.readers if not reader.forgotten]
        failed = [] if broken else [reader for reader in readers if reader.broken][:1]
        self.readers = [*failed, *(reader for reader in readers if not reader.broken)]
        self.readers_max = SWEEP_MIN + 2 * len(self.readers)
        return self.writer is None and not self.readers


class Hazards(Generic[T]):
    """Last writers and readers of variables."""

    def __init__(self) -> None:
        """Start without any."""
        self._uses: dict[Hashable, _Use[T]] = {}
        self._uses_max = SWEEP_MIN

    def __len__(self) -> int:
        """Return the number of variables that are kept."""
        return len(self._uses)

    def before(self, reads: Iterable[Hashable], writes: Iterable[Hashable]) -> list[T]:
        """Return the work that has to end before work with these accesses starts, the latest first, each once."""
        found: dict[int, T] = {}
        for variable in reads:
            use = self._uses.get(variable)
            if use is not None and use.writer is not None:
                found[use.writer.serial] = use.writer
        for variable in writes:
            use = self._uses.get(variable)
            if use is not None:
                found.update((reader.serial, reader) for reader in use.readers)
                if use.writer is not None:
                    found[use.writer.serial] = use.writer
        return [found[serial] for serial in sorted(found, reverse=True) if not found[serial].forgotten]

    def writers(self, variables: Iterable[Hashable]) -> list[T]:
        """Return the last writers of variables, each once, the latest first."""
        return self.before(variables, ())

    def note(self, work: T, reads: Iterable[Hashable], writes: Iterable[Hashable]) -> None:
        """Remember what `work` does."""
        written = set(writes)
        for variable in written:
            use = self._use(variable)
            use.writer = work
            use.readers = []
        for variable in set(reads) - written:
            use = self._use(variable)
            use.readers.append(work)
            if len(use.readers) > use.readers_max:
                use.clean()
        if len(self._uses) > self._uses_max:
            self.sweep()

    def _use(self, variable: Hashable) -> _Use[T]:
        found = self._uses.get(variable)
        if found is None:
            found = self._uses[variable] = _Use()
        return found

    def forget_broken(self) -> None:
        """Drop what failed as well, and sweep."""
        self.sweep(broken=True)

    def sweep(self, *, broken: bool = False) -> None:
        """Drop all work that can go, and the variables of which nothing is left."""
        for variable in [variable for variable, use in self._uses.items() if use.clean(broken=broken)]:
            del self._uses[variable]
        self._uses_max = SWEEP_MIN + 2 * len(self._uses)


def variables_of(things: Iterable[Variable]) -> tuple[Hashable, ...]:
    """Return what tells the things apart: a tensor's storage, all else itself.

    Raises:
        ArgumentError: one of them is not hashable.

    >>> x = Tensor((2, 3)); variables_of([x, x.storage, "x"]) == (x.storage, x.storage, "x")
    True
    """
    found: list[Hashable] = []
    for thing in things:
        variable = thing.storage if isinstance(thing, Tensor) else thing
        try:
            hash(variable)
        except TypeError:
            raise ArgumentError(
                f"{type(thing).__name__} is not hashable, so it tells no variable apart", hint="give a name or a tensor"
            ) from None
        found.append(variable)
    return tuple(found)
