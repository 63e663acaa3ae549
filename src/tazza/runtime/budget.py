"""Threads as a good that workers share: each takes as many as its operator runs on, and waits where they are taken.

So operators that need all threads and operators that need one run side by side on no more threads than there are.

State: `_free` and `_waiting` change under `_lock`. Invariant: somebody waits only while fewer threads are free than the
first in line wants. Whoever waits is served in turn, so that one who wants many is not passed over for ever. A thread
that is interrupted (Ctrl-C) between two calls may keep what it took: `lift` lets the others end all the same, and
`reset` starts anew.
"""

from __future__ import annotations

import threading
import time
from collections import deque

from tazza.runtime.fork import freed_in_child
from tazza.runtime.waiting import note_wait

LIFTED = 1 << 40
"""More threads than anybody takes."""


class ThreadBudget:
    """A number of threads that are taken and given back.

    >>> budget = ThreadBudget(2); budget.take(2); budget.free, budget.give(2), budget.free
    (0, None, 2)
    """

    __slots__ = ("_lock", "_waiting", "free", "total")

    def __init__(self, total: int) -> None:
        """All `total` threads (1 or more) are free."""
        self.total = total
        self.free = total
        self._lock = freed_in_child(threading.Lock())
        self._waiting: deque[tuple[int, threading.Lock]] = deque()

    @property
    def wanted(self) -> bool:
        """Whether somebody waits for threads."""
        return bool(self._waiting)

    def take(self, count: int) -> None:
        """Take `count` threads, no more than all; blocks until they are free. None are there at once."""
        if count == 0:  # it would wait behind others for nothing
            return
        with self._lock:
            if self.free >= count and not self._waiting:
                self.free -= count
                return
            turn = threading.Lock()
            turn.acquire()
            self._waiting.append((count, turn))
        started = time.perf_counter()
        try:
            turn.acquire()
            note_wait(started, time.perf_counter())
        except BaseException:  # an interrupted wait leaves the line, or gives back what it was served meanwhile
            self._leave(count, turn)
            raise

    def give(self, count: int) -> None:
        """Give back `count` threads."""
        with self._lock:
            self.free += count
            self._serve()

    def _serve(self) -> None:
        while self._waiting and self._waiting[0][0] <= self.free:
            wanted, turn = self._waiting[0]
            self.free -= wanted
            if turn.locked():  # else who served it was interrupted before the next line
                turn.release()
            self._waiting.popleft()

    def lift(self) -> None:
        """Let everybody have what they want until `reset`, whoever waits now first."""
        self.give(LIFTED)

    def reset(self) -> None:
        """Have all threads free; for when nobody holds or wants any."""
        with self._lock:
            self.free = self.total
            self._waiting.clear()

    def _leave(self, count: int, turn: threading.Lock) -> None:
        with self._lock:
            if (count, turn) in self._waiting:
                self._waiting.remove((count, turn))
            else:
                self.free += count
            self._serve()
