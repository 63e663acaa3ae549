"""What bound calls rest on, and whether it still stands: asked before every run, by identities and counts alone.

Operators, sections of operators in a row, plans and recorders ask the same: whether a blob holds another tensor, the
tensor has another spec or other memory, a value that shapes were inferred from was written, or a flag of kernels given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from tazza.operator.kernel import value_key
from tazza.runtime.flags import KERNEL_CHANGES
from tazza.tensor import Blob, Storage, Tensor, TensorSpec

Watched = tuple[Blob, Any, TensorSpec | None, Storage | None, int]
"""A blob as it was: value, spec, storage, generation; without spec only the value itself matters."""
WatchedValue = tuple[Tensor, int, bytes]
"""A tensor whose elements matter: version of its storage, what `value_key` said."""

NEVER = -1
"""Stands for the flags of what was never bound."""


class Watch:
    """Blobs, elements and flags of kernels, as they were; made without flags, it is broken."""

    __slots__ = ("_blobs", "flags", "values")

    def __init__(
        self, blobs: Iterable[Watched] = (), values: Sequence[WatchedValue] = (), flags: int | None = NEVER
    ) -> None:
        """Remember; `flags` None are the present ones."""
        self._blobs = tuple(blobs)
        self.values = values
        self.flags = KERNEL_CHANGES[0] if flags is None else flags

    def __iter__(self) -> Iterator[Watched]:
        """Yield the blobs."""
        return iter(self._blobs)

    def broken(self) -> bool:
        """Whether something has changed that calls rest on."""
        if self.flags != KERNEL_CHANGES[0] or self.moved():
            return True
        for tensor, version, key in self.values:
            if tensor.storage.version != version or (tensor.storage.escaped and value_key(tensor.plain()) != key):
                return True
        return False

    def moved(self) -> bool:
        """Whether a blob holds something else, or a tensor of another form or memory."""
        for blob, value, spec, storage, generation in self._blobs:
            if blob.value is not value:
                return True
            if spec is not None and (
                value.spec is not spec or value.storage is not storage or value.storage.generation != generation
            ):
                return True
        return False

    def overlook(self, blobs: Collection[Blob]) -> None:
        """Take the memory of these blobs for known as it is now."""
        self._blobs = tuple(
            (blob, value, spec, storage, generation if storage is None or blob not in blobs else storage.generation)
            for blob, value, spec, storage, generation in self._blobs
        )


def watched(blob: Blob, *, formed: bool = True) -> Watched:
    """Return a blob as it is; without `formed` a tensor of its may get another form and memory."""
    value = blob.value
    if not (formed and isinstance(value, Tensor)):
        return blob, value, None, None, 0
    return blob, value, value.spec, value.storage, value.storage.generation


def watch_together(seen: dict[int, Watched], more: Iterable[Watched]) -> bool:
    """Add blobs, by their ids, to those that are watched as one.

    Returns False, and adds none, where a blob was seen in another state before: who binds it gets it into that form.
    """
    more = tuple(more)
    pairs = [(seen.get(id(one[0])), one) for one in more]
    if any(before is not None and _differ(before, one) for before, one in pairs):
        return False
    seen.update({id(one[0]): one for before, one in pairs if before is None or before[2] is None})
    return True


def _differ(first: Watched, second: Watched) -> bool:
    formed = first[2] is not None and second[2] is not None
    return first[1] is not second[1] or (
        formed and (first[2] is not second[2] or first[3] is not second[3] or first[4] != second[4])
    )
