"""The buddy allocator: blocks whose sizes are powers of two, halved on demand and merged with their other half.

A block of 2**k bytes lies at a multiple of 2**k in its chunk, so the other half of the block that it was cut from, its
buddy, is found by flipping bit k of its offset. Splitting and merging take at most log2(chunk / 64) steps.

State: `_free[k]` maps the addresses of free blocks of 2**k bytes to their chunks; bit k of `_orders` is set where there
may be any. `_quick[k]` has up to `_QUICK` blocks of 2**k bytes that were given back last and are not merged yet: who
asks for as much next gets one of them, without splits and merges (a third of the time where all else is free). They
are merged before memory is got from below, trimmed or shown. Invariant: no block and its buddy are both in `_free`, so
after that merge a chunk without living spans is one free block.

Source: Knowlton, A fast storage allocator, CACM 8(10), 1965; putting merges off: Barkley, Lee, A lazy buddy system
bounded by two coalescing delays per class, SOSP 1989.
"""

from __future__ import annotations

from typing import NamedTuple

from tazza.errors import ArgumentError
from tazza.tensor.allocation import ALIGNMENT, ALLOCATORS, Allocator, Taken, allocator_of, alone
from tazza.tensor.place import Place
from tazza.tensor.pool import Chunk, PoolAllocator, aligned_size, carve

__all__ = ["Block", "BuddyAllocator"]

_QUICK = 8  # enough for what one step of a loop allocates and drops
_WHOLE = -1  # order of a chunk that is one span, not split


class Block(NamedTuple):
    """A block of a chunk: `nbytes` from `address`; `holder` is None while it is free."""

    address: int
    nbytes: int
    holder: str | None


class BuddyAllocator(PoolAllocator):
    """Blocks of 64 bytes to `chunk_bytes`, cut out of chunks of `chunk_bytes`; what is larger gets a chunk of its own.

    A span of more than 32 bytes wastes less than half of its block. Free chunks are kept until `trim`, or until memory
    runs out.

    >>> buddies = BuddyAllocator(allocator_of(Place.parse("cpu")), chunk_bytes=1024)
    >>> span = buddies.allocate(100, "x"); [(block.nbytes, block.holder) for block in buddies.blocks()]
    [(128, 'x'), (128, None), (256, None), (512, None)]
    >>> span.close(); [block.nbytes for block in buddies.blocks()]
    [1024]
    """

    def __init__(self, upstream: Allocator, *, chunk_bytes: int = 1 << 26, limit_bytes: int | None = None) -> None:
        """Hold no memory yet.

        Raises:
            ArgumentError: `chunk_bytes` is not a power of two of at least 64.
        """
        super().__init__(upstream, limit_bytes=limit_bytes)
        if chunk_bytes < ALIGNMENT or chunk_bytes & (chunk_bytes - 1):
            raise ArgumentError(f"chunk_bytes = {chunk_bytes} is not a power of two >= {ALIGNMENT}")
        self.chunk_bytes = chunk_bytes
        self._largest = chunk_bytes.bit_length() - 1
        self._free: list[dict[int, Chunk]] = [{} for _ in range(self._largest + 1)]
        self._quick: list[list[tuple[int, Chunk]]] = [[] for _ in range(self._largest + 1)]
        self._orders = 0
        self._unsplit: list[Chunk] = []  # for spans that are larger than a chunk; got, but not yet taken

    def _take(self, nbytes: int) -> Taken | None:
        if nbytes > self.chunk_bytes:
            return self._take_whole(nbytes)
        order = max(nbytes - 1, ALIGNMENT - 1).bit_length()
        quick = self._quick[order]
        address, chunk = quick.pop() if quick else self._split(order)
        if chunk is None:
            return None
        return carve(chunk, address - chunk.address, 1 << order, nbytes, (chunk, order))

    def _split(self, order: int) -> tuple[int, Chunk | None]:
        """Return a free block of 2**order bytes, cut out of the smallest one that holds it; no chunk when none does."""
        found = self._smallest(order)
        if found is None:
            self._merge_all()
            found = self._smallest(order)
        if found is None:
            return 0, None
        address, chunk = self._free[found].popitem()
        while found > order:  # keep the lower half, free the upper one
            found -= 1
            self._add_free(found, address + (1 << found), chunk)
        return address, chunk

    def _smallest(self, order: int) -> int | None:
        """Return the smallest order from `order` on that has free blocks."""
        while fitting := self._orders >> order:
            found = order + (fitting & -fitting).bit_length() - 1
            if self._free[found]:
                return found
            self._orders &= ~(1 << found)
        return None

    def _take_whole(self, nbytes: int) -> Taken | None:
        fitting = [chunk for chunk in self._unsplit if chunk.nbytes >= nbytes]
        if not fitting:
            return None
        chunk = min(fitting, key=lambda chunk: chunk.nbytes)
        self._unsplit.remove(chunk)
        return carve(chunk, 0, chunk.nbytes, nbytes, (chunk, _WHOLE))

    def _give(self, address: int, nbytes: int, block: tuple[Chunk, int]) -> None:
        chunk, order = block
        if order == _WHOLE:
            self._reserved -= chunk.nbytes
            return
        quick = self._quick[order]
        if len(quick) < _QUICK:
            quick.append((address, chunk))
        else:
            self._merge(address, chunk, order)

    def _merge_all(self) -> None:
        for order, quick in enumerate(self._quick):
            while quick:
                self._merge(*quick.pop(), order)

    def _merge(self, address: int, chunk: Chunk, order: int) -> None:
        """Free a block, as part of the largest free block that it completes."""
        offset = address - chunk.address
        while order < self._largest:
            if self._free[order].pop(chunk.address + (offset ^ 1 << order), None) is None:
                break
            offset &= ~(1 << order)
            order += 1
        self._add_free(order, chunk.address + offset, chunk)

    def _add_free(self, order: int, address: int, chunk: Chunk) -> None:
        self._orders |= 1 << order
        self._free[order][address] = chunk

    def _grow(self, nbytes: int, holder: str) -> None:
        whole = nbytes > self.chunk_bytes
        self._add(self._chunk(aligned_size(nbytes), holder) if whole else self._chunk(self.chunk_bytes), whole)

    @alone
    def _add(self, chunk: Chunk, whole: bool) -> None:
        self._reserved += chunk.nbytes
        if whole:
            self._unsplit.append(chunk)
        else:
            self._add_free(self._largest, chunk.address, chunk)

    @alone
    def trim(self) -> int:
        """Give chunks without living spans back; return their bytes."""
        self._drain()
        self._merge_all()
        idle = [*self._free[self._largest].values(), *self._unsplit]
        self._free[self._largest].clear()
        self._unsplit.clear()
        nbytes = sum(chunk.nbytes for chunk in idle)
        self._reserved -= nbytes
        return nbytes

    @alone
    def blocks(self) -> list[Block]:
        """Return all blocks of all chunks by address, as a picture of the allocator shows them."""
        self._drain()
        self._merge_all()
        free = [Block(address, 1 << order, None) for order, blocks in enumerate(self._free) for address in blocks]
        free += [Block(chunk.address, chunk.nbytes, None) for chunk in self._unsplit]
        used = [
            Block(address, chunk.nbytes if order == _WHOLE else 1 << order, holder)
            for address, _, (chunk, order), holder in self._live.values()
        ]
        return sorted(free + used)


@ALLOCATORS.registering("buddy", help="blocks of powers of two, split and merged, out of chunks of 64 MiB")
def make_buddy(place: Place) -> Allocator:
    """Make the buddy allocator of a place."""
    return BuddyAllocator(allocator_of(place))
