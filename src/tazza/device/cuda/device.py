"""A CUDA device as this process uses it: its primary context, its spare events, and functions of the host.

The primary context is the one that all libraries of a process share. The driver has a current context per thread,
which others in this process may change, and count on; so every call here is made in the device's own, and the former
one is put back. A thread that is in it already (`DeviceGuard`) saves the two calls that this takes.

State: `_spare_events` and `_functions` change by single operations of their types, which are atomic.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections import deque
from collections.abc import Callable
from functools import cached_property, partial

from tazza.device.cuda.driver import HOST_FUNCTION, SUCCESS, Driver, load_library, new_handle
from tazza.device.cuda.watcher import Watcher
from tazza.device.initializer import device_of
from tazza.errors import ArgumentError
from tazza.runtime.log import logger
from tazza.tensor import Place

_BLOCKING_SYNC = 1  # CU_EVENT_BLOCKING_SYNC: who waits leaves the processor to others
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING: no hidden order with the driver's own default stream


class _Here(threading.local):
    """Where the driver tells a thread its current context, and the one that it takes off the stack."""

    def __init__(self) -> None:
        current = ctypes.c_void_p()
        self.current = current, ctypes.byref(current)
        self.popped = ctypes.byref(ctypes.c_void_p())


_here = _Here()


class CUDADevice:
    """The primary context of device `index`; thread-safe."""

    def __init__(self, driver: Driver, index: int) -> None:
        """Retain the primary context.

        Raises:
            TazzaError: the driver refuses.
        """
        self.index = index
        self._driver = driver
        number, handle = ctypes.c_int(), ctypes.c_void_p()
        driver.call("cuDeviceGet", ctypes.byref(number), index)
        driver.call("cuDevicePrimaryCtxRetain", ctypes.byref(handle), number)
        self._number = number
        self.handle = handle
        self._context = handle.value
        self.watcher = Watcher(f"tazza-cuda-{index}")
        self._spare_events: deque[int] = deque()
        self.functions: dict[str, int] = {}
        """Kernels that were loaded, by their names; two threads may load one both, and either is as good."""

    def ask(self, function: str, *args: object) -> int:
        """Call a function of the driver on this device and return its status."""
        if self._is_current():
            return self._driver.ask(function, *args)
        self.enter()
        try:
            return self._driver.ask(function, *args)
        finally:
            self.leave()

    def _is_current(self) -> bool:
        """Whether the context is the calling thread's current one; others may have changed that at any moment."""
        current, place = _here.current
        status = self._driver.ask("cuCtxGetCurrent", place)
        if status != SUCCESS:
            self._driver.check("cuCtxGetCurrent", status)
        return current.value == self._context

    def bound(self, function: str, *args: object) -> Callable[[], int]:
        """Return a call of a function of the driver on arguments that have the types of C; for `make`."""
        return partial(getattr(self._driver.library, function), *args)

    def make(self, function: str, call: Callable[[], int]) -> None:
        """Make a call that was bound, with as little as can be of Python around it.

        Raises:
            TazzaError: any status but success, as `Driver.call` says.
        """
        if self._is_current():
            status = call()
        else:
            self.enter()
            try:
                status = call()
            finally:
                self.leave()
        if status != SUCCESS:
            self.check(function, status)

    def call(self, function: str, *args: object) -> None:
        """Call a function of the driver on this device.

        Raises:
            TazzaError: any status but success, as `Driver.call` says.
        """
        self.check(function, self.ask(function, *args))

    def check(self, function: str, status: int) -> None:
        """Raise what a status of `function` means, unless it is success."""
        self._driver.check(function, status)

    def enter(self) -> None:
        """Put the context on the driver's stack of the calling thread."""
        self._driver.call("cuCtxPushCurrent_v2", self.handle)

    def leave(self) -> None:
        """Take the context off that stack."""
        self._driver.call("cuCtxPopCurrent_v2", _here.popped)

    @cached_property
    def priorities(self) -> tuple[int, int]:
        """The driver's numbers for the least and the greatest priority of streams; lower numbers go first."""
        least, greatest = ctypes.c_int(), ctypes.c_int()
        self.call("cuCtxGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest))
        return least.value, greatest.value

    def new_stream(self, *, high: bool) -> int:
        """Return the handle of a new stream."""
        return new_handle(self.call, "cuStreamCreateWithPriority", _NON_BLOCKING, self.priorities[high])

    def take_event(self) -> int:
        """Return the handle of an event that nobody uses, with timing."""
        try:
            return self._spare_events.pop()
        except IndexError:
            return new_handle(self.call, "cuEventCreate", _BLOCKING_SYNC)

    def give_event(self, handle: int) -> None:
        """Let others use an event; calls nothing, since collected garbage gives its events back."""
        self._spare_events.append(handle)

    def launch_host_function(self, stream: int, function: Callable[[], None]) -> None:
        """Let a thread of the driver call `function`, which must not call the driver, in the order of a stream."""
        key = next(_keys)
        _functions[key] = function
        try:
            self.call("cuLaunchHostFunc", stream, _called_by_driver, key)
        except BaseException:
            _functions.pop(key, None)
            raise

    def close(self) -> None:
        """Let go of the primary context; it ends when no library of the process retains it."""
        self._driver.ask("cuDevicePrimaryCtxRelease_v2", self._number)


_keys = itertools.count(1)
_functions: dict[int, Callable[[], None]] = {}


def _run_host_function(key: int) -> None:
    try:
        _functions.pop(key)()
    except BaseException:  # the driver's thread knows no exceptions
        logger.exception("a function in a CUDA stream failed")


_called_by_driver = HOST_FUNCTION(_run_host_function)


def cuda_device(place: Place) -> CUDADevice:
    """Return the device at a place, made at the first call.

    Raises:
        UnavailableError: it is not there, and why.
        ArgumentError: not a place of CUDA.
    """
    if place.kind != "cuda":
        raise ArgumentError(f"{place} is not a place of CUDA")
    return device_of(place).handle("cuda", lambda: CUDADevice(load_library(), place.index), CUDADevice.close)
