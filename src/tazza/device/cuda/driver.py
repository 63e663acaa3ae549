"""The NVIDIA driver's C interface: loaded at the first use, each function declared, each status checked.

The declarations hold the functions that this package calls, with the suffixes that the header's macros give their
names. Device pointers are 64-bit numbers, handles are pointers.

State: `_loaded` changes under `_lock`. A forked child loses a driver that was loaded: it does not survive a fork.

Source: CUDA driver API reference manual, and cuda.h of CUDA 12 for the numbers.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from ctypes import POINTER, c_char, c_char_p, c_float, c_int, c_size_t, c_uint, c_uint32, c_uint64, c_void_p
from typing import Any

from tazza.errors import KernelError, OutOfMemoryError, TazzaError, UnavailableError
from tazza.runtime.fork import freed_in_child, in_forked_child
from tazza.runtime.log import logger

DRIVER = "libcuda.so.1"

HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)
"""What `cuLaunchHostFunc` calls: a function of one pointer."""

DECLARATIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (POINTER(c_char), c_int, c_int),
    "cuDeviceTotalMem_v2": (POINTER(c_size_t), c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuDevicePrimaryCtxRelease_v2": (c_int,),
    "cuCtxGetCurrent": (POINTER(c_void_p),),
    "cuCtxPushCurrent_v2": (c_void_p,),
    "cuCtxPopCurrent_v2": (POINTER(c_void_p),),
    "cuCtxGetStreamPriorityRange": (POINTER(c_int), POINTER(c_int)),
    "cuStreamCreateWithPriority": (POINTER(c_void_p), c_uint, c_int),
    "cuStreamDestroy_v2": (c_void_p,),
    "cuStreamQuery": (c_void_p,),
    "cuStreamSynchronize": (c_void_p,),
    "cuStreamWaitEvent": (c_void_p, c_void_p, c_uint),
    "cuStreamWaitValue32_v2": (c_void_p, c_uint64, c_uint32, c_uint),
    "cuLaunchHostFunc": (c_void_p, HOST_FUNCTION, c_void_p),
    "cuEventCreate": (POINTER(c_void_p), c_uint),
    "cuEventRecord": (c_void_p, c_void_p),
    "cuEventQuery": (c_void_p,),
    "cuEventSynchronize": (c_void_p,),
    "cuEventElapsedTime": (POINTER(c_float), c_void_p, c_void_p),
    "cuMemAlloc_v2": (POINTER(c_uint64), c_size_t),
    "cuMemFree_v2": (c_uint64,),
    "cuMemHostAlloc": (POINTER(c_void_p), c_size_t, c_uint),
    "cuMemFreeHost": (c_void_p,),
    "cuMemcpyAsync": (c_uint64, c_uint64, c_size_t, c_void_p),
    "cuMemsetD32Async": (c_uint64, c_uint, c_size_t, c_void_p),
    "cuModuleLoadDataEx": (POINTER(c_void_p), POINTER(c_char), c_uint, POINTER(c_int), POINTER(c_void_p)),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuStreamBeginCapture_v2": (c_void_p, c_int),
    "cuStreamEndCapture": (c_void_p, POINTER(c_void_p)),
    "cuGraphGetNodes": (c_void_p, POINTER(c_void_p), POINTER(c_size_t)),
    "cuGraphInstantiateWithFlags": (POINTER(c_void_p), c_void_p, c_uint64),
    "cuGraphDestroy": (c_void_p,),
    "cuGraphLaunch": (c_void_p, c_void_p),
    "cuGraphExecDestroy": (c_void_p,),
    "cuLaunchKernel": (c_void_p, *(c_uint,) * 7, c_void_p, POINTER(c_void_p), POINTER(c_void_p)),
}
"""Types of the arguments of each function; all return a status."""

SUCCESS = 0
NOT_READY = 600
OUT_OF_MEMORY = 2
CAPTURING = frozenset(range(900, 909))
"""What is answered where a capture of work stands in the way: nothing is known of what was asked about then."""

_ABSENT = frozenset({3, 4, 34, 35, 36, 46, 100, 101, 802, 803, 804})
# not initialized, shut down, stub library, too old a driver, device taken or none or of no such number, system not
# ready, library and driver of different versions, no forward compatibility on this device


class Driver:
    """A loaded driver, or what answers like it."""

    def __init__(self, library: Any) -> None:
        """Take the functions of `library`; nothing is called."""
        self.library = library
        self.lost = False

    def ask(self, function: str, *args: object) -> int:
        """Call a function and return its status.

        Raises:
            UnavailableError: the library has no such function, or the process was forked.
        """
        if self.lost:
            raise UnavailableError(
                "the NVIDIA driver does not survive a fork: the parent of this process had loaded it",
                hint="start processes with the method 'spawn'",
            )
        found = getattr(self.library, function, None)
        if found is None:
            raise UnavailableError(f"the NVIDIA driver has no {function}", hint="install a newer one")
        return found(*args)

    def call(self, function: str, *args: object) -> None:
        """Call a function.

        Raises:
            OutOfMemoryError: there is no memory for it.
            UnavailableError: there is no device or driver for it.
            KernelError: another status than success, maybe that of work which was queued before.
        """
        self.check(function, self.ask(function, *args))

    def check(self, function: str, status: int) -> None:
        """Raise what a status of `function` means, as `call` does; nothing where it is success."""
        if status == SUCCESS:
            return
        text = c_char_p()
        self.ask("cuGetErrorString", status, ctypes.byref(text))
        reason = "no text for it" if text.value is None else text.value.decode(errors="replace")
        raise _kind(status)(f"the NVIDIA driver answers {function} with status {status}: {reason}")


def _kind(status: int) -> type[TazzaError]:
    if status == OUT_OF_MEMORY:
        return OutOfMemoryError
    return UnavailableError if status in _ABSENT else KernelError


def new_handle(call: Callable[..., None], function: str, *behind: object, before: Sequence[object] = ()) -> int:
    """Return the handle that a function writes where an argument says, which has others before and behind it."""
    handle = c_void_p()
    call(function, *before, ctypes.byref(handle), *behind)
    return 0 if handle.value is None else handle.value


def end_with(owner: object, call: Callable[..., None], function: str, handle: int) -> None:
    """Let a function end a handle when its owner dies, which may be wherever garbage is collected."""
    weakref.finalize(owner, _end, call, function, handle).atexit = False


def _end(call: Callable[..., None], function: str, handle: int) -> None:
    try:
        call(function, handle)
    except TazzaError as error:  # the device may be gone by then
        logger.debug("what %s ends cannot be ended: %s", function, error)


_lock = freed_in_child(threading.Lock())
_loaded: Driver | None = None


def load_library() -> Driver:
    """Return the process's driver, loaded at the first call.

    Raises:
        UnavailableError: it cannot be loaded.
    """
    global _loaded
    with _lock:
        if _loaded is None:
            try:
                library = ctypes.CDLL(DRIVER)  # calls leave the GIL to others
            except OSError as error:
                raise UnavailableError(
                    f"the NVIDIA driver cannot be loaded: {error}", hint="install the driver"
                ) from error
            declare(library)
            _loaded = Driver(library)
        return _loaded


def declare(library: Any) -> None:
    """Tell ctypes the types of the arguments; functions that the library lacks are left out, and missed when called."""
    for name, types in DECLARATIONS.items():
        function = getattr(library, name, None)
        if function is not None:
            function.argtypes = types
            function.restype = c_int


def _leave_fork() -> None:
    global _lock
    _lock = freed_in_child(threading.Lock())
    if _loaded is not None:
        _loaded.lost = True


in_forked_child(_leave_fork)
