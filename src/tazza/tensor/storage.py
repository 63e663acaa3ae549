"""The shared owner of a tensor's memory.

`generation` is unique in the process and changes with the address, so that one comparison tells a binder of addresses
(an executor) whether its addresses still hold, even when the whole storage was replaced. `version` counts writes:
whoever keeps something derived from the content (a reordered weight, a folded constant) keeps it under this number,
unless the storage `escaped`, which means that somebody outside holds a writable view and may write without telling.
`beside` belongs to the content, too, of memory that nobody writes to (see `residue`).

A storage is not locked: writers of a tensor are ordered by the net that runs them.
"""

from __future__ import annotations

import itertools
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tazza.errors import UnsupportedError
from tazza.tensor.allocation import Allocation, current_allocator
from tazza.tensor.dtype import DataType
from tazza.tensor.place import CPUPlace, Place

if TYPE_CHECKING:
    from tazza.tensor.tensor import Tensor

_generations = itertools.count(1)


class _Sharings:
    """How often tensors were made to share a storage: as long as `times` stands, those that do are the same."""

    __slots__ = ("times",)

    def __init__(self) -> None:
        self.times = 0


SHARINGS = _Sharings()
"""Read before every run, so an attribute and no function."""


class Storage:
    """Bytes at a place, allocated by the first `reserve`.

    `holder` names the storage in messages about memory. `generation` is 0 while there is no memory. `dtype` is the
    element type that it was last reserved for; None where it holds bytes of several, as an arena does.
    """

    __slots__ = ("_sharers", "allocation", "beside", "dtype", "escaped", "generation", "holder", "place", "version")

    def __init__(
        self,
        place: Place | None = None,
        *,
        allocation: Allocation | None = None,
        holder: str = "",
        dtype: DataType | None = None,
    ) -> None:
        self.place = CPUPlace() if place is None else place
        self.allocation = allocation
        self.dtype = dtype
        self.generation = 0 if allocation is None else next(_generations)
        self.version = 0
        self.escaped = False
        self.beside: object = None
        self.holder = holder
        self._sharers: dict[int, weakref.ref[Tensor]] | None = None  # by id: tensors compare elementwise

    @property
    def capacity_bytes(self) -> int:
        """Bytes that `reserve` gives without allocating."""
        return 0 if self.allocation is None else self.allocation.nbytes

    @property
    def allocated(self) -> bool:
        """Whether there is memory."""
        return self.generation != 0

    def __repr__(self) -> str:
        held = f" for {self.holder}" if self.holder else ""
        size = f"{self.capacity_bytes} bytes" if self.dtype is None else f"{self.numel} {self.dtype.label}"
        return f"{type(self).__name__}({size} at {self.place}{held}, {self.share_count} tensors)"

    @property
    def numel(self) -> int:
        """Number of elements that fit into its memory.

        Raises:
            UnsupportedError: it holds elements of several types.
        """
        if self.dtype is None:
            raise UnsupportedError(f"storage {self.holder!r} holds bytes of several types", hint="ask capacity_bytes")
        return self.capacity_bytes // self.dtype.itemsize

    def reserve(self, nbytes: int) -> None:
        """Make sure of `nbytes` bytes; memory that is large enough stays, else the old content is lost.

        New memory comes from the allocator that is in force in this thread (`using_allocator`).

        Raises:
            OutOfMemoryError: there is not that much.
        """
        if self.allocation is not None:
            if self.allocation.nbytes >= nbytes:
                return
            self.release()  # the old span first, so that both need not fit at once
        self.allocation = current_allocator(self.place).allocate(nbytes, self.holder)
        self.generation = next(_generations)

    def release(self) -> None:
        """Drop the memory; the next `reserve` allocates again."""
        self.version += 1  # first: whoever is interrupted here has lost nothing
        self.generation = 0
        self.allocation = None
        self.beside = None
        self.escaped = False  # outside views, if any, hold the old memory

    def mark_written(self) -> None:
        """Say that the content changed."""
        self.version += 1

    @property
    def address(self) -> int:
        """Address of the first byte.

        Raises:
            UnsupportedError: there is no memory.
        """
        if self.allocation is None:
            raise UnsupportedError(f"storage {self.holder!r} has no address", hint="reserve() memory first")
        return self.allocation.address

    def window(
        self, dtype: DataType, shape: tuple[int, ...], offset_bytes: int, strides: tuple[int, ...] | None
    ) -> npt.NDArray[Any]:
        """Return a NumPy view of the reserved memory; `strides` in elements, None for row-major."""
        assert self.allocation is not None, "reserve() comes first"
        steps = None if strides is None else tuple(step * dtype.itemsize for step in strides)
        return np.ndarray(shape, dtype.numpy, self.allocation.buffer, offset_bytes, steps)

    @property
    def share_count(self) -> int:
        """Number of living tensors that were made to share this storage; 1 when nobody ever asked."""
        if self._sharers is None:
            return 1
        return sum(sharer() is not None for sharer in list(self._sharers.values()))

    @property
    def alone(self) -> bool:
        """Whether nobody else looks at its memory, so that a tensor may leave it: views stay views of the same data."""
        return not self.escaped and self.share_count < 2

    def add_sharers(self, *tensors: Tensor) -> None:
        """Count these tensors as sharing, until they die or leave."""
        SHARINGS.times += 1
        if self._sharers is None:
            self._sharers = {}
        if len(self._sharers) & (len(self._sharers) - 1) == 0:  # now and then: views of long-lived storages come and go
            for key in [key for key, sharer in list(self._sharers.items()) if sharer() is None]:
                del self._sharers[key]
        for tensor in tensors:
            self._sharers[id(tensor)] = weakref.ref(tensor)

    def sharers(self) -> list[Tensor]:
        """Return the living tensors that were made to share this storage; none when nobody ever asked."""
        living = [] if self._sharers is None else [sharer() for sharer in list(self._sharers.values())]
        return [one for one in living if one is not None]

    def remove_sharer(self, tensor: Tensor) -> None:
        """Stop counting `tensor`."""
        if self._sharers is not None:
            self._sharers.pop(id(tensor), None)


class StringStorage(Storage):
    """References to `bytes` objects instead of raw memory; a string element takes 8 bytes of capacity, as a reference.

    New elements are empty strings. There is no address to hand to a kernel library.
    """

    __slots__ = ("objects",)

    def __init__(self, *, holder: str = "") -> None:
        super().__init__(holder=holder, dtype=DataType.STRING)
        self.objects: npt.NDArray[np.object_] | None = None

    @property
    def capacity_bytes(self) -> int:
        """Bytes of the references."""
        return 0 if self.objects is None else self.objects.size * DataType.STRING.itemsize

    def reserve(self, nbytes: int) -> None:
        """Make sure of references of `nbytes` bytes together."""
        if self.objects is not None and self.capacity_bytes >= nbytes:
            return
        self.release()
        self.objects = np.full(nbytes // DataType.STRING.itemsize, b"", object)
        self.generation = next(_generations)

    def release(self) -> None:
        """Drop the references."""
        self.objects = None
        super().release()

    def window(
        self, dtype: DataType, shape: tuple[int, ...], offset_bytes: int, strides: tuple[int, ...] | None
    ) -> npt.NDArray[Any]:
        """Return a view of the references; `dtype` is STRING."""
        assert self.objects is not None, "reserve() comes first"
        first = offset_bytes // DataType.STRING.itemsize
        if strides is None:
            return self.objects[first : first + int(np.prod(shape, dtype=np.int64))].reshape(shape)
        steps = tuple(step * DataType.STRING.itemsize for step in strides)
        return np.lib.stride_tricks.as_strided(self.objects[first:], shape, steps)
