"""The current device of a thread, and a guard that restores it."""

from __future__ import annotations

import threading
from types import TracebackType

from tazza.device.context import Context, current_context
from tazza.tensor import CPUPlace, Place

_threads = threading.local()


def current_place() -> Place:
    """Return the place that this thread works on: the CPU, unless a `DeviceGuard` says otherwise."""
    place: Place | None = getattr(_threads, "place", None)
    return CPUPlace() if place is None else place


class DeviceGuard:
    """Make `place` the thread's current one, and put the former back on exit, on errors too; guards nest.

    >>> with DeviceGuard(CPUPlace()) as context:
    ...     print(context.place, current_place())
    cpu cpu
    """

    def __init__(self, place: Place) -> None:
        """Remember the place; nothing changes before the guard is entered."""
        self.place = place
        self._former: list[Place] = []

    def __enter__(self) -> Context:
        """Switch, and return this thread's context on the place."""
        context = current_context(self.place)
        self._former.append(current_place())
        _threads.place = self.place
        return context

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Switch back."""
        _threads.place = self._former.pop()
