"""Allocators: alignment, figures against a model, limit, threads."""

from __future__ import annotations

import gc
import itertools
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.errors import ArgumentError, NotFoundError, OutOfMemoryError, UnavailableError, UnsupportedError
from tazza.tensor.allocation import (
    ALIGNMENT,
    ALLOCATORS,
    AlignedAllocator,
    Allocation,
    Allocator,
    allocator_of,
    default_allocator,
)
from tazza.tensor.place import CUDAPlace, PinnedPlace, Place


@given(st.lists(st.one_of(st.integers(0, 5000), st.tuples(st.integers(0, 9), st.booleans())), max_size=30))
def test_figures_follow_a_model(steps: list[int | tuple[int, bool]]) -> None:
    """An int allocates that many bytes; a pair drops one of the living spans, by closing it or by forgetting it."""
    allocator = AlignedAllocator()
    spans: list[Allocation] = []
    peak = 0
    for step in steps:
        if isinstance(step, int):
            spans.append(allocator.allocate(step))
            assert spans[-1].address % ALIGNMENT == 0
            assert spans[-1].buffer.nbytes == spans[-1].nbytes == step
        elif spans:
            span = spans.pop(step[0] % len(spans))
            if step[1]:
                allocator.deallocate(span)
            del span
        in_use = sum(span.nbytes for span in spans)
        peak = max(peak, in_use)
        figures = allocator.statistics
        assert (figures.in_use_bytes, figures.peak_bytes, figures.count) == (in_use, peak, len(spans))
        assert figures.reserved_bytes >= in_use


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


def test_threads() -> None:
    allocator = AlignedAllocator()
    keep = [allocator.allocate(5)]

    def work() -> None:
        for nbytes in range(200):
            span = allocator.allocate(nbytes)
            span.buffer[:] = 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures = allocator.statistics
    assert (figures.in_use_bytes, figures.count) == (sum(span.nbytes for span in keep), 1)
    assert figures.peak_bytes >= 5 + 199


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
