"""Pieces of memory that go around among ranks: tensors of float32 as they lie, or in rows.

An engine writes gradients in a layout of its own, and the update reads them there. A sum goes element by element, so it
may be formed of the memory as it is, with what pads it, where all ranks have the same layout; `Form.number` stands for
the layouts, to be held against that of the others. Where they differ all bring rows (`Form.in_rows`).

Small tensors are copied into one stretch, so that one message has them; a large one is read where it lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tazza.operator import Array
from tazza.ops.distributed.communicator import CommonWorld
from tazza.runtime.digest import digest_of
from tazza.runtime.patience import Patience
from tazza.tensor import ROW_MAJOR, Allocation, DataType, Storage, Tensor, TensorSpec
from tazza.tensor.layout import words_of

LARGE_BYTES = 2**18
"""Tensors from here on are worth a message of their own."""
STRETCH = 2**14
"""Elements that are read and written twice while they are in the cache."""


@dataclass(frozen=True, slots=True)
class Part:
    """The memory of one tensor: all of it, flat, as `spec` lies on the host."""

    flat: NDArray[np.float32]
    spec: TensorSpec

    @staticmethod
    def of(tensor: Tensor, before: TensorSpec | None = None) -> Part:
        """Return the memory of a tensor itself; a copy in rows where it is on a device or holds more than elements.

        `before`: the spec of a part that it was before.
        """
        spec = tensor.spec
        if spec is before or (spec.place.is_host and _words(spec) is not None):
            return Part(tensor.span, spec)
        return Part.rows_of(np.ascontiguousarray(tensor.plain()))

    @staticmethod
    def rows_of(array: Array) -> Part:
        """Return the part that an array is whose elements lie in rows."""
        return Part(array.reshape(-1), TensorSpec(array.shape, DataType.FLOAT))

    def plain(self) -> Array:
        """Return the elements as an array of their shape."""
        if self.spec.layout == ROW_MAJOR:
            return self.flat.reshape(self.spec.shape)
        return Tensor.over(Storage(allocation=Allocation.adopt(self.flat)), 0, self.spec).plain()

    def in_rows(self) -> Part:
        """Return the same elements in rows."""
        return Part.rows_of(np.ascontiguousarray(self.plain()))


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
                if not tensor.spec.place.is_host or tensor.spec != part.spec:
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


def brought_by(tensors: Sequence[Tensor], before: Form | None) -> tuple[list[Part], Form]:
    """Return the parts of tensors and their form: the one of before, where nothing lies otherwise."""
    last = before.specs if before is not None and len(before.specs) == len(tensors) else [None] * len(tensors)
    parts = [Part.of(tensor, spec) for tensor, spec in zip(tensors, last, strict=True)]
    specs = tuple(part.spec for part in parts)
    return parts, before if before is not None and before.specs == specs else Form(specs)


class Bundle:
    """What a rank brings to one sum, and the piece of memory in which that of all comes about."""

    def __init__(self, parts: Sequence[Part], form: Form, piece: NDArray[np.float32], sent: DataType) -> None:
        """Copy into the piece what is not sent from where it lies."""
        self._parts, self._form, self._piece, self._sent = parts, form, piece, sent
        self._found = form.parts(piece)
        for part, found in zip(parts, self._found, strict=True):
            if not self._sent_from_there(part):
                np.copyto(found.flat, part.flat)

    def _sent_from_there(self, part: Part) -> bool:
        return part.spec.nbytes >= LARGE_BYTES and self._sent is DataType.FLOAT

    def sum(self, world: CommonWorld, what: str, patience: Patience) -> Sums:
        """Return the sums over all ranks, in the memory of the piece; raises as `CommonWorld.allreduce`."""
        if not world.agree(what, self._form.number, patience):
            rows = [part.in_rows() for part in self._parts]
            form = Form(tuple(part.spec for part in rows))
            return Bundle(rows, form, np.empty(form.size, np.float32), self._sent)._sum(world, what, patience)
        return self._sum(world, what, patience)

    def _sum(self, world: CommonWorld, what: str, patience: Patience) -> Sums:
        if self._sent is not DataType.FLOAT:
            world.allreduce_as(what, self._piece, self._sent, patience)
            return Sums(self._found, swapped=False)
        small = self._piece[: self._form.small_size]
        large = [
            (part.flat, found.flat)
            for part, found in zip(self._parts, self._found, strict=True)
            if self._sent_from_there(part)
        ]
        brought, found = [array for array, _ in large], [array for _, array in large]
        if world.swap(what, [small.copy(), *brought], [small, *found], patience):
            return Sums(self._found, swapped=True)
        if small.size:
            world.allreduce(what, [small], small, patience)
        for array, total in large:
            world.allreduce(what, [array], total, patience)
        return Sums(self._found, swapped=False)
