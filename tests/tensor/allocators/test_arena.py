"""The arena: against a model; order, space that returns, chunks of large spans."""

from __future__ import annotations

import pytest

from tazza.errors import ArgumentError
from tazza.tensor.allocation import AlignedAllocator
from tazza.tensor.allocators.arena import ArenaAllocator
from tests.tensor.allocators.model import MAKERS, PoolMachine, as_test


class ArenaMachine(PoolMachine):
    """Nothing beyond what pools promise."""

    make = staticmethod(MAKERS["arena"])


TestArena = as_test(ArenaMachine)


def arena() -> ArenaAllocator:
    return ArenaAllocator(AlignedAllocator(), chunk_bytes=1024)


def test_spans_lie_one_behind_the_other() -> None:
    allocator = arena()
    spans = [allocator.allocate(nbytes) for nbytes in (1, 64, 130, 200)]
    assert [span.address - spans[0].address for span in spans] == [0, 64, 128, 320]


def test_space_returns_with_the_last_span_of_its_chunk() -> None:
    allocator = arena()
    spans = [allocator.allocate(256) for _ in range(4)]
    address = spans[0].address
    del spans[1:]
    other = allocator.allocate(256)  # the chunk is full, though most of it is dead
    assert allocator.statistics.reserved_bytes == 2048
    del spans, other
    assert address in {span.address for span in [allocator.allocate(256) for _ in range(8)]}
    assert allocator.statistics.reserved_bytes == 2048


def test_large_spans_get_a_chunk_of_their_own() -> None:
    allocator = arena()
    small = allocator.allocate(100, "small")
    large = allocator.allocate(257, "large")
    assert allocator.upstream.largest_holders() == [("chunk of ArenaAllocator", 1024), ("large", 320)]
    large.close()
    assert allocator.statistics.reserved_bytes == 1024
    assert allocator.allocate(100).address == small.address + 128


def test_chunks_hold_some_spans() -> None:
    with pytest.raises(ArgumentError, match="chunk_bytes = 255 < 256"):
        ArenaAllocator(AlignedAllocator(), chunk_bytes=255)
