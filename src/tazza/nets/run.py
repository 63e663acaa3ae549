"""A run of a net as something to hold: wait for it, be called back, cancel it, give it a deadline."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, cast

from tazza.device import Event
from tazza.errors import ArgumentError, DeadlineError, RunCancelledError, TazzaError
from tazza.runtime.fork import PROCESS, freed_in_child, left_in_parent
from tazza.runtime.holding import Conditional
from tazza.runtime.log import logger
from tazza.runtime.workers import start_thread, waiting_for_others


class Run(Future[None]):
    """One run of a net: a future whose result is None.

    A run that is cancelled, or whose deadline passes, ends at the next operator: what runs is drained first, so that
    nobody writes to a blob once the future is done. It then holds a `RunCancelledError` or a `DeadlineError`, and not
    the state `cancelled` of other futures. Thread-safe.

    >>> run = Run("doctest"); run.cancel(), run.cancelled()
    (True, False)
    """

    _asked = True  # until it has begun

    def __init__(self, net: str, timeout_s: float | None = None) -> None:
        """Start the clock.

        Raises:
            ArgumentError: a negative timeout.
        """
        super().__init__()
        self._condition = Conditional()
        if timeout_s is not None and not timeout_s >= 0:
            raise ArgumentError(f"net {net!r} cannot run for {timeout_s} seconds", hint="timeout_s is 0 or more")
        self.net = net
        self.event = Event()
        """Its end, as an event: what streams, and other threads, can wait for."""
        self.event.schedule()
        self._asked = False
        self.timeout_s = timeout_s
        self._ends_s = None if timeout_s is None else time.monotonic() + timeout_s
        self._cancelled = False
        self._stoppers: list[Callable[[], object]] = []
        self._clock: threading.Lock | None = None
        self._guard = freed_in_child(threading.Lock())
        self._forks = PROCESS.forks

    def _check_here(self) -> None:
        """Refuse to wait for a run of the process that this one was forked from."""
        if self._forks != PROCESS.forks and not self.done():
            raise left_in_parent(f"a run of net {self.net!r}")

    def add_done_callback(self, fn: Callable[[Future[None]], object]) -> None:
        """Call `fn(run)` when the run has ended; at once when it has."""
        self._check_here()
        super().add_done_callback(fn)

    def cancel(self) -> bool:
        """Ask the run to end at the next operator; False when it has ended already, or is that of a parent process."""
        if self._forks != PROCESS.forks:
            return False
        with self._guard:
            if self.done():
                return False
            self._cancelled = True
            stoppers = list(self._stoppers)
        for stop in stoppers:
            stop()
        return True

    def on_cancel(self, stop: Callable[[], object]) -> None:
        """Call `stop` when the run is cancelled; at once when it was."""
        with self._guard:
            self._stoppers.append(stop)
            late = self._cancelled
        if late:
            stop()

    def start_clock(self, stop: Callable[[], object]) -> None:
        """Call `stop` from another thread when the deadline has passed, unless the run has ended.

        For runs that nobody waits for: who waits looks at `left_s`.
        """
        left = self.left_s
        if left is not None and left < threading.TIMEOUT_MAX:
            self._clock = ended = threading.Lock()
            ended.acquire()

            def watch() -> None:
                if not ended.acquire(timeout=left + 1e-3):
                    stop()

            start_thread(threading.Thread(target=watch, name=f"tazza-clock-{self.net}", daemon=True))

    def stop_clock(self) -> None:
        """Let the deadline pass unseen."""
        with self._guard:
            ended, self._clock = self._clock, None
            if ended is not None:
                ended.release()

    def end(self, error: BaseException | None) -> None:
        """Say that the run has ended, and forget what it was stopped by; once more where that was interrupted."""
        with self._guard:
            self._stoppers.clear()
        self.stop_clock()
        if error is not None and not isinstance(error, Exception):
            self._asked = True  # whoever was interrupted knows
        try:
            if self.done():
                with self._condition:
                    self._condition.notify_all()
                cast("Any", self)._invoke_callbacks()
            elif error is None:
                self.set_result(None)
            else:
                self.set_exception(error)
        finally:
            if not self.event.query():
                self.event.finish(error)

    @property
    def left_s(self) -> float | None:
        """Seconds until the deadline, at least 0; None without one."""
        return None if self._ends_s is None else max(0.0, self._ends_s - time.monotonic())

    def why_stop(self) -> TazzaError | None:
        """Return the error that the run has to end with, None when it may go on."""
        if self._cancelled:
            return RunCancelledError(f"the run of net {self.net!r} was cancelled")
        if self._ends_s is not None and time.monotonic() >= self._ends_s:
            return DeadlineError(
                f"net {self.net!r} did not end within {self.timeout_s} s",
                hint="give it more time, or look at a profile",
            )
        return None

    def check(self) -> None:
        """Raise what `why_stop` says, if it says something."""
        reason = self.why_stop()
        if reason is not None:
            try:
                raise reason
            finally:
                del reason  # its traceback holds this frame

    def result(self, timeout: float | None = None) -> None:
        """Block until the run has ended; raises what it raised, or TimeoutError after `timeout` seconds.

        Raises:
            UnavailableError: it was under way when this process was forked.
        """
        self._asked = True
        self._check_here()
        with waiting_for_others():
            return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Block until the run has ended; return what it raised.

        Raises:
            UnavailableError: it was under way when this process was forked.
        """
        self._asked = True
        self._check_here()
        with waiting_for_others():
            return super().exception(timeout)

    def __del__(self) -> None:
        """Log an error that nobody asked for."""
        if not sys.is_finalizing() and not self._asked and self.done():
            error = super().exception()
            if error is not None:
                logger.error("a run of net %r failed, and nobody asked for its result: %s", self.net, error)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the run has ended; False when `timeout_s` passed first. Re-raises what the run raised."""
        try:
            self.result(None if timeout_s is None else min(timeout_s, threading.TIMEOUT_MAX))
        except TimeoutError:
            if self.done():  # the run's own
                raise
            return False
        return True

    @property
    def error(self) -> BaseException | None:
        """What the run raised, None while it runs and after success."""
        return self.exception() if self.done() else None
