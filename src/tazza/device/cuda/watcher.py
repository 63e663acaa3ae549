"""Who asks events of a device whether they have ended, for those who want to be called then.

A thread asks all of them again and again, every `PAUSE_S`, while there are any. The driver could call by itself, by a
host function in a stream behind the event: but not when the work fails, in a thread where its library may not be
called, and only after all else that the stream has got meanwhile, which may be waiting for that very call.

State: `_pending` and `_running` change under `_lock`. Invariant: where something is pending, the thread runs or was
asked to.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from tazza.runtime.fork import freed_in_child
from tazza.runtime.log import logger
from tazza.runtime.workers import WorkerPool

PAUSE_S = 1e-4
"""How long the thread sleeps between two rounds."""


class Askable(Protocol):
    """What tells whether it has ended."""

    def query(self) -> bool:
        """Whether the work has ended; raises what it failed with."""
        ...


class Watcher:
    """Calls back when events have ended.

    >>> class Ended:
    ...     def query(self): return True
    >>> told = threading.Event(); Watcher("doctest").watch(Ended(), told.set); told.wait(5)
    True
    """

    def __init__(self, name: str) -> None:
        """Start no thread yet; `name` is what it will be called."""
        self._threads = WorkerPool(1, name)
        self._lock = freed_in_child(threading.Lock())
        self._pending: list[tuple[Askable, Callable[[], None]]] = []
        self._running = False

    def watch(self, event: Askable, callback: Callable[[], None]) -> None:
        """Call `callback()` in the watcher's thread when `event` has ended or failed."""
        with self._lock:
            self._pending.append((event, callback))
            if not self._running:
                self._threads.submit(self._run)
                self._running = True

    def _run(self) -> None:
        while True:
            with self._lock:
                pending, self._pending = self._pending, []
            left = [(event, callback) for event, callback in pending if not self._told(event, callback)]
            told = len(left) < len(pending)
            del pending  # what was told is kept no longer
            with self._lock:
                self._pending[:0] = left
                if not self._pending:
                    self._running = False
                    return
            del left
            if not told:
                time.sleep(PAUSE_S)

    def _told(self, event: Askable, callback: Callable[[], None]) -> bool:
        try:
            if not event.query():
                return False
        except Exception as error:  # whoever is called asks again, and is told of it
            logger.debug("an event of a device failed: %s", error)
        try:
            callback()
        except Exception:
            logger.exception("callback %r of a device's event failed", callback)
        return True
