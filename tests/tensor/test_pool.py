"""What pools share: threads, memory that the CPU does not read, errors from below, spans that outlive their pool."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest

from tazza.errors import OutOfMemoryError, UnsupportedError
from tazza.tensor.allocation import AlignedAllocator, Allocation, Allocator, Taken
from tazza.tensor.place import CUDAPlace
from tests.tensor.allocators.model import MAKERS

POOLS = [name for name in MAKERS if name != "aligned"]


@pytest.mark.parametrize("name", MAKERS)
def test_threads_never_get_the_same_memory(name: str) -> None:
    """Each thread fills its spans with its own number, and finds it there when it lets them go."""
    upstream = AlignedAllocator()
    allocator = MAKERS[name](upstream)
    torn: list[int] = []

    def work(number: int) -> None:
        draw, held = random.Random(number), list[Allocation]()
        for _ in range(150):
            span = allocator.allocate(draw.randrange(5000), f"thread {number}")
            span.buffer[:] = number
            held.append(span)
            if len(held) > 4:
                gone = held.pop(draw.randrange(4))
                torn.extend(np.unique(gone.buffer[gone.buffer != number]).tolist())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not torn
    assert allocator.statistics.total_count == 600
    allocator.trim()
    figures = allocator.statistics
    assert (figures.in_use_bytes, figures.count, figures.reserved_bytes) == (0, 0, 0)
    assert upstream.statistics.count == 0


class FarMemory:
    """Owner of memory that the CPU does not read."""


class FarAllocator(Allocator):
    """Hands out made-up addresses of a device."""

    next_address = 1 << 20

    def _take(self, nbytes: int) -> Taken | None:
        address, self.next_address = self.next_address, self.next_address + nbytes
        self._reserved += nbytes
        return FarMemory(), address, None, None

    def _give(self, address: int, nbytes: int, block: None) -> None:
        self._reserved -= nbytes


@pytest.mark.parametrize("name", POOLS)
def test_memory_that_the_cpu_does_not_read(name: str) -> None:
    upstream = FarAllocator(CUDAPlace(1))
    allocator = MAKERS[name](upstream)
    spans = [allocator.allocate(100), allocator.allocate(100)]
    assert str(spans[0].place) == "cuda:1"
    assert abs(spans[1].address - spans[0].address) >= 100
    with pytest.raises(UnsupportedError, match="is not memory that the CPU reads"):
        _ = spans[0].buffer
    part = spans[0].part(64, 7)
    del spans
    assert allocator.statistics.count == 1
    del part
    assert allocator.statistics.count == 0
    allocator.trim()
    assert upstream.statistics.reserved_bytes == 0


@pytest.mark.parametrize("name", POOLS)
def test_what_is_missing_below_is_told(name: str) -> None:
    allocator = MAKERS[name](AlignedAllocator(limit_bytes=7000))
    held = allocator.allocate(2000, "weights")
    with pytest.raises(OutOfMemoryError) as caught:
        allocator.allocate(6000, "x")
    message = caught.value.message
    assert "cannot allocate 6000 bytes for x: cpu has no more memory: cannot allocate" in message
    assert "> limit of 7000 bytes at cpu" in message
    assert message.endswith(f"largest holders in bytes: weights {held.nbytes}")
    assert isinstance(caught.value.__cause__, OutOfMemoryError)


@pytest.mark.parametrize("name", POOLS)
def test_spans_outlive_their_pool(name: str) -> None:
    upstream = AlignedAllocator()
    allocator = MAKERS[name](upstream)
    view = allocator.allocate(100).buffer[10:20]
    view[:] = 5
    del allocator
    assert upstream.statistics.count == 1
    assert view.tolist() == [5] * 10
    del view
    assert upstream.statistics.count == 0
