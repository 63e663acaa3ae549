"""Events: states, callbacks, waits, and events that a device keeps."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule

from tazza.device import DeviceEvent, Event, EventState
from tazza.errors import TazzaError

LONG_S = 60.0
"""More than anything here takes; reached only where something is broken."""


class EventMachine(RuleBasedStateMachine):
    """An event against a model: its state, its error, and which callbacks were called how often."""

    callbacks = Bundle("callbacks")

    def __init__(self) -> None:
        super().__init__()
        self.event = Event()
        self.state = EventState.INITIALIZED
        self.failure: ValueError | None = None
        self.called: list[int] = []
        self.wanted: list[int] = []
        self.pending: list[int] = []
        self.number = 0

    @rule()
    def schedule(self) -> None:
        """Only from `initialized`."""
        if self.state is EventState.INITIALIZED:
            self.event.schedule()
            self.state = EventState.SCHEDULED
        else:
            with pytest.raises(TazzaError, match="only be scheduled when initialized"):
                self.event.schedule()

    @rule(fails=st.booleans())
    def finish(self, fails: bool) -> None:
        """From the first two states, once."""
        error = ValueError("broken") if fails else None
        if self.state in (EventState.SUCCESS, EventState.FAILED):
            with pytest.raises(TazzaError, match="already"):
                self.event.finish(error)
            return
        self.event.finish(error)
        self.state, self.failure = (EventState.FAILED if fails else EventState.SUCCESS), error
        self.wanted += self.pending
        self.pending = []

    @rule()
    def reset(self) -> None:
        """Not while somebody may wait."""
        if self.state is EventState.SCHEDULED:
            with pytest.raises(TazzaError, match="cannot be reset"):
                self.event.reset()
        else:
            self.event.reset()
            self.state, self.failure = EventState.INITIALIZED, None

    @rule()
    def on_done(self) -> None:
        """Called once: at once in a final state, else when it comes."""
        self.number += 1
        number = self.number
        final = self.state in (EventState.SUCCESS, EventState.FAILED)
        (self.wanted if final else self.pending).append(number)
        self.event.on_done(lambda event: self.called.append(number))

    @precondition(lambda self: self.state in (EventState.INITIALIZED, EventState.SCHEDULED))
    @rule()
    def wait_in_vain(self) -> None:
        """Time passes."""
        assert not self.event.wait(0.0)

    @precondition(lambda self: self.state is EventState.SUCCESS)
    @rule()
    def wait(self) -> None:
        """Returns at once."""
        assert self.event.wait()

    @precondition(lambda self: self.state is EventState.FAILED)
    @rule()
    def wait_and_see(self) -> None:
        """Raises the very error."""
        with pytest.raises(ValueError, match="broken") as caught:
            self.event.wait(0.0)
        assert caught.value is self.failure

    @invariant()
    def agrees(self) -> None:
        """What it tells is what the model knows."""
        assert self.event.state is self.state
        assert self.event.error is self.failure
        assert self.event.query() == (self.state in (EventState.SUCCESS, EventState.FAILED))
        assert self.called == self.wanted


EventMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=25, deadline=None)
TestEvent = EventMachine.TestCase


class Kept:
    """An event that a device keeps: ends when it is told to, and calls back when it is told to."""

    def __init__(self) -> None:
        self.ended = False
        self.failure: Exception | None = None
        self.callbacks: list[Callable[[], None]] = []
        self.asked = 0

    def query(self) -> bool:
        """Tell."""
        self.asked += 1
        if self.ended and self.failure is not None:
            raise self.failure
        return self.ended

    def wait(self) -> None:
        """End, as if by waiting."""
        self.ended = True
        self.query()

    def notify(self, callback: Callable[[], None]) -> None:
        """Remember."""
        self.callbacks.append(callback)

    def elapsed_s(self, since: DeviceEvent) -> float | None:
        """Tell something that no clock of the host says."""
        return 123.0 if isinstance(since, Kept) else None


def test_nobody_looks_at_a_devices_event_before_somebody_asks() -> None:
    event, kept, told = Event(), Kept(), list[EventState]()
    event.schedule(kept)
    assert (kept.asked, kept.callbacks, event.device is kept) == (0, [], True)
    event.on_done(lambda done: told.append(done.state))
    event.on_done(lambda done: told.append(done.state))
    assert (len(kept.callbacks), told) == (1, [])
    kept.ended = True
    kept.callbacks[0]()
    assert told == [EventState.SUCCESS] * 2
    assert event.device is None


def test_who_asked_before_is_told_by_the_device() -> None:
    event, kept, told = Event(), Kept(), list[BaseException | None]()
    event.on_done(lambda done: told.append(done.error))
    event.schedule(kept)
    kept.failure, kept.ended = ValueError("on the device"), True
    kept.callbacks[0]()
    assert told == [kept.failure]
    with pytest.raises(ValueError, match="on the device"):
        event.wait()


def state_of(event: Event) -> EventState:
    """Return the state."""
    return event.state


@pytest.mark.parametrize("asks", [Event.query, Event.wait, state_of])
def test_a_devices_event_ends_for_whoever_asks(asks: Callable[[Event], object]) -> None:
    event, kept = Event(), Kept()
    event.schedule(kept)
    kept.ended = True
    assert asks(event)
    assert event.state is EventState.SUCCESS


def test_what_a_device_says_late_changes_nothing() -> None:
    """It called back after the event had been asked, reset, and scheduled for the next run."""
    event, first, second = Event(), Kept(), Kept()
    event.schedule(first)
    event.on_done(lambda done: None)
    first.ended = True
    assert event.query()
    event.reset()
    event.schedule(second)
    first.callbacks[0]()
    assert event.state is EventState.SCHEDULED
    second.ended = True
    assert event.wait()


def test_time_between_events() -> None:
    first, second = Event(), Event()
    first.schedule(Kept())
    with pytest.raises(TazzaError, match="both events have to end"):
        second.elapsed_s(first)
    first.wait()
    second.finish()
    assert second.elapsed_s(first) == second.finished_s - first.finished_s >= 0
    second.reset()
    second.schedule(Kept())
    second.wait()
    assert second.elapsed_s(first) == 123.0, "the device's clock, where both are its"


def test_a_callback_that_fails_keeps_nobody_waiting(caplog: pytest.LogCaptureFixture) -> None:
    event, told = Event(), list[int]()

    def fail(done: Event) -> None:
        raise ValueError("in a callback")

    event.on_done(fail)
    event.on_done(lambda done: told.append(1))
    event.finish()
    assert told == [1]
    assert "in a callback" in caplog.text


def test_many_threads_wait_and_are_all_told() -> None:
    event, error = Event(), ValueError("broken")
    seen: list[BaseException] = []
    lock = threading.Lock()

    def wait() -> None:
        try:
            event.wait(LONG_S)
        except ValueError as found:
            with lock:
                seen.append(found)

    threads = [threading.Thread(target=wait) for _ in range(16)]
    for thread in threads:
        thread.start()
    event.schedule()
    event.finish(error)
    for thread in threads:
        thread.join()
    assert seen == [error] * 16


def test_who_waited_is_told_of_its_own_run_although_the_event_was_reset() -> None:
    """The event is finished and reset before the waiting threads get to run."""
    event, outcomes = Event(), list[str]()

    def wait(timeout_s: float | None) -> None:
        try:
            outcomes.append("ended" if event.wait(timeout_s) else "time")
        except ValueError:
            outcomes.append("failed")

    threads = [threading.Thread(target=wait, args=(timeout_s,)) for timeout_s in (None, LONG_S)]
    for thread in threads:
        thread.start()
    event.schedule()
    while len(event._waiting) < 2:  # pyright: ignore[reportPrivateUsage] -- nothing else tells that they wait
        time.sleep(0)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(LONG_S)  # nobody else runs meanwhile
    try:
        event.finish(ValueError("broken"))
        event.reset()
    finally:
        sys.setswitchinterval(interval)
    for thread in threads:
        thread.join()
    assert outcomes == ["failed", "failed"]


def test_racing_threads_finish_an_event_once() -> None:
    for _ in range(30):
        event, told, refused = Event(), list[int](), list[int]()
        ready = threading.Barrier(4)

        def finish(
            number: int,
            event: Event = event,
            ready: threading.Barrier = ready,
            told: list[int] = told,
            refused: list[int] = refused,
        ) -> None:
            ready.wait()
            event.on_done(lambda done: told.append(number))
            try:
                event.finish()
            except TazzaError:
                refused.append(number)

        threads = [threading.Thread(target=finish, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(told) == [0, 1, 2, 3]
        assert len(refused) == 3
