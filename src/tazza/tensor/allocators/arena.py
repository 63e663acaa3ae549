"""The arena allocator: spans one behind the other in a chunk, whose space returns when the last of them is gone.

Allocating moves a pointer, giving back counts down: nothing is searched, split or merged. It suits spans that end
together, as those of one step or of one plan: a plan asks for one span, which `graph.memory` cut into planned offsets,
and takes the pieces with `Allocation.part`.

State: `_current` is the chunk that fills, `_idle` are chunks without living spans; what a dead span lay in is free
again only with its whole chunk.
"""

from __future__ import annotations

from tazza.errors import ArgumentError
from tazza.tensor.allocation import ALIGNMENT, ALLOCATORS, Allocator, Taken, allocator_of, alone
from tazza.tensor.place import Place
from tazza.tensor.pool import Chunk, PoolAllocator, aligned_size, carve

__all__ = ["ArenaAllocator"]

_LARGE = 4  # spans of more than this part of a chunk get a chunk of their own, and give it back


class _Region:
    """A chunk and its pointer: `used` bytes were handed out, to `living` spans that are still there."""

    __slots__ = ("chunk", "living", "used")

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.used = 0
        self.living = 0

    def take(self, size: int, nbytes: int) -> Taken:
        """Return the next `size` bytes."""
        offset = self.used
        self.used += size
        self.living += 1
        return carve(self.chunk, offset, size, nbytes, self)


class ArenaAllocator(PoolAllocator):
    """Moves a pointer through chunks of `chunk_bytes`; spans of more than a quarter of that get chunks of their own.

    >>> arena = ArenaAllocator(allocator_of(Place.parse("cpu")))
    >>> spans = [arena.allocate(nbytes) for nbytes in (100, 7, 64)]
    >>> [span.address - spans[0].address for span in spans]
    [0, 128, 192]
    """

    def __init__(self, upstream: Allocator, *, chunk_bytes: int = 1 << 20, limit_bytes: int | None = None) -> None:
        """Hold no memory yet.

        Raises:
            ArgumentError: `chunk_bytes` is less than 256, room for four of the smallest spans.
        """
        super().__init__(upstream, limit_bytes=limit_bytes)
        if chunk_bytes < _LARGE * ALIGNMENT:
            raise ArgumentError(f"chunk_bytes = {chunk_bytes} < {_LARGE * ALIGNMENT}")
        self.chunk_bytes = chunk_bytes
        self._current: _Region | None = None
        self._idle: list[_Region] = []
        self._single: list[_Region] = []  # chunks for large spans: got, but not yet taken

    def _take(self, nbytes: int) -> Taken | None:
        size = aligned_size(nbytes)
        if size * _LARGE > self.chunk_bytes:
            fitting = [region for region in self._single if region.chunk.nbytes == size]
            if not fitting:
                return None
            self._single.remove(fitting[0])
            return fitting[0].take(size, nbytes)
        region = self._current
        if region is None or region.used + size > self.chunk_bytes:
            if not self._idle:
                return None
            region = self._current = self._idle.pop()  # the former one comes back when its last span dies
        return region.take(size, nbytes)

    def _give(self, address: int, nbytes: int, block: _Region) -> None:
        block.living -= 1
        if block.living:
            return
        block.used = 0
        if block.chunk.nbytes != self.chunk_bytes:
            self._reserved -= block.chunk.nbytes
        elif block is not self._current:
            self._idle.append(block)

    def _grow(self, nbytes: int, holder: str) -> None:
        size = aligned_size(nbytes)
        large = size * _LARGE > self.chunk_bytes
        self._add(_Region(self._chunk(size, holder) if large else self._chunk(self.chunk_bytes)), large)

    @alone
    def _add(self, region: _Region, large: bool) -> None:
        self._reserved += region.chunk.nbytes
        (self._single if large else self._idle).append(region)

    @alone
    def trim(self) -> int:
        """Give chunks without living spans back; return their bytes."""
        self._drain()
        gone = [*self._idle, *self._single]
        self._idle.clear()
        self._single.clear()
        if self._current is not None and not self._current.living:
            gone.append(self._current)
            self._current = None
        nbytes = sum(region.chunk.nbytes for region in gone)
        self._reserved -= nbytes
        return nbytes


@ALLOCATORS.registering("arena", help="a pointer that moves through chunks of 1 MiB; plans keep their values here")
def make_arena(place: Place) -> Allocator:
    """Make the arena allocator of a place."""
    return ArenaAllocator(allocator_of(place))
