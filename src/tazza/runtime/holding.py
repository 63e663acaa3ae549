"""Locks that are free again whatever interrupts their holder.

CPython looks for signals, and raises KeyboardInterrupt for a Ctrl-C, when a function begins, at jumps backwards, and
behind every call of a C function, before its result is used. So whoever takes something by a call, and notes that in
the next step, may be interrupted in between; and what a function written in Python gives back may be kept, because
that function never began. There are three forms in which nothing is lost:

- `with lock:` on a lock of C (`threading.Lock`, `threading.RLock`): nobody looks between taking it and the block.
- An object of Python that has C's methods for `with`: `Held`, `Conditional`; `InForce` has one to leave by.
- Taking and noting in one step, inside of a `try` whose `finally` looks at the note and begins with what gives back:
  an assignment, `(seat,) = map(deque.pop, [free])` (what C yields is stored before anybody looks), or an owner that
  was made before and is compared by identity.
"""

from __future__ import annotations

import threading
from _thread import RLock
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from tazza.runtime.fork import freed_in_child


class Held:
    """Base of what is held in a `with` block; its lock's own methods enter and leave.

    >>> held = Held()
    >>> with held:
    ...     held.held
    True
    """

    __slots__ = ("__enter__", "__exit__", "_lock")

    __enter__: Callable[[], bool]
    __exit__: Callable[..., None]

    def __init__(self) -> None:
        """Hold nothing."""
        self._lock = lock = freed_in_child(threading.Lock())
        self.__enter__, self.__exit__ = lock.__enter__, lock.__exit__

    @property
    def held(self) -> bool:
        """Whether somebody is inside at this moment."""
        return self._lock.locked()


class InForce(RLock):  # pyright: ignore[reportGeneralTypeIssues] -- C allows it
    """Base of what is in force in this thread while a block lasts: its lock is held, and C releases it.

    Whoever asks for the innermost one looks at the lock (`living`), so that nothing has to be put back. One object is
    in one block at a time.
    """

    outer: Any = None

    def begin(self, top: Any) -> None:
        """Hold the lock, beneath the innermost one that is in force; the caller stores it in one step, as the last."""
        self.acquire()
        self.outer = top if top is not self else top.outer

    def living(self) -> Self | None:
        """Return this one, or the first around it that is in force."""
        found: Any = self
        while found is not None and not found._is_owned():
            found = found.outer
        return found


class Conditional(threading.Condition):
    """A condition that is entered and left by its lock's own methods, and held again whenever a wait ends."""

    __slots__ = ("__enter__", "__exit__", "_mine", "_waits")

    def __init__(self) -> None:
        """Make a lock of its own, which is not entered twice."""
        super().__init__()
        base: Any = self
        self._mine: Any = base._lock
        self._waits: deque[threading.Lock] = base._waiters
        lock: Any = freed_in_child(self._mine)
        self.__enter__, self.__exit__ = lock.__enter__, lock.__exit__

    def wait(self, timeout: float | None = None) -> bool:
        """Let others in until they notify; False when `timeout` seconds passed first."""
        gate, told = threading.Lock(), False
        gate.acquire()
        try:
            self._waits.append(gate)
            self._mine.release()
            (told,) = map(gate.acquire, (True,), (-1 if timeout is None else max(timeout, 0.0),))
        finally:
            try:
                if not self._mine._is_owned():
                    self._mine.acquire()
            finally:  # an interrupt may come between asking and taking
                if not self._mine._is_owned():
                    self._mine.acquire()
            if not told and gate in self._waits:
                self._waits.remove(gate)
        return told
