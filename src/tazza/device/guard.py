"""The current device of a thread, and a guard that restores it."""

from __future__ import annotations

import threading

from tazza.device.context import Context, current_context
from tazza.tensor import CPUPlace, Place


class _Threads(threading.local):
    def __init__(self) -> None:
        self.entered: list[Context] = []


_threads = _Threads()


def current_place() -> Place:
    """Return the place that this thread works on: the CPU, unless a `DeviceGuard` says otherwise."""
    return _threads.entered[-1].place if _threads.entered else CPUPlace()


class DeviceGuard:
    """Make `place` the thread's current one, and put the former back on exit, on errors too; guards nest.

    One guard may be entered several times, by several threads: each has places of its own.

    >>> with DeviceGuard(CPUPlace()) as context:
    ...     print(context.place, current_place())
    cpu cpu
    """

    def __init__(self, place: Place) -> None:
        """Remember the place; nothing changes before the guard is entered."""
        self.place = place

    def __enter__(self) -> Context:
        """Switch, and return this thread's context on the place.

        Raises:
            UnavailableError: there is no such device; the former place stays.
        """
        context = current_context(self.place)
        context.enter()
        _threads.entered.append(context)
        return context

    def __exit__(self, *error: object) -> None:
        """Switch back."""
        _threads.entered.pop().leave()
