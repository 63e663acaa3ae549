"""Events that the NVIDIA driver keeps."""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tazza.device.cuda.driver import CAPTURING, NOT_READY
from tazza.device.event import DeviceEvent, Event

if TYPE_CHECKING:
    from tazza.device.cuda.device import CUDADevice

_MILLISECOND_S = 1e-3
SPIN_S = 1e-3
"""How long who waits keeps the processor."""

Look: TypeAlias = "Callable[[], BaseException | None]"
"""Returns what work of a device found wrong, or None."""


class CUDAEvent:
    """The end of what a stream has got by now.

    `roots` are events of the host that the stream waited for, each of which has ended when this one has: where one of
    them failed, so did this. (Work of a device that fails takes the whole context with it: the driver itself tells.)
    `look()` is asked once all has ended; the error that it may return is that of the work.
    The driver's event is used again when this object dies, which is right also while a stream waits for it: the driver
    notes at once what it is to wait for.
    """

    def __init__(self, device: CUDADevice, stream: int, roots: Sequence[Event] = (), look: Look | None = None) -> None:
        """Record an event of `device` in the stream of that handle."""
        self._look = look
        self.device = device
        self.roots = tuple(roots)
        self.handle = device.take_event()
        device.call("cuEventRecord", self.handle, stream)

    def query(self) -> bool:
        """Whether the work has ended; raises what it failed with."""
        status = self.device.ask("cuEventQuery", self.handle)
        if status == NOT_READY:
            return False
        self.device.check("cuEventQuery", status)
        self._raise_failure()
        return True

    def has_ended(self) -> bool:
        """Whether nothing of the work runs any more, in success or not."""
        status = self.device.ask("cuEventQuery", self.handle)
        return status != NOT_READY and status not in CAPTURING

    def wait(self) -> None:
        """Block until the work has ended; raises what it failed with.

        The first `SPIN_S` seconds it asks again and again: to be woken takes as long as some of the work.
        """
        end_s = time.perf_counter() + SPIN_S
        while time.perf_counter() < end_s:
            if self.has_ended():
                break
        self.device.call("cuEventSynchronize", self.handle)
        self._raise_failure()

    def _raise_failure(self) -> None:
        error = first_error(self.roots)
        if error is None and self._look is not None:
            error = self._look()
        if error is not None:
            try:
                raise error
            finally:
                del error  # its traceback holds this frame

    def notify(self, callback: Callable[[], None]) -> None:
        """Call `callback` from the device's watcher when the work has ended, in success or not."""
        self.device.watcher.watch(self, callback)

    def elapsed_s(self, since: DeviceEvent) -> float | None:
        """Return the seconds between the ends of two events of one device, to half a microsecond; None for others."""
        if not isinstance(since, CUDAEvent) or since.device is not self.device:
            return None
        milliseconds = ctypes.c_float()
        self.device.call("cuEventElapsedTime", ctypes.byref(milliseconds), since.handle, self.handle)
        return milliseconds.value * _MILLISECOND_S

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:  # `sys` may be gone by then
        handle = getattr(self, "handle", None)  # none where the driver had none
        if handle is not None and not is_finalizing():
            self.device.give_event(handle)


def first_error(roots: Sequence[Event]) -> BaseException | None:
    """Return what the first of these events that failed failed with."""
    return next((error for event in roots if (error := event.error) is not None), None)
