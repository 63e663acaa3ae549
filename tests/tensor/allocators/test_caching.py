"""The caching allocator: against a model; what is used again, and what is let go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import invariant

from tazza.tensor.allocation import AlignedAllocator
from tazza.tensor.allocators.caching import CachingAllocator, size_class
from tests.tensor.allocators.model import MAKERS, PoolMachine, as_test


class CachingMachine(PoolMachine):
    """Idle blocks are bounded."""

    make = staticmethod(MAKERS["caching"])

    @invariant()
    def idle_blocks_are_bounded(self) -> None:
        assert isinstance(self.allocator, CachingAllocator)
        assert self.allocator.idle_bytes <= self.allocator.keep_bytes


TestCaching = as_test(CachingMachine)


@given(st.integers(0, 1 << 40))
def test_classes_are_tight_aligned_and_few(nbytes: int) -> None:
    size = size_class(nbytes)
    assert size >= max(nbytes, 1)
    assert size % 64 == 0
    assert size_class(size) == size
    assert nbytes <= 512 or size < 1.25 * nbytes
    assert size <= 512 or size / (1 << size.bit_length() - 1) in (1, 1.25, 1.5, 1.75)


def test_the_block_that_was_used_last_is_used_again() -> None:
    allocator = CachingAllocator(AlignedAllocator())
    first, second = allocator.allocate(1000), allocator.allocate(1000)
    addresses = first.address, second.address
    first.close()
    second.close()
    again = [allocator.allocate(nbytes) for nbytes in (1024, 900)]
    assert tuple(span.address for span in reversed(again)) == addresses
    assert allocator.upstream.statistics.total_count == 2


def test_the_size_that_rested_longest_is_let_go_first() -> None:
    allocator = CachingAllocator(AlignedAllocator(), keep_bytes=1024 + 512)
    spans = {nbytes: allocator.allocate(nbytes) for nbytes in (512, 1024, 2048, 256)}
    for nbytes in (512, 1024, 256):
        spans[nbytes].close()
        del spans[nbytes]
        _ = allocator.statistics
    assert allocator.idle_bytes == 1024 + 256
    spans[2048].close()
    assert allocator.idle_bytes == 0  # 2048 alone is more than is kept


def test_idle_blocks_are_given_back_before_memory_runs_out() -> None:
    allocator = CachingAllocator(AlignedAllocator(limit_bytes=2000))
    allocator.allocate(1500).close()
    assert allocator.idle_bytes == 1536
    assert allocator.allocate(1600).nbytes == 1600
    assert allocator.statistics.reserved_bytes == 1792
