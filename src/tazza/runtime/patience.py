"""How long a host kernel waits: until what it waits for is so, its time is up, or somebody asks it to give up."""

from __future__ import annotations

import time

from tazza.errors import DeadlineError, RunCancelledError
from tazza.runtime.holding import Conditional


class Patience:
    """One waiter's; `give_up` may come from another thread, just before the wait that it is meant for too.

    >>> patience = Patience("for the milk"); patience.give_up()
    >>> with patience.span(), (turn := Conditional()): patience.wait(turn)
    Traceback (most recent call last):
    tazza.errors.RunCancelledError: gave up waiting for the milk
    """

    __slots__ = ("_deadline_s", "_given_up", "_timeout_s", "what")

    def __init__(self, what: str) -> None:
        """Wait `what`, which is for messages."""
        self.what = what
        self._given_up = False
        self._timeout_s = 0.0
        self._deadline_s: float | None = None

    def span(self, timeout_s: float = 0.0) -> Patience:
        """Begin, for the block of a `with`; at its end it is forgotten that somebody asked to give up.

        All that a call does stands in the block: what asked one that failed to give up is not meant for the next one.
        """
        self.begin(timeout_s)
        return self

    def __enter__(self) -> None:
        """Wait in this block."""

    def __exit__(self, *error: object) -> None:
        """Forget that somebody asked to give up: the call that it was meant for has ended."""
        self._given_up = False

    def begin(self, timeout_s: float = 0.0) -> None:
        """Count the time from now on; 0 is no limit. Who waits for several things does so for each."""
        self._timeout_s = timeout_s
        self._deadline_s = time.monotonic() + timeout_s if timeout_s > 0 else None

    def give_up(self) -> None:
        """Let the waits of this call end with an error; whoever waits has to be notified."""
        self._given_up = True

    def wait(self, turn: Conditional, *, most_s: float | None = None) -> None:
        """Let others in until one of them notifies; the condition is held before and after.

        `most_s` is for what nobody notifies of: whoever waits looks again after so many seconds.

        Raises:
            RunCancelledError: it was asked to give up.
            DeadlineError: its time is up.
        """
        if self._given_up:
            raise RunCancelledError(f"gave up waiting {self.what}")
        left_s = None if self._deadline_s is None else self._deadline_s - time.monotonic()
        if left_s is not None and left_s <= 0:
            raise DeadlineError(f"waited {self._timeout_s:g} seconds {self.what}")
        turn.wait(left_s if most_s is None else most_s if left_s is None else min(left_s, most_s))
