"""Copies of constant blobs in the layouts that kernels read, which all programs of a net share.

A copy is known by the blob that it is made from and by how it lies: programs for other signatures mostly read the same
ones. It lives as long as an instance holds it, and may be gone at any moment else.

Constants that no program writes are moved into the form that kernels read, and lie once. Where a form rounds, moving
takes longer than making a copy (`tensor.residue`). So only a net that says what its inputs are does that, and once with
a blob: what does not stay there, since others write it or want it to lie otherwise, is unsettled, and programs read
copies of it from then on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from weakref import WeakValueDictionary

from tazza.data_class import dataclass
from tazza.nets.plan.program import PlanValue
from tazza.operator import BlobOwner
from tazza.runtime.fork import Guard
from tazza.tensor import Layout, Storage, Tensor, TensorSpec


@dataclass(slots=True, eq=False, weakref_slot=True)
class Copy:
    """One copy, and which version of which storage it was made from; None before it was made."""

    tensor: Tensor = field(repr=False)
    made_from: tuple[Storage, int] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes that it takes, padding included."""
        return self.tensor.spec.span_bytes

    def is_of(self, storage: Storage) -> bool:
        """Whether it was made from what a storage holds now."""
        return self.made_from == (storage, storage.version)


class Copies:
    """All copies of a net's constants; whoever makes one, or moves what it is made from, holds `lock`."""

    def __init__(self) -> None:
        self.lock = Guard("weights of a net")
        self._copies: WeakValueDictionary[tuple[str, TensorSpec], Copy] = WeakValueDictionary()
        self._moved: dict[str, Layout] = {}
        self.unsettled: frozenset[str] = frozenset()

    def note_move(self, name: str, layout: Layout) -> None:
        """Remember that a blob was moved into a form that rounds."""
        if self._moved.get(name, layout) != layout:  # by a program that wants another one
            self.unsettled |= {name}
        self._moved[name] = layout

    def restless(self, blobs: BlobOwner) -> frozenset[str]:
        """Return which blobs were found elsewhere, now or before, than where programs had moved them."""
        for name, layout in list(self._moved.items()):
            blob = blobs.get_blob(name)
            if blob is None or not isinstance(blob.value, Tensor) or blob.value.layout != layout:
                self.unsettled |= {name}
                del self._moved[name]
        return self.unsettled

    def of(self, value: PlanValue) -> Copy:
        """Return the copy that a derived value stands for; it may still have to be made."""
        found = self._copies.get(_key(value))
        if found is None:
            tensor = Tensor.over(Storage(value.spec.place, holder=value.name), 0, value.spec)
            tensor.reserve()
            found = self._copies[_key(value)] = Copy(tensor)
        return found

    def made_of(self, storage: Storage, values: Iterable[PlanValue]) -> set[Copy]:
        """Return those copies among derived values that were made from what a storage holds now."""
        found = [self._copies.get(_key(value)) for value in values]
        return {copy for copy in found if copy is not None and copy.is_of(storage)}


def _key(value: PlanValue) -> tuple[str, TensorSpec]:
    assert value.source is not None, "derived values have a source"
    return value.source.name, value.spec
