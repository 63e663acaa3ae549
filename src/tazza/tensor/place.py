"""Where memory is: the CPU, memory of the CPU that a device reads directly (pinned), or a CUDA device."""

from __future__ import annotations

import re

from tazza.data_class import dataclass
from tazza.errors import NotFoundError

CPU_KIND = "cpu"
"""The kind of the host's processor and its memory: the one file that spells it."""

_INDEXED = frozenset({"cuda"})
PLACE_KINDS = frozenset({CPU_KIND, "pinned"}) | _INDEXED
"""What a place can be."""

_FORM = re.compile(r"([a-z]+)(?::(\d{1,6}))?")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A kind of memory and the index of its device; compared and sorted by both.

    Made by `CPUPlace()`, `CUDAPlace(i)`, `PinnedPlace()` and `Place.parse`, which give one object per place.
    """

    kind: str
    index: int = 0

    def __hash__(self) -> int:
        return hash(self.kind) + self.index  # a third of the time of the generated one, and every tensor asks

    @staticmethod
    def parse(text: str) -> Place:
        """Return the place that `str()` of it writes; `cuda` alone is `cuda:0`.

        Raises:
            NotFoundError: the text names no place.

        >>> Place.parse("cuda:1") is CUDAPlace(1), str(Place.parse("cpu"))
        (True, 'cpu')
        """
        match = _FORM.fullmatch(text)
        kind, digits = ("", None) if match is None else match.groups()
        if kind not in PLACE_KINDS or (digits is not None and kind not in _INDEXED):
            raise NotFoundError(f"unknown place {text!r}", hint="known: cpu, pinned, cuda, cuda:<index>")
        return _place(kind, 0 if digits is None else int(digits))

    @property
    def is_host(self) -> bool:
        """Whether the CPU reads and writes this memory."""
        return self.kind not in _INDEXED

    def __repr__(self) -> str:
        return f"Place({str(self)!r})"

    def __str__(self) -> str:
        return f"{self.kind}:{self.index}" if self.kind in _INDEXED else self.kind


_places: dict[tuple[str, int], Place] = {}
"""Those that are told apart by identity, which is why none is forgotten: as many as there are devices."""


def _place(kind: str, index: int) -> Place:
    found = _places.get((kind, index))
    return _places.setdefault((kind, index), Place(kind, index)) if found is None else found


def CPUPlace() -> Place:
    """Return the place of ordinary memory."""
    return _place(CPU_KIND, 0)


def PinnedPlace() -> Place:
    """Return the place of page-locked memory of the CPU."""
    return _place("pinned", 0)


def CUDAPlace(index: int = 0) -> Place:
    """Return the place of the memory of CUDA device `index`.

    Raises:
        NotFoundError: the index is negative.
    """
    if index < 0:
        raise NotFoundError(f"unknown place 'cuda:{index}': the index {index} is less than 0")
    return _place("cuda", index)
