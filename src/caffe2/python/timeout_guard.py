"""Calls that have to end in time: where one does not, the process gets Ctrl-C, and is ended if it stays."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal
import threading
from collections.abc import Generator

GRACE_S = 10.0
"""So long the process may take to end by itself."""


class WatcherThread(threading.Thread):
    """Ends the process once the time is over, unless it was told that all is well."""

    def __init__(self, timeout_secs: float) -> None:
        """Take the time in seconds."""
        super().__init__(daemon=True)
        self.timeout_secs = timeout_secs
        self.done = threading.Event()

    @property
    def completed(self) -> bool:
        """Whether it was told that all is well."""
        return self.done.is_set()

    def run(self) -> None:
        """Wait, and end the process where nothing came."""
        if self.done.wait(self.timeout_secs):
            return
        told = logging.getLogger("timeout_guard")
        told.error("Call did not finish in time. Timeout:%ss PID: %s", self.timeout_secs, os.getpid())
        faulthandler.dump_traceback()
        os.kill(os.getpid(), signal.SIGINT)
        if not self.done.wait(GRACE_S):
            faulthandler.dump_traceback()
            told.error("Process did not terminate cleanly in %s s, forcing", GRACE_S)
            os.abort()


@contextlib.contextmanager
def CompleteInTimeOrDie(timeout_secs: float) -> Generator[None]:
    """End the process if what stands inside takes longer."""
    watcher = WatcherThread(timeout_secs)
    watcher.start()
    try:
        yield
    finally:
        watcher.done.set()


def EuthanizeIfNecessary(timeout_secs: float = 120) -> None:
    """End the process if it is still there so many seconds later."""
    WatcherThread(timeout_secs).start()
