"""Memory of CUDA devices, and page-locked memory of the host, which devices copy from and to by themselves.

The driver waits for the work of a device before it gives memory, or takes it back. So spans of a device that died are
kept, and used again when all that was queued before on any of its streams has ended: a span may die while queued work
uses it, whatever stream that is on. So are page-locked ones, for which the streams of all devices count. Until then,
and where none is left, the driver is asked for more. What is kept counts as reserved, and goes back to the driver when
there is more than `KEEP_BYTES` of it, or when memory is short.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from tazza.device.cuda.device import CUDADevice, cuda_device
from tazza.device.cuda.driver import CAPTURING, NOT_READY, OUT_OF_MEMORY
from tazza.device.cuda.event import CUDAEvent
from tazza.device.cuda.stream import CUDAStream
from tazza.device.initializer import initialize_devices
from tazza.device.stream import Stream, stream_pool
from tazza.errors import UnavailableError
from tazza.tensor import ALLOCATORS, Allocator, CUDAPlace, PinnedPlace, Place
from tazza.tensor.allocation import Bytes, PinnedAllocator, Taken
from tazza.tensor.allocators.caching import CachingAllocator, size_class
from tazza.tensor.pool import Chunk

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


KEEP_BYTES = 1 << 30
"""How much of what died is kept for each device, and of page-locked memory."""


class OrderedAllocator(CachingAllocator):
    """Keeps spans that died, and hands them out again behind the work of devices that may use them.

    State: `_marks` has, for each block that waits, the ends of what the streams had got when it came back; like all of
    an allocator it changes under its lock.
    """

    def __init__(self, upstream: Allocator, places: Callable[[], Sequence[Place]], limit_bytes: int | None) -> None:
        """Hold no memory yet; devices at `places` may work with what is given."""
        super().__init__(upstream, keep_bytes=KEEP_BYTES, limit_bytes=limit_bytes)
        self._places = places
        self._marks: dict[int, list[CUDAEvent]] = {}

    def _take(self, nbytes: int) -> Taken | None:
        blocks = self._idle.get(size_class(nbytes), [])
        free = next((k for k, block in enumerate(blocks) if self._is_free(block)), None)
        if free is None:
            return None
        blocks.append(blocks.pop(free))  # what is handed out next
        return super()._take(nbytes)

    def _is_free(self, block: Chunk) -> bool:
        """Whether all that may use a block has ended."""
        marks = self._marks.get(block.address)
        if marks is None:
            return True
        if not all(mark.has_ended() for mark in marks):
            return False
        del self._marks[block.address]
        return True

    def _give(self, address: int, nbytes: int, block: Chunk) -> None:
        streams = [stream for place in self._places() for stream in stream_pool(place).made()]
        marks = [mark for stream in streams if (mark := _mark(stream)) is not None]
        if marks:
            self._marks[block.address] = marks
        super()._give(address, nbytes, block)

    def _add(self, chunk: Chunk) -> None:
        self._marks.pop(chunk.address, None)  # of a block that the driver has taken back, when all had ended
        super()._add(chunk)


def _mark(stream: Stream) -> CUDAEvent | None:
    """Return the end of what a stream has got, if that has not come yet."""
    assert isinstance(stream, CUDAStream), "streams of a CUDA place"
    status = stream.device.ask("cuStreamQuery", stream.handle)
    if status != NOT_READY and status not in CAPTURING:
        return None  # nothing is queued, or nothing runs any more after a failure
    return CUDAEvent(stream.device, stream.handle)


def ordered(place: Place, *, limit_bytes: int | None = None) -> Allocator:
    """Return the allocator of a device that keeps what died."""
    return OrderedAllocator(CUDAAllocator(place), lambda: [place], limit_bytes)


class PagelockedAllocator(PinnedAllocator):
    """Page-locked memory of the host, for all CUDA devices; to take some waits for all of them."""

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


def ordered_pagelocked(place: Place, *, limit_bytes: int | None = None) -> Allocator:
    """Return the allocator of page-locked memory that keeps what died."""
    return OrderedAllocator(PagelockedAllocator(place), _devices, limit_bytes)


def _devices() -> list[Place]:
    return [place for place in initialize_devices().present if place.kind == "cuda"]


def _any_device() -> CUDADevice:
    for place in _devices():
        return cuda_device(place)
    raise UnavailableError(f"no CUDA device is here that {PinnedPlace()} memory is locked for")


def bring_memory() -> None:
    """Register the allocators, since there are devices."""
    if CUDAPlace().kind not in ALLOCATORS.registered():
        ALLOCATORS.register("cuda", ordered, help="memory of a CUDA device")
    ALLOCATORS.unregister("pinned")
    ALLOCATORS.register("pinned", ordered_pagelocked, help="page-locked memory of the host", priority=1)
