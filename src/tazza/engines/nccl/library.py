"""NCCL: the library, and its communicators, one for each set of devices.

A communicator has a handle for each device. It is made at the first use and lives as long as the process: the library's
threads and its memory on the devices belong to it. What several threads ask of one goes to all devices in one order.

State: the communicators, changed and used under `_lock`; they are forgotten with the devices they were made for. The
lock is held while one is made, which takes up to some seconds, and while calls are queued, which waits for no device.

Source: NCCL documentation; declarations are those of its header.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from tazza.device.cuda import CUDADevice
from tazza.device.cuda.vendor import Facts, VendorLibrary
from tazza.engines.nccl._declarations import FUNCTIONS
from tazza.errors import TazzaError
from tazza.runtime.fork import freed_in_child

NCCL = VendorLibrary(
    Facts(
        "NCCL",
        ("libnccl.so.2",),
        FUNCTIONS,
        "ncclGetErrorString",
        frozenset(),
        "pip install nvidia-nccl-cu13",
        ("", "", ""),
    )
)

_lock = freed_in_child(threading.Lock())
_made: WeakKeyDictionary[CUDADevice, dict[tuple[int, ...], list[int]]] = WeakKeyDictionary()
"""By the first device and the numbers of all: the handle of each."""


def version() -> str:
    """Return the number of the library's version."""
    number = ctypes.c_int()
    NCCL.call_anywhere("ncclGetVersion", ctypes.byref(number))
    return str(number.value)


@contextmanager
def group(devices: Sequence[CUDADevice]) -> Generator[list[int]]:
    """Give the handle of each device, for calls that are queued on all of them when the block is left.

    Raises:
        KernelError: the library refuses; its communicator is not used again.
    """
    with _lock:
        kept = _made.get(devices[0])
        if kept is None:
            kept = _made[devices[0]] = {}
        numbers = tuple(device.index for device in devices)
        if numbers not in kept:
            kept[numbers] = _new(numbers)
        try:
            NCCL.call_anywhere("ncclGroupStart")
            try:
                yield kept[numbers]
            finally:
                NCCL.call_anywhere("ncclGroupEnd")
        except BaseException:
            _give_up(kept.pop(numbers))
            raise


def _new(numbers: Sequence[int]) -> list[int]:
    handles = (ctypes.c_void_p * len(numbers))()
    NCCL.call_anywhere("ncclCommInitAll", handles, len(numbers), (ctypes.c_int * len(numbers))(*numbers))
    return [0 if handle is None else handle for handle in handles]


def _give_up(handles: Sequence[int]) -> None:
    for handle in handles:
        try:
            NCCL.call_anywhere("ncclCommAbort", handle)
        except TazzaError:  # the error that is on its way says more
            continue
