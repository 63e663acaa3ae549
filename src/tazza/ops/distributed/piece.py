"""Pieces of memory that go around among ranks: tensors of float32 as they lie, or in rows.

An engine writes gradients in a layout of its own, and the update reads them there. A sum goes element by element, so it
may be formed of the memory as it is, with what pads it, where all ranks have the same layout; `Form.number` stands for
the layouts, to be held against that of the others. Where they differ all bring rows (`Form.in_rows`).

Small tensors are copied into one stretch, so that one message has them; a large one is read where it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tazza.data_class import dataclass
from tazza.operator import Array
from tazza.ops.distributed.communicator import CommonWorld
from tazza.runtime.digest import digest_of
from tazza.runtime.patience import Patience
from tazza.tensor import ROW_MAJOR, Allocation, DataType, Storage, Tensor, TensorSpec
from tazza.tensor.layout import words_of

LARGE_BYTES = 2**18
"""Tensors from here on are worth a message of their own."""
STRETCH = 2**16
"""Elements that are read and written twice while they are in the cache."""


@dataclass(frozen=True, slots=True)
class Part:
    """The memory of one tensor: all of it, flat, as `spec` lies on the host."""

    flat: NDArray[np.float32]
    spec: TensorSpec
    copied: bool = False

    @staticmethod
    def of(tensor: Tensor) -> Part:
        """Return the memory of a tensor itself; a copy in rows where it is on a device or holds more than elements."""
        spec = tensor.spec
        if spec.place.is_host and _words(spec) is not None:
            return Part(tensor.span, spec)
        return Part.rows_of(tensor.plain())

    @staticmethod
    def rows_of(array: Array) -> Part:
        """Return a copy of an array's elements, in rows."""
        flat = np.array(array, order="C").reshape(-1)
        return Part(flat, TensorSpec(array.shape, DataType.FLOAT), copied=True)

    def plain(self) -> Array:
        """Return the elements as an array of their shape."""
        if self.spec.layout == ROW_MAJOR:
            return self.flat.reshape(self.spec.shape)
        return Tensor.over(Storage(allocation=Allocation.adopt(self.flat)), 0, self.spec).plain()


@dataclass(frozen=True, slots=True)
class Sums:
    """What came of an exchange: the sums, or, of two ranks that have `swapped`, what the other has brought."""

    parts: Sequence[Part]
    swapped: bool

    def write(self, tensors: Sequence[Tensor], scale: float) -> None:
        """Let tensors have the sums times `scale`; after a swap they still are as this rank brought them."""
        factor = np.float32(scale)
        with np.errstate(all="ignore"):
            for tensor, part in zip(tensors, self.parts, strict=True):
                if tensor.spec is not part.spec and tensor.spec != part.spec:
                    total = tensor.plain() + part.plain() if self.swapped else part.plain()
                    tensor.assign(total * factor)
                    continue
                if self.swapped:
                    _add_scaled(tensor.span, part.flat, factor)
                else:
                    np.multiply(part.flat, factor, out=tensor.span)
                tensor.mark_written()


def _add_scaled(own: NDArray[np.float32], other: NDArray[np.float32], factor: np.float32) -> None:
    """Write own = (own + other) * factor, in stretches that stay in a core's cache meanwhile."""
    for start in range(0, own.size, STRETCH):
        stretch = own[start : start + STRETCH]
        np.add(stretch, other[start : start + STRETCH], out=stretch)
        np.multiply(stretch, factor, out=stretch)


@dataclass(frozen=True)
class Form:
    """How the parts of a piece lie in it: small ones first, side by side, then the large ones."""

    specs: tuple[TensorSpec, ...]

    @cached_property
    def number(self) -> int:
        """A number for the layouts: where all ranks have the same one, they have the same layouts."""
        return int.from_bytes(digest_of("\n".join(f"{spec.shape} {_words(spec)}" for spec in self.specs).encode())[:7])

    @cached_property
    def large(self) -> tuple[bool, ...]:
        """For each part whether it goes around by itself."""
        return tuple(spec.nbytes >= LARGE_BYTES for spec in self.specs)

    @cached_property
    def small_size(self) -> int:
        """Elements of the stretch of small ones."""
        return sum(size for size, large in zip(self._sizes, self.large, strict=True) if not large)

    @property
    def size(self) -> int:
        """Elements of the whole piece, padding included."""
        return sum(self._sizes)

    @cached_property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(spec.span_bytes // spec.dtype.itemsize for spec in self.specs)

    def parts(self, piece: NDArray[np.float32]) -> list[Part]:
        """Return the parts of a piece, in the order of the specs."""
        found: list[Part] = []
        ends = {False: 0, True: self.small_size}
        for spec, size, large in zip(self.specs, self._sizes, self.large, strict=True):
            start, ends[large] = ends[large], ends[large] + size
            found.append(Part(piece[start : ends[large]], spec))
        return found


def _words(spec: TensorSpec) -> str | None:
    return words_of(spec.layout, spec.shape, spec.dtype.itemsize)


class Bundle:
    """What a rank brings to a sum again and again, and the piece of memory in which that of all comes about."""

    def __init__(self, tensors: Sequence[Tensor], sent: DataType, before: Bundle | None) -> None:
        """Bring tensors; `before`: what was brought last, which may have been alike."""
        self._tensors, self._sent = tensors, sent
        self._stand = _stand_of(tensors)
        self._parts = [Part.of(tensor) for tensor in tensors]
        specs = tuple(part.spec for part in self._parts)
        self.form = before.form if before is not None and before.form.specs == specs else Form(specs)
        self._piece = np.empty(self.form.size, np.float32)
        self._found = self.form.parts(self._piece)
        pairs = list(zip(self._parts, self._found, self.form.large, strict=True))
        there = sent is DataType.FLOAT
        self._large = [(part.flat, found.flat) for part, found, large in pairs if large and there]
        self._copied = [(part.flat, found.flat) for part, found, large in pairs if not (large and there)]

    def brings(self, tensors: Sequence[Tensor]) -> bool:
        """Whether it brings the memory of these tensors, which has to be where it was."""
        return self._stand == _stand_of(tensors) and not any(part.copied for part in self._parts)

    def fill(self) -> None:
        """Copy into the piece what is not sent from where it lies."""
        for source, target in self._copied:
            np.copyto(target, source)

    def sum(self, world: CommonWorld, what: str, patience: Patience) -> Sums:
        """Return the sums over all ranks, in the memory of the piece; raises as `CommonWorld.allreduce`."""
        if world.agree(what, self.form.number, patience):
            return self._sum(world, what, patience)
        rows = [Tensor.from_numpy(part.plain()) for part in self._parts]
        other = Bundle(rows, self._sent, None)
        other.fill()
        return other._sum(world, what, patience)

    def _sum(self, world: CommonWorld, what: str, patience: Patience) -> Sums:
        if self._sent is not DataType.FLOAT:
            world.allreduce_as(what, self._piece, self._sent, patience)
            return Sums(self._found, swapped=False)
        small = self._piece[: self.form.small_size]
        brought, found = [array for array, _ in self._large], [array for _, array in self._large]
        if world.swap(what, [small.copy(), *brought], [small, *found], patience):
            return Sums(self._found, swapped=True)
        if small.size:
            world.allreduce(what, [small], small, patience)
        for array, total in self._large:
            world.allreduce(what, [array], total, patience)
        return Sums(self._found, swapped=False)


def _stand_of(tensors: Sequence[Tensor]) -> list[int]:
    """Return what stays as long as tensors lie where and how they do."""
    return [number for one in tensors for number in (id(one), id(one.spec), one.storage.generation)]
