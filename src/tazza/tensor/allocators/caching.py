"""The caching allocator: spans that died are kept by size class and handed out again.

A new span of some megabytes from the system costs a page fault for every 4 KiB when it is first written; one that was
used before costs none. Sizes are rounded up to classes, four from each power of two to the next, so a span of
more than 512 bytes wastes less than a fifth of its block.

State: `_idle` maps a class to its idle blocks, the last used one at the end; the class that was given a block last is
the last of the dict.
"""

from __future__ import annotations

from collections import OrderedDict

from tazza.tensor.allocation import ALLOCATORS, Allocator, Taken, allocator_of, alone
from tazza.tensor.place import Place
from tazza.tensor.pool import Chunk, PoolAllocator, aligned_size, carve

__all__ = ["CachingAllocator", "size_class"]

_LINEAR = 512  # classes up to here are the multiples of 64 bytes: a quarter of 256 is that much


def size_class(nbytes: int) -> int:
    """Return the bytes of the block that a span of `nbytes` gets.

    >>> size_class(1), size_class(500), size_class(513), size_class(5 << 20), size_class((5 << 20) + 1)
    (64, 512, 640, 5242880, 6291456)
    """
    if nbytes <= _LINEAR:
        return aligned_size(nbytes)
    step = 1 << (nbytes - 1).bit_length() - 3
    return nbytes + step - 1 & -step


class CachingAllocator(PoolAllocator):
    """Keeps up to `keep_bytes` of idle blocks of `upstream`, and those of the size that rested longest go first.

    >>> cached = CachingAllocator(allocator_of(Place.parse("cpu")))
    >>> address = cached.allocate(1000).address
    >>> cached.allocate(900).address == address, cached.idle_bytes
    (True, 1024)
    """

    def __init__(self, upstream: Allocator, *, keep_bytes: int = 1 << 30, limit_bytes: int | None = None) -> None:
        """Hold no memory yet."""
        super().__init__(upstream, limit_bytes=limit_bytes)
        self.keep_bytes = keep_bytes
        self._idle: OrderedDict[int, list[Chunk]] = OrderedDict()
        self._idle_bytes = 0

    @property
    def idle_bytes(self) -> int:
        """Bytes of the blocks that wait to be used again."""
        return self._count_idle()

    @alone
    def _count_idle(self) -> int:
        self._drain()
        return self._idle_bytes

    def _take(self, nbytes: int) -> Taken | None:
        size = size_class(nbytes)
        blocks = self._idle.get(size)
        if not blocks:
            return None
        chunk = blocks.pop()
        self._idle_bytes -= size
        return carve(chunk, 0, size, nbytes, chunk)

    def _give(self, address: int, nbytes: int, block: Chunk) -> None:
        self._keep(block)
        if self._idle_bytes > self.keep_bytes:
            self._shrink(self.keep_bytes)

    def _keep(self, chunk: Chunk) -> None:
        self._idle.setdefault(chunk.nbytes, []).append(chunk)
        self._idle.move_to_end(chunk.nbytes)
        self._idle_bytes += chunk.nbytes

    def _shrink(self, keep_bytes: int) -> None:
        """Let idle blocks go, of the class that rested longest first, until `keep_bytes` are left."""
        while self._idle_bytes > keep_bytes:
            if not self._idle:  # something was interrupted while it counted
                self._idle_bytes = 0
                return
            size, blocks = next(iter(self._idle.items()))
            if not blocks:
                del self._idle[size]
                continue
            del blocks[0]
            self._idle_bytes -= size
            self._reserved -= size

    def _grow(self, nbytes: int, holder: str) -> None:
        self._add(self._chunk(size_class(nbytes)))

    @alone
    def _add(self, chunk: Chunk) -> None:
        self._reserved += chunk.nbytes
        self._keep(chunk)

    @alone
    def trim(self) -> int:
        """Give all idle blocks back; return their bytes."""
        self._drain()
        nbytes = self._idle_bytes
        self._shrink(0)
        return nbytes


@ALLOCATORS.registering("caching", help="blocks that were used before are used again; keeps up to 1 GiB")
def make_caching(place: Place) -> Allocator:
    """Make the caching allocator of a place."""
    return CachingAllocator(allocator_of(place))
