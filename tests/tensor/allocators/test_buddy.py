"""The buddy allocator: its blocks against a model, splits and merges by hand."""

from __future__ import annotations

import pytest
from hypothesis.stateful import invariant

from tazza.errors import ArgumentError
from tazza.tensor.allocation import AlignedAllocator
from tazza.tensor.allocators.buddy import Block, BuddyAllocator
from tests.tensor.allocators.model import MAKERS, PoolMachine, as_test

CHUNK = 4096


class BuddyMachine(PoolMachine):
    """Blocks of powers of two tile the chunks, and all merge in the end."""

    make = staticmethod(MAKERS["buddy"])

    def blocks(self) -> list[Block]:
        """Return the blocks of the allocator."""
        assert isinstance(self.allocator, BuddyAllocator)
        return self.allocator.blocks()

    @invariant()
    def blocks_tile_the_chunks(self) -> None:
        """Free and used blocks together are all that is held, and each living span has one."""
        blocks = self.blocks()
        assert sum(nbytes for _, nbytes, _ in blocks) == self.allocator.statistics.reserved_bytes
        assert sum(holder is not None for _, _, holder in blocks) == len(self.held)
        assert all(nbytes & (nbytes - 1) == 0 for _, nbytes, _ in blocks if nbytes <= CHUNK)

    def teardown(self) -> None:
        """Every chunk is one free block."""
        self.held.clear()
        assert all((nbytes, holder) == (CHUNK, None) for _, nbytes, holder in self.blocks())
        super().teardown()


TestBuddy = as_test(BuddyMachine)


def buddies() -> BuddyAllocator:
    return BuddyAllocator(AlignedAllocator(), chunk_bytes=1024)


def sizes(allocator: BuddyAllocator) -> list[tuple[int, str | None]]:
    return [(block.nbytes, block.holder) for block in allocator.blocks()]


def test_blocks_split_and_merge_with_their_other_half_only() -> None:
    allocator = buddies()
    a, b, c = (allocator.allocate(nbytes, name) for name, nbytes in (("a", 200), ("b", 256), ("c", 129)))
    assert sizes(allocator) == [(256, "a"), (256, "b"), (256, "c"), (256, None)]
    b.close()
    c.close()
    assert sizes(allocator) == [(256, "a"), (256, None), (512, None)]  # b's neighbour c is not its other half
    a.close()
    assert sizes(allocator) == [(1024, None)]


def test_blocks_are_merged_before_a_chunk_is_got() -> None:
    allocator = buddies()
    small = [allocator.allocate(64) for _ in range(16)]
    del small
    assert allocator.allocate(1024).nbytes == 1024
    assert allocator.upstream.statistics.total_count == 1


def test_blocks_lie_at_multiples_of_their_size() -> None:
    allocator = buddies()
    spans = [allocator.allocate(nbytes) for nbytes in (1, 100, 64, 256, 300)]
    base = min(span.address for span in spans)
    for span, block in zip(spans, (64, 128, 64, 256, 512), strict=True):
        assert (span.address - base) % block == 0


def test_larger_spans_get_a_chunk_of_their_own_and_give_it_back() -> None:
    allocator = buddies()
    span = allocator.allocate(1025, "x")
    assert sizes(allocator) == [(1088, "x")]
    assert allocator.upstream.largest_holders() == [("x", 1088)]
    span.close()
    assert allocator.statistics.reserved_bytes == 0


@pytest.mark.parametrize("nbytes", [0, 32, 1000])
def test_chunks_are_powers_of_two(nbytes: int) -> None:
    with pytest.raises(ArgumentError, match=f"chunk_bytes = {nbytes} is not a power of two >= 64"):
        BuddyAllocator(AlignedAllocator(), chunk_bytes=nbytes)
