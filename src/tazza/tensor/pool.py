"""What allocators share that cut spans out of larger chunks, which another allocator gave them.

A chunk lives while its pool keeps it or while a span of it lives, so a pool may die before its spans.
"""

from __future__ import annotations

import numpy as np

from tazza.tensor.allocation import ALIGNMENT, Allocator, Bytes, Taken

_BYTE = np.dtype(np.uint8)


class Chunk:
    """Memory of the allocator below: `nbytes` from `address`."""

    __slots__ = ("address", "nbytes", "span", "window")

    def __init__(self, upstream: Allocator, nbytes: int, holder: str) -> None:
        """Allocate it.

        Raises:
            OutOfMemoryError: the allocator below has no room.
        """
        self.span = upstream.allocate(nbytes, holder)
        self.address = self.span.address
        self.nbytes = nbytes
        # NumPy skips bases that are arrays, so that a view of a part would keep the chunk alive but not the part; it
        # does not skip a memoryview.
        self.window = self.span.buffer.data if self.span.place.is_host else None


class _Token:
    """Owner of a part of a chunk that the CPU cannot read."""

    __slots__ = ("__weakref__", "chunk")

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk


def carve(chunk: Chunk, offset: int, size: int, nbytes: int, block: object) -> Taken:
    """Return the first `nbytes` of the `size` > 0 bytes at `offset` of a chunk as what `_take` returns."""
    address = chunk.address + offset
    if chunk.window is None:
        return _Token(chunk), address, None, block
    owner: Bytes = np.frombuffer(chunk.window, _BYTE, size, offset)
    return owner, address, owner[:nbytes], block


def aligned_size(nbytes: int) -> int:
    """Return `nbytes` rounded up to a multiple of `ALIGNMENT`, at least one.

    >>> aligned_size(0), aligned_size(64), aligned_size(65)
    (64, 64, 128)
    """
    return max(nbytes + ALIGNMENT - 1 & -ALIGNMENT, ALIGNMENT)


class PoolAllocator(Allocator):
    """Base of those that cut up chunks of `upstream`; `reserved_bytes` is the sum of the chunks that they hold."""

    def __init__(self, upstream: Allocator, *, limit_bytes: int | None = None) -> None:
        """Hold no memory yet."""
        super().__init__(upstream.place, limit_bytes=limit_bytes)
        self.upstream = upstream

    def _chunk(self, nbytes: int, holder: str = "") -> Chunk:
        """Get a chunk from below, for one holder or for several; without the lock, as `_grow` runs."""
        return Chunk(self.upstream, nbytes, holder if holder else f"chunk of {type(self).__name__}")
