"""Events: how one piece of work tells others that it has ended.

    initialized --schedule--> scheduled --finish--> success | failed
         |                                               ^
         +--------------------finish--------------------+           reset: from a final state back to initialized

`schedule` is refused in any other state than `initialized`, `finish` in a final one, `reset` while `scheduled`:
somebody may wait. A device that keeps events of its own gives one to `schedule`; until somebody asks, waits or wants to
be called, nobody looks at it.

State: everything changes under `_lock`; callbacks run outside of it, in the thread that finishes the event.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable
from typing import Protocol

from tazza.errors import TazzaError
from tazza.runtime.log import logger


class EventState(enum.Enum):
    """What is known of the work behind an event."""

    INITIALIZED = "initialized"
    SCHEDULED = "scheduled"
    SUCCESS = "success"
    FAILED = "failed"


_FINAL = (EventState.SUCCESS, EventState.FAILED)


class DeviceEvent(Protocol):
    """An event that a device's own library keeps."""

    def query(self) -> bool:
        """Whether the work has ended; raises what it failed with."""
        ...

    def wait(self) -> None:
        """Block until the work has ended; raises what it failed with."""
        ...

    def notify(self, callback: Callable[[], None]) -> None:
        """Call `callback` from some thread when the work has ended, in success or not."""
        ...


class Event:
    """The end of a piece of work; thread-safe.

    >>> event = Event(); event.on_done(lambda done: print(done.state.value)); event.schedule(); event.finish()
    success
    """

    __slots__ = ("_callbacks", "_device", "_error", "_lock", "_state", "_waiting", "finished_s", "scheduled_s")

    def __init__(self) -> None:
        """Start in the state `initialized`."""
        self._lock = threading.Lock()
        self._state = EventState.INITIALIZED
        self._error: BaseException | None = None
        self._device: DeviceEvent | None = None
        self._callbacks: list[Callable[[Event], object]] = []
        self._waiting: list[threading.Lock] = []
        self.scheduled_s = 0.0
        """When it was scheduled, on the clock `time.perf_counter`."""
        self.finished_s = 0.0
        """When it was seen to have ended, on the same clock."""

    def __repr__(self) -> str:
        return f"Event({self._state.value})"

    @property
    def state(self) -> EventState:
        """The present state; asks the device."""
        if self._device is not None and self._state is EventState.SCHEDULED:
            self.query()
        return self._state

    @property
    def error(self) -> BaseException | None:
        """What the work raised, in the state `failed`."""
        return self._error if self.state is EventState.FAILED else None

    @property
    def device(self) -> DeviceEvent | None:
        """What the device keeps of the work that is under way, for streams of the same kind to wait for."""
        return self._device

    def schedule(self, device: DeviceEvent | None = None) -> None:
        """Say that the work is under way, on a device with events of its own maybe.

        Raises:
            TazzaError: it was scheduled before and not reset.
        """
        with self._lock:
            if self._state is not EventState.INITIALIZED:
                raise TazzaError(
                    f"event is {self._state.value}, it can only be scheduled when initialized", hint="reset it"
                )
            self._state = EventState.SCHEDULED
            self._device = device
            self.scheduled_s = time.perf_counter()
            asked = device is not None and bool(self._callbacks or self._waiting)
        if asked and device is not None:
            device.notify(self._ask_device)

    def finish(self, error: BaseException | None = None) -> None:
        """Say that the work has ended, with `error` when it failed; wakes everyone who waits, then calls back.

        Raises:
            TazzaError: it has ended before and was not reset.
        """
        if not self._finish(error):
            raise TazzaError(f"event is {self._state.value} already", hint="reset it")

    def _finish(self, error: BaseException | None) -> bool:
        with self._lock:
            if self._state in _FINAL:
                return False
            self.finished_s = time.perf_counter()
            self._error = error
            self._state = EventState.SUCCESS if error is None else EventState.FAILED
            self._device = None
            callbacks, self._callbacks = self._callbacks, []
            waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.release()
        for callback in callbacks:
            self._call(callback)
        return True

    def _call(self, callback: Callable[[Event], object]) -> None:
        try:
            callback(self)
        except Exception:
            logger.exception("callback %r of an event failed", callback)

    def query(self) -> bool:
        """Whether the work has ended, in success or not."""
        device = self._device
        if device is not None and self._state is EventState.SCHEDULED:
            try:
                ended, error = device.query(), None
            except Exception as found:
                ended, error = True, found
            if ended:
                self._finish(error)
        return self._state in _FINAL

    def _ask_device(self) -> None:
        """Finish with what the device says; called by it when the work has ended."""
        if not self.query():
            self._finish(None)  # devices may call back before their own events say so

    def on_done(self, callback: Callable[[Event], object]) -> None:
        """Call `callback(event)` once, when the work has ended; at once when it has. Its exceptions are logged.

        A device calls from a thread of its own, in which nothing of the device's library may be called.
        """
        with self._lock:
            final = self._state in _FINAL
            device = self._device if not (self._callbacks or self._waiting) else None
            if not final:
                self._callbacks.append(callback)
        if final:
            self._call(callback)
        elif device is not None:
            device.notify(self._ask_device)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the work has ended; False when `timeout_s` passed first. Re-raises what the work raised."""
        device = self._device
        if device is not None and timeout_s is None and self._state is EventState.SCHEDULED:
            self._wait_on(device)
        elif not self._wait_here(timeout_s):
            return False
        if self._error is not None:
            raise self._error
        return True

    def _wait_on(self, device: DeviceEvent) -> None:
        try:
            device.wait()
        except Exception as error:
            self._finish(error)
        else:
            self._finish(None)

    def _wait_here(self, timeout_s: float | None) -> bool:
        with self._lock:
            if self._state in _FINAL:
                return True
            device = self._device if not (self._callbacks or self._waiting) else None
            waiter = threading.Lock()
            waiter.acquire()
            self._waiting.append(waiter)
        if device is not None:
            device.notify(self._ask_device)
        ended = waiter.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0.0))
        if not ended:
            with self._lock:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
        return ended or self._state in _FINAL

    def elapsed_s(self, since: Event) -> float:
        """Return the seconds from the end of `since` to the end of this event.

        Raises:
            TazzaError: one of them has not ended.
        """
        if not (self.query() and since.query()):
            raise TazzaError("both events have to end before the time between them is known", hint="wait for them")
        return self.finished_s - since.finished_s

    def reset(self) -> None:
        """Go back to `initialized`, forgetting an error.

        Raises:
            TazzaError: it is scheduled, so that somebody may wait for it.
        """
        with self._lock:
            if self._state is EventState.SCHEDULED:
                raise TazzaError("event is scheduled, it cannot be reset before it ends", hint="wait for it")
            self._state = EventState.INITIALIZED
            self._error = None
