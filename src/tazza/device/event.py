"""Events: how one piece of work tells others that it has ended.

    initialized --schedule--> scheduled --finish--> success | failed
         |                                               ^
         +--------------------finish--------------------+           reset: from a final state back to initialized

`schedule` is refused in any other state than `initialized`, `finish` in a final one, `reset` while `scheduled`:
somebody may wait. A device that keeps events of its own gives one to `schedule`; until somebody asks, waits or wants to
be called, nobody looks at it.

State: everything changes under `_lock`; callbacks run outside of it, in the thread that finishes the event. Invariant:
what a device says late, of work from before a `reset`, changes nothing, and who waited is told what the work that it
waited for came to, even where the event was reset since.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable
from typing import Protocol

from tazza.errors import TazzaError
from tazza.runtime.fork import PROCESS, left_in_parent
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

    def elapsed_s(self, since: DeviceEvent) -> float | None:
        """Return the seconds from the end of `since` to this one by the device's clock; None where it cannot tell."""
        ...


class _Waiter:
    """A thread that waits: `gate` is open when the work has ended, with `error` if it failed."""

    __slots__ = ("error", "gate")

    def __init__(self) -> None:
        self.gate = threading.Lock()
        self.gate.acquire()
        self.error: BaseException | None = None


class Event:
    """The end of a piece of work; thread-safe.

    >>> event = Event(); event.on_done(lambda done: print(done.state.value)); event.schedule(); event.finish()
    success
    """

    __slots__ = (
        "_callbacks", "_clock", "_device", "_error", "_forks", "_lock", "_state", "_waiting", "finished_s",
        "scheduled_s"
    )  # fmt: skip

    def __init__(self) -> None:
        """Start in the state `initialized`."""
        self._lock = threading.Lock()
        self._state = EventState.INITIALIZED
        self._error: BaseException | None = None
        self._forks = PROCESS.forks  # of the process in which it was made or scheduled
        self._device: DeviceEvent | None = None
        self._clock: DeviceEvent | None = None  # what the device kept of work that has ended
        self._callbacks: list[Callable[[Event], object]] = []
        self._waiting: list[_Waiter] = []
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
            self._state, self._forks = EventState.SCHEDULED, PROCESS.forks
            self._device = device
            self.scheduled_s = time.perf_counter()
            asked = device is not None and bool(self._callbacks or self._waiting)
        if asked and device is not None:
            self._watch(device)

    def finish(self, error: BaseException | None = None) -> None:
        """Say that the work has ended, with `error` when it failed; wakes everyone who waits, then calls back.

        Raises:
            TazzaError: it has ended before and was not reset.
        """
        if not self._finish(error):
            raise TazzaError(f"event is {self._state.value} already", hint="reset it")

    def _finish(self, error: BaseException | None, device: DeviceEvent | None = None) -> bool:
        """Go to a final state, unless it is in one, or `device` tells of work that the event no longer stands for."""
        with self._lock:
            if self._state in _FINAL or (device is not None and device is not self._device):
                return False
            self.finished_s = time.perf_counter()
            self._error = error
            self._state = EventState.SUCCESS if error is None else EventState.FAILED
            self._clock, self._device = self._device, None
            callbacks, self._callbacks = self._callbacks, []
            waiting, self._waiting = self._waiting, []
        try:
            self._tell(error, waiting, callbacks)
        except BaseException:  # an interrupt: the others are told all the same, and whoever was being told once more
            self._tell(error, waiting, callbacks)
            raise
        return True

    def _tell(
        self, error: BaseException | None, waiting: list[_Waiter], callbacks: list[Callable[[Event], object]]
    ) -> None:
        """Wake those who wait and call back, in turn, and forget whoever was told."""
        while waiting:
            waiting[0].error = error
            if waiting[0].gate.locked():
                waiting[0].gate.release()
            del waiting[0]
        while callbacks:
            self._call(callbacks[0])
            del callbacks[0]

    def _call(self, callback: Callable[[Event], object]) -> None:
        try:
            callback(self)
        except Exception:
            logger.exception("callback %r of an event failed", callback)

    def query(self) -> bool:
        """Whether the work has ended, in success or not."""
        device = self._device
        if device is not None:
            try:
                ended, error = device.query(), None
            except Exception as found:
                ended, error = True, found
            if ended:
                self._finish(error, device)
        return self._state in _FINAL

    def _watch(self, device: DeviceEvent) -> None:
        """Finish with what `device` says as soon as it tells that its work has ended."""

        def ask() -> None:
            self._finish(_failure(device.query), device)  # devices may call back before their own events say so

        device.notify(ask)

    def on_done(self, callback: Callable[[Event], object]) -> None:
        """Call `callback(event)` once, when the work has ended; at once when it has. Its exceptions are logged.

        Once means twice where an interrupt (Ctrl-C) came in the middle of it. It is called by the thread that finishes
        the event, which may be one of a device's library: a callback is short, and hands to others what calls such a
        library.
        """
        self._come_here()
        with self._lock:
            final = self._state in _FINAL
            device = self._device if not (self._callbacks or self._waiting) else None
            if not final:
                self._callbacks.append(callback)
        if final:
            self._call(callback)
        elif device is not None:
            self._watch(device)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the work has ended; False when `timeout_s` passed first. Re-raises what the work raised.

        Raises:
            UnavailableError: the work was under way when this process was forked.
        """
        self._come_here()
        device = self._device
        if device is not None and timeout_s is None:
            error = self._wait_on(device)
        else:
            ended, error = self._wait_here(timeout_s)
            if not ended:
                return False
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame
        return True

    def _come_here(self) -> None:
        """In a forked child, take over an event whose work has ended or not begun; its lock may have been held."""
        if self._forks != PROCESS.forks:
            if self._state is EventState.SCHEDULED:
                raise left_in_parent("the work of an event")
            self._lock, self._forks = threading.Lock(), PROCESS.forks

    def _wait_on(self, device: DeviceEvent) -> BaseException | None:
        error = _failure(device.wait)
        self._finish(error, device)
        return error

    def _wait_here(self, timeout_s: float | None) -> tuple[bool, BaseException | None]:
        """Return whether the work has ended in that time, and what it failed with."""
        with self._lock:
            if self._state in _FINAL:
                return True, self._error
            device = self._device if not (self._callbacks or self._waiting) else None
            waiter = _Waiter()
            self._waiting.append(waiter)
        try:
            if device is not None:
                self._watch(device)
            ended = waiter.gate.acquire(timeout=-1 if timeout_s is None else max(timeout_s, 0.0))
        finally:
            with self._lock:
                late = waiter not in self._waiting  # it has ended, maybe just after the time was over
                if not late:
                    self._waiting.remove(waiter)
        if late and not ended:
            waiter.gate.acquire()  # whoever finished the event opens it at once
        return late, waiter.error

    def elapsed_s(self, since: Event) -> float:
        """Return the seconds from the end of `since` to the end of this event: the device's own, where both have them.

        Where a device does not tell, they are from when the end of the one was seen to when that of the other was.

        Raises:
            TazzaError: one of them has not ended.
        """
        if not (self.query() and since.query()):
            raise TazzaError("both events have to end before the time between them is known", hint="wait for them")
        clock, other = self._clock, since._clock
        told = None if clock is None or other is None else clock.elapsed_s(other)
        return self.finished_s - since.finished_s if told is None else told

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
            self._clock = None


def _failure(ask: Callable[[], object]) -> Exception | None:
    """Ask a device about an event; return what the work failed with."""
    try:
        ask()
    except Exception as error:
        return error
    return None


class Records(Protocol):
    """A stream, or a context: it finishes an event when the work that it got before has ended."""

    def record(self, event: Event) -> None:
        """Schedule an event."""
        ...


def recorded(where: Records) -> Event:
    """Return a new event of the work that a stream, or a context, was given so far."""
    event = Event()
    where.record(event)
    return event
