"""Allocators: alignment, figures against a model, limit, threads."""

from __future__ import annotations

import gc
import itertools
import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from tazza.array.quantized import QTensor
from tazza.array.sparse import COO, CSR
from tazza.errors import ArgumentError, NotFoundError, OutOfMemoryError, UnavailableError, UnsupportedError
from tazza.tensor import allocation
from tazza.tensor.allocation import (
    ALLOCATORS,
    AlignedAllocator,
    Allocation,
    Allocator,
    Taken,
    allocator_of,
    default_allocator,
    new_array,
    using_allocator,
)
from tazza.tensor.place import CUDAPlace, PinnedPlace, Place
from tests.tensor.allocators.model import MAKERS, AllocatorMachine, as_test


class AlignedMachine(AllocatorMachine):
    """Nothing beyond what all promise."""

    make = staticmethod(MAKERS["aligned"])


TestAligned = as_test(AlignedMachine)


def test_views_keep_memory_alive_and_counted() -> None:
    allocator = AlignedAllocator()
    span = allocator.allocate(64)
    span.buffer[:] = 7
    view = span.buffer.view(np.int32)[3:]
    span.close()
    del span
    assert allocator.statistics.in_use_bytes == 64
    assert view[0] == 0x07070707
    del view
    assert allocator.statistics.in_use_bytes == 0


def test_spans_do_not_overlap() -> None:
    allocator = AlignedAllocator()
    spans = [allocator.allocate(nbytes) for nbytes in (1, 63, 64, 65, 0)]
    ranges = sorted((span.address, span.address + span.nbytes) for span in spans)
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))
    assert all(span.address for span in spans)


def test_limit_names_the_largest_holders() -> None:
    allocator = AlignedAllocator(limit_bytes=1000)
    held = [allocator.allocate(nbytes, holder) for nbytes, holder in ((300, "fc/w"), (500, "conv/w"), (100, ""))]
    with pytest.raises(OutOfMemoryError) as caught:
        allocator.allocate(101, "x")
    assert "900 in use + 101 asked for > limit of 1000 bytes at cpu" in caught.value.message
    assert "101 bytes for x" in caught.value.message
    assert "conv/w 500, fc/w 300, unnamed 100" in caught.value.message
    assert isinstance(caught.value, MemoryError)
    held.pop(1)
    assert allocator.allocate(101).nbytes == 101


def test_limit_collects_cycles_first() -> None:
    allocator = AlignedAllocator(limit_bytes=100)
    cycle: list[object] = [allocator.allocate(80)]
    cycle.append(cycle)
    del cycle
    gc.disable()
    try:
        assert allocator.allocate(90).nbytes == 90
    finally:
        gc.enable()


@pytest.mark.parametrize("nbytes", [2**62, 2**63 - 1, 2**70])
def test_more_than_there_is(nbytes: int) -> None:
    allocator = AlignedAllocator()
    with pytest.raises(OutOfMemoryError, match=f"cannot allocate {nbytes} bytes"):
        allocator.allocate(nbytes)
    assert allocator.statistics.in_use_bytes == 0


def test_a_finalizer_that_allocates_gets_an_error_instead_of_halting_its_thread() -> None:
    """The garbage collector may run it in the middle of an allocation; here `_take` stands for that."""

    class Reentered(AlignedAllocator):
        def _take(self, nbytes: int) -> Taken | None:
            with pytest.raises(UnsupportedError, match="in the middle of its own work, by a finalizer"):
                self.allocate(5)
            with pytest.raises(UnsupportedError, match="in the middle"):
                _ = self.statistics
            return super()._take(nbytes)

    allocator = Reentered()
    span = allocator.allocate(100)
    figures = allocator.statistics
    assert (figures.in_use_bytes, figures.count) == (span.nbytes, 1)


def test_negative_size() -> None:
    with pytest.raises(ArgumentError, match="-1 < 0 bytes"):
        default_allocator().allocate(-1)


def test_reset_peak() -> None:
    allocator = AlignedAllocator()
    span = allocator.allocate(10)
    allocator.allocate(100)
    assert allocator.statistics.peak_bytes == 110
    allocator.reset_peak()
    assert allocator.statistics.peak_bytes == span.nbytes


def test_closed_span() -> None:
    span = default_allocator().allocate(10)
    span.close()
    span.close()
    assert span.closed
    with pytest.raises(UnsupportedError, match="is closed"):
        _ = span.buffer


def test_adopted_memory_is_not_counted() -> None:
    before = default_allocator().statistics
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    span = Allocation.adopt(array)
    assert (span.address, span.nbytes) == (array.ctypes.data, 12)
    span.buffer[0] = 9
    assert array[0, 0] == 9
    assert default_allocator().statistics == before
    assert Allocation.adopt(np.empty((0, 3))).nbytes == 0


def test_parts_are_the_same_memory_counted_once() -> None:
    allocator = AlignedAllocator()
    span = allocator.allocate(300)
    part = span.part(64, 100)
    assert (part.address - span.address, part.nbytes, part.place) == (64, 100, span.place)
    part.buffer[:] = 7
    assert span.buffer[64:164].tolist() == [7] * 100
    span.close()
    assert allocator.statistics.in_use_bytes == 300
    part.close()
    assert allocator.statistics.in_use_bytes == 0


@pytest.mark.parametrize(("offset", "nbytes"), [(-1, 3), (0, 301), (300, 1), (5, -1)])
def test_parts_lie_inside(offset: int, nbytes: int) -> None:
    span = default_allocator().allocate(300)
    with pytest.raises(ArgumentError, match=f"{nbytes} bytes at byte {offset} does not lie inside of a span of 300"):
        span.part(offset, nbytes)
    span.close()
    with pytest.raises(ArgumentError, match="a closed span"):
        span.part(0, 3)


def test_spans_go_back_to_their_own_allocator() -> None:
    span = AlignedAllocator().allocate(10)
    with pytest.raises(ArgumentError, match="comes from another allocator"):
        default_allocator().deallocate(span)
    assert not span.closed


def test_pinned_memory_waits_for_a_device() -> None:
    allocator = allocator_of(PinnedPlace())
    assert allocator.place == PinnedPlace()
    with pytest.raises(UnavailableError, match="no device that pins memory is loaded"):
        allocator.allocate(10)


def test_a_device_brings_its_allocator() -> None:
    with pytest.raises(NotFoundError, match="unknown allocator of place kind 'cuda'"):
        allocator_of(CUDAPlace(1))

    class Fake(AlignedAllocator):
        def __init__(self, place: Place) -> None:
            super().__init__()
            self.place = place

    ALLOCATORS.register("cuda", Fake)
    try:
        first: Allocator = allocator_of(CUDAPlace(0))
        assert first is allocator_of(CUDAPlace(0))
        assert first is not allocator_of(CUDAPlace(1))
        assert str(first.allocate(8).place) == "cuda:0"
    finally:
        ALLOCATORS.unregister("cuda")


def test_a_higher_priority_replaces_the_allocator() -> None:
    place = Place("attic")
    ALLOCATORS.register("attic", lambda place: AlignedAllocator())
    try:
        old = allocator_of(place)
        assert allocator_of(place) is old
        ALLOCATORS.register("attic", lambda place: AlignedAllocator(limit_bytes=7), priority=1)
        assert allocator_of(place).limit_bytes == 7
    finally:
        ALLOCATORS.unregister("attic")


FORK = """
import os, signal, threading
import tazza.array as ta
from tazza.tensor import allocation

allocator = allocation.default_allocator()
held, done = threading.Event(), threading.Event()

def hold():
    with allocator._lock, allocation._made_lock:
        allocator._busy = True
        held.set()
        done.wait()
        allocator._busy = False

thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(60)  # ends it if it waits for ever
    ta.Tensor((100,)).reserve()
    allocation.allocator_of(allocator.place, "caching").allocate(10)
    os._exit(0)
done.set()
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_allocates_whatever_other_threads_were_at() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "0\n"


def test_results_come_from_the_allocator_in_force() -> None:
    dense = np.ones((30, 50), np.float32)
    sparse = CSR.from_dense(dense)
    listed = sparse.to_coo()
    q = QTensor.of_integers(np.arange(1500) % 7, 3, signed=False)
    acts: list[Callable[[], object]] = [
        lambda: new_array((30, 50), np.float32),
        lambda: CSR.from_dense(dense),
        lambda: COO.from_dense(dense),
        sparse.transpose,
        lambda: sparse * 2,
        lambda: sparse * dense,
        lambda: sparse / dense,
        lambda: sparse + dense,
        lambda: listed + listed,
        lambda: sparse @ np.ones((50, 30), np.float32),
        q.integers,
        q.dequantize,
    ]
    for act in acts:
        with using_allocator(AlignedAllocator(limit_bytes=1000)), pytest.raises(OutOfMemoryError):
            act()
        with using_allocator(AlignedAllocator()) as allocator:
            act()
            assert allocator.statistics.total_count > 0


def test_what_is_larger_than_any_memory() -> None:
    tall = COO((2**46, 5), [0], [1], [1.0])
    for act in (lambda: new_array((2**40, 2**40), np.float32), lambda: tall @ np.ones(5)):
        with pytest.raises(OutOfMemoryError):
            act()


def test_what_no_memory_bears_is_refused_before_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Systems promise more memory than there is; whoever writes to all of it is ended."""
    monkeypatch.setattr(allocation, "available_bytes", lambda: allocation.LARGE_BYTES + 1)
    allocator = AlignedAllocator()
    allocator.allocate(allocation.LARGE_BYTES + 1).close()
    with pytest.raises(OutOfMemoryError, match="no more memory"):
        allocator.allocate(allocation.LARGE_BYTES + 2)
