"""Memory for the results of one product that is made again and again.

Making a span, and noting when it dies, takes half as long as a product of some 10,000 elements. So the memory of small
results comes several to a span; it is given back when the last of them and whoever makes them are gone.
"""

from __future__ import annotations

from tazza.errors import OutOfMemoryError
from tazza.tensor.allocation import Allocation, Allocator, current_allocator
from tazza.tensor.place import Place
from tazza.tensor.pool import aligned_size
from tazza.tensor.storage import Storage

SPAN_BYTES = 1 << 16
"""Bytes of a span for several results; what is larger than half of it has a span of its own."""


class Results:
    """Storages of `nbytes` bytes at a place; threads may take them side by side.

    >>> from tazza.tensor.place import CPUPlace
    >>> results = Results(CPUPlace(), 1000)
    >>> a, b = results.storage(), results.storage()
    >>> a.address == b.address, a.capacity_bytes
    (False, 1000)
    """

    __slots__ = ("_nbytes", "_parts", "_place")

    def __init__(self, place: Place, nbytes: int) -> None:
        self._place, self._nbytes = place, nbytes
        self._parts: tuple[Allocator, list[Allocation]] | None = None

    def storage(self) -> Storage:
        """Return one with memory of the allocator that is in force in this thread.

        Raises:
            OutOfMemoryError: there is none.
        """
        parts = self._parts
        if parts is not None and parts[0] is current_allocator(self._place):
            try:
                return Storage(self._place, allocation=parts[1].pop())
            except IndexError:  # they are used up, or another thread has just taken the last one
                pass
        return self._with_new_memory()

    def _with_new_memory(self) -> Storage:
        size, allocator = aligned_size(self._nbytes), current_allocator(self._place)
        count = SPAN_BYTES // size
        if count > 1:
            try:
                span = allocator.allocate(count * size)
            except OutOfMemoryError:
                pass  # one alone may fit
            else:
                first, *others = (span.part(i * size, self._nbytes) for i in range(count))
                self._parts = allocator, others
                return Storage(self._place, allocation=first)
        storage = Storage(self._place)
        storage.reserve(self._nbytes)
        return storage
