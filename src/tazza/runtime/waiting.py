"""What a thread waited for while it ran an operator, told to whoever measures that operator.

State: the waits of each thread, which only that thread changes.
"""

from __future__ import annotations

import threading

Wait = tuple[float, float]
"""Start and end, in seconds on the clock `time.perf_counter`."""

WAITS_MAX = 64
"""Waits that are kept for a thread that nobody asks."""


class _Waits(threading.local):
    def __init__(self) -> None:
        self.noted: list[Wait] = []


_waits = _Waits()


def note_wait(start_s: float, end_s: float) -> None:
    """Note that this thread waited, for threads of a budget say, rather than computed."""
    noted = _waits.noted
    if len(noted) < WAITS_MAX:
        noted.append((start_s, end_s))


def take_waits() -> tuple[Wait, ...]:
    """Return what this thread noted since it was asked last, and forget it.

    >>> _ = take_waits(); note_wait(1.0, 1.5); take_waits(), take_waits()
    (((1.0, 1.5),), ())
    """
    noted = _waits.noted
    if not noted:
        return ()
    found = tuple(noted)
    noted.clear()
    return found
