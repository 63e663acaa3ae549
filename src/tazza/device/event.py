"""Events: how one piece of work tells another that it has finished.

States and moves: initialized -> scheduled -> success | failed; `reset` leads back to initialized from any state that
is final. A CPU event that is recorded after synchronous work goes through `scheduled` at once.
"""

from __future__ import annotations

import enum
import threading

from tazza.errors import TazzaError


class EventState(enum.Enum):
    """What is known of the work behind an event."""

    INITIALIZED = "initialized"
    SCHEDULED = "scheduled"
    SUCCESS = "success"
    FAILED = "failed"


class Event:
    """Completion of one run of an operator; thread-safe.

    >>> event = Event(); event.schedule(); event.finish(); event.state.value
    'success'
    """

    def __init__(self) -> None:
        """Start in the state `initialized`."""
        self._condition = threading.Condition()
        self._state = EventState.INITIALIZED
        self._error: BaseException | None = None

    @property
    def state(self) -> EventState:
        """The present state."""
        return self._state

    @property
    def error(self) -> BaseException | None:
        """What the work raised, in the state `failed`."""
        return self._error

    def schedule(self) -> None:
        """Say that the work is under way.

        Raises:
            TazzaError: it was scheduled before and not reset.
        """
        with self._condition:
            if self._state is not EventState.INITIALIZED:
                raise TazzaError(
                    f"event is {self._state.value}, it can only be scheduled when initialized", hint="reset it"
                )
            self._state = EventState.SCHEDULED

    def finish(self, error: BaseException | None = None) -> None:
        """Say that the work has ended, with `error` when it failed; wakes everyone who waits."""
        with self._condition:
            self._state = EventState.SUCCESS if error is None else EventState.FAILED
            self._error = error
            self._condition.notify_all()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Block until the work has ended; False when `timeout_s` passed first. Re-raises what the work raised."""
        final = (EventState.SUCCESS, EventState.FAILED)
        with self._condition:
            if not self._condition.wait_for(lambda: self._state in final, timeout_s):
                return False
        if self._error is not None:
            raise self._error
        return True

    def reset(self) -> None:
        """Go back to `initialized`, forgetting an error."""
        with self._condition:
            self._state = EventState.INITIALIZED
            self._error = None
