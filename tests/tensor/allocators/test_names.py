"""Allocators by name, and the one that new tensors of a thread get their memory from."""

from __future__ import annotations

import threading

import pytest

from tazza.errors import ArgumentError, NotFoundError, UnavailableError
from tazza.tensor import CPUPlace, CUDAPlace, PinnedPlace, Tensor
from tazza.tensor.allocation import (
    ALLOCATORS,
    AlignedAllocator,
    Allocator,
    allocator_of,
    current_allocator,
    default_allocator,
    made_allocators,
    using_allocator,
)
from tazza.tensor.allocators.buddy import BuddyAllocator

POLICIES = ["arena", "buddy", "caching"]


def test_modules_are_the_names() -> None:
    assert [name for name in ALLOCATORS if name not in ("cpu", "pinned")] == POLICIES
    assert all(ALLOCATORS.help(name) for name in ALLOCATORS)
    with pytest.raises(NotFoundError, match="unknown allocator of place kind 'budy'"):
        allocator_of(CPUPlace(), "budy")


@pytest.mark.parametrize("name", POLICIES)
def test_tensors_of_a_block_take_memory_from_the_allocator(name: str) -> None:
    with using_allocator(name) as allocator:
        assert allocator is allocator_of(CPUPlace(), name) is made_allocators()[name, CPUPlace()]
        before = allocator.statistics
        tensor = Tensor((3, 5), holder="x")
        tensor.reserve()
    assert allocator.statistics.in_use_bytes == before.in_use_bytes + 60
    tensor.resize((7, 5))  # outside of the block it grows elsewhere
    assert allocator.statistics.in_use_bytes == before.in_use_bytes
    assert ("x", 140) in default_allocator().largest_holders(1000)


def test_blocks_nest_and_end_on_errors() -> None:
    mine = BuddyAllocator(AlignedAllocator(), chunk_bytes=1024)

    def fail() -> None:
        with using_allocator(mine):
            assert current_allocator(CPUPlace()) is mine
            raise ValueError("inside")

    with using_allocator("caching") as caching:
        with pytest.raises(ValueError, match="inside"):
            fail()
        assert current_allocator(CPUPlace()) is caching
    assert current_allocator(CPUPlace()) is default_allocator()


def test_other_threads_and_places_are_not_touched() -> None:
    seen: list[Allocator] = []
    with using_allocator("buddy"):
        thread = threading.Thread(target=lambda: seen.append(current_allocator(CPUPlace())))
        thread.start()
        thread.join()
        assert current_allocator(PinnedPlace()) is allocator_of(PinnedPlace())
    assert seen == [default_allocator()]


def test_a_name_of_a_place_serves_that_place() -> None:
    with using_allocator("pinned") as allocator:
        assert allocator.place == PinnedPlace()
        assert current_allocator(CPUPlace()) is default_allocator()
    with pytest.raises(ArgumentError, match="allocator 'cpu' does not serve pinned"):
        allocator_of(PinnedPlace(), "cpu")
    with (
        pytest.raises(ArgumentError, match="allocator of cpu does not serve cuda:0"),
        using_allocator(AlignedAllocator(), CUDAPlace(0)),
    ):
        pass


def test_a_policy_over_memory_that_is_not_there() -> None:
    with pytest.raises(UnavailableError, match="pinned memory is not available"):
        allocator_of(PinnedPlace(), "caching").allocate(10)
    with pytest.raises(NotFoundError, match="'cuda'"):
        allocator_of(CUDAPlace(3), "buddy")
