"""Memory of CUDA devices, and page-locked memory of the host, which devices copy from and to by themselves.

Both allocators ask the driver for each span; the policies of `ALLOCATORS` (caching, buddy) cut up what they give. The
driver waits for all work of the device before it takes memory back, so a span may die while queued work uses it. A
policy does not: who gives spans of one to work on several streams orders these.
"""

from __future__ import annotations

import ctypes

import numpy as np

from tazza.device.cuda.device import CUDADevice, cuda_device
from tazza.device.cuda.driver import OUT_OF_MEMORY
from tazza.device.initializer import initialize_devices
from tazza.errors import UnavailableError
from tazza.tensor import ALLOCATORS, Allocator, CUDAPlace, PinnedPlace, Place
from tazza.tensor.allocation import Bytes, PinnedAllocator, Taken

_PORTABLE = 1  # CU_MEMHOSTALLOC_PORTABLE: page-locked for all devices


class _Token:
    """Owner of a span that the CPU cannot read."""

    __slots__ = ("__weakref__",)


class CUDAAllocator(Allocator):
    """Memory of one device."""

    def __init__(self, place: Place, *, limit_bytes: int | None = None) -> None:
        """Hold no memory yet; nothing is called."""
        super().__init__(place, limit_bytes=limit_bytes)

    def _take(self, nbytes: int) -> Taken | None:
        address, device = ctypes.c_uint64(), cuda_device(self.place)
        status = device.ask("cuMemAlloc_v2", ctypes.byref(address), max(nbytes, 1))
        if status == OUT_OF_MEMORY:
            return None
        device.check("cuMemAlloc_v2", status)
        self._reserved += nbytes
        return _Token(), address.value, None, device

    def _give(self, address: int, nbytes: int, block: CUDADevice) -> None:
        self._reserved -= nbytes
        block.call("cuMemFree_v2", address)


class PagelockedAllocator(PinnedAllocator):
    """Page-locked memory of the host, for all CUDA devices."""

    allocate = Allocator.allocate

    def _take(self, nbytes: int) -> Taken | None:
        address, device = ctypes.c_void_p(), _any_device()
        status = device.ask("cuMemHostAlloc", ctypes.byref(address), max(nbytes, 1), _PORTABLE)
        if status == OUT_OF_MEMORY:
            return None
        device.check("cuMemHostAlloc", status)
        assert address.value is not None, "the driver gave memory"
        self._reserved += nbytes
        window = memoryview((ctypes.c_uint8 * max(nbytes, 1)).from_address(address.value)).cast("B")
        owner: Bytes = np.frombuffer(window, np.uint8)
        return owner, address.value, owner[:nbytes], device

    def _give(self, address: int, nbytes: int, block: CUDADevice) -> None:
        self._reserved -= nbytes
        block.call("cuMemFreeHost", address)


def _any_device() -> CUDADevice:
    for place in initialize_devices().present:
        if place.kind == "cuda":
            return cuda_device(place)
    raise UnavailableError(f"no CUDA device is here that {PinnedPlace()} memory is locked for")


def bring_memory() -> None:
    """Register the allocators, since there are devices."""
    if CUDAPlace().kind not in ALLOCATORS.registered():
        ALLOCATORS.register("cuda", CUDAAllocator, help="memory of a CUDA device")
    ALLOCATORS.unregister("pinned")
    ALLOCATORS.register("pinned", PagelockedAllocator, help="page-locked memory of the host", priority=1)
