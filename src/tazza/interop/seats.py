"""A line before the seats of a predictor: who came first is served first, and nobody overtakes.

Constant state: how seats are made, and how many there may be. Changing state: `free` seats, the `line` of callers that
wait, and all seats that were made. A seat is taken from `free` by one step of the interpreter, without a lock, while
nobody waits. Where somebody does, seats go from `free` to the first in line, under `_lock`, by whoever notices: who
gives a seat back, or who waits; newcomers look at the line first, and go to its end. The list that a caller brought for
its seat tells what it holds, whatever interrupts it (Ctrl-C); a caller that was kept from serving the line does no
harm, since who waits looks again after `RECHECK_S`.

In a forked child the seats that were in use are gone, and so is the line: other threads did not come along.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from tazza.runtime.fork import in_forked_child

RECHECK_S = 0.05
"""Who waits for a seat looks again after this time."""
CLOSING_S = 1e-3
"""Who closes looks again after this time whether all seats came back."""

T = TypeVar("T")


class _Turn(Generic[T]):
    """A caller in line: `held` gets the seat, then `gate` opens."""

    __slots__ = ("gate", "held")

    def __init__(self, held: list[T]) -> None:
        self.held = held
        self.gate = threading.Lock()
        self.gate.acquire()


class Seats(Generic[T]):
    """Some things that callers use one at a time each.

    >>> seats = Seats("s", lambda: 1)
    >>> held = []; held += map(deque.pop, seats.ready); held, list(seats.free)
    (['s'], [])
    >>> seats.give_back(held); list(seats.free)
    ['s']
    """

    def __init__(self, first: T, most: Callable[[], int]) -> None:
        """Have one seat; `most` says how many there may be, at each moment."""
        self.free: deque[T] = deque([first])
        self.ready: tuple[deque[T]] = (self.free,)
        """Where seats may be taken: from nowhere after `close`."""
        self.line: deque[_Turn[T]] = deque()
        self._all = deque([first])
        self._most = most
        self._closed = False
        self._renew()
        _living.add(self)

    def _renew(self) -> None:
        self._lock = threading.Lock()
        self._making = threading.Lock()

    def leave_fork(self) -> None:
        """Forget callers that did not come along into this process, with their seats."""
        self._renew()
        self.line.clear()
        self._all = deque(self.free)

    def wait(self, held: list[T], make: Callable[[], T]) -> bool:
        """Wait until `held` has a seat, made anew where there may be more; False where all of them are closed."""
        turn = _Turn(held)
        try:
            self.line.append(turn)
            self.serve()
            while not held:
                if self._closed:
                    return False
                if len(self._all) < self._most():
                    self._grow(held, make)
                else:
                    turn.gate.acquire(timeout=RECHECK_S)
                    self.serve()
        finally:
            with self._lock:  # from here on nobody gives this caller a seat
                if turn in self.line:
                    self.line.remove(turn)
        return True

    def _grow(self, held: list[T], make: Callable[[], T]) -> None:
        with self._making:
            if held or len(self._all) >= self._most():
                return
            seat = make()
            # Both in one step: an interrupt between them would lose the seat.
            _, _ = map(deque[T].append, (self._all, self.free), (seat, seat))
        self.serve()

    def serve(self) -> None:
        """Give free seats to those who wait, in turn."""
        with self._lock:
            while self.line and self.free and not self._closed:
                turn = self.line[0]
                # Nobody looks for signals, and no other thread runs, between taking the seat and noting whose it is.
                turn.held += map(deque[T].pop, (self.free,))
                self.line.popleft()
                turn.gate.release()

    def give_back(self, held: list[T]) -> None:
        """Give seats back, to the first in line if there is one: whoever comes now goes to its end."""
        self.free.extend(held)
        if self.line:
            self.serve()

    def close(self) -> list[T]:
        """Let nobody take a seat any more, and return all of them once they are free; it may be called again."""
        self.ready = (deque(),)
        self._closed = True
        with self._lock:
            for turn in self.line:
                if turn.gate.locked():
                    turn.gate.release()
        while len(self.free) < len(self._all):
            time.sleep(CLOSING_S)
        return list(self._all)


_living: weakref.WeakSet[Seats[Any]] = weakref.WeakSet()


def _leave_fork() -> None:
    for seats in _living:
        seats.leave_fork()


in_forked_child(_leave_fork)
