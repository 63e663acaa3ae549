"""One arena for values that live one after the other: offsets, so that no two living values overlap.

The largest value is placed first, each at the lowest offset where nothing that lives at the same time lies: greedy by
size, which for nets comes within a few percent of the lower bound, the largest sum of what lives at one time
(Pisarchyk, Lee 2020, arXiv 2001.03288, section 5). Every offset, and the size of the arena, is a multiple of
`ALIGNMENT` bytes. The memory itself is one span of the allocator `arena`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.data_class import dataclass
from tazza.tensor.allocation import ALIGNMENT


@dataclass(frozen=True, slots=True)
class Span:
    """A value of `nbytes` that lives from step `first` to step `last`, both included."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Arena:
    """Offset of each span in bytes, the size of the whole, and the bytes without any sharing."""

    offsets: tuple[int, ...]
    nbytes: int
    unshared_bytes: int


def plan_memory(spans: Sequence[Span]) -> Arena:
    """Return an offset for each span.

    >>> plan_memory([Span(100, 0, 1), Span(64, 1, 2), Span(100, 2, 3)])
    Arena(offsets=(0, 128, 0), nbytes=192, unshared_bytes=320)
    """
    sizes = [-(-span.nbytes // ALIGNMENT) * ALIGNMENT for span in spans]
    offsets = [0] * len(spans)
    placed: list[int] = []
    for i in sorted(range(len(spans)), key=lambda i: (-sizes[i], spans[i].first)):
        span = spans[i]
        taken = sorted(
            (offsets[j], offsets[j] + sizes[j])
            for j in placed
            if spans[j].first <= span.last and span.first <= spans[j].last
        )
        offsets[i] = _lowest_gap(taken, sizes[i])
        if sizes[i]:
            placed.append(i)
    ends = (offset + size for offset, size in zip(offsets, sizes, strict=True))
    return Arena(tuple(offsets), max(ends, default=0), sum(sizes))


def _lowest_gap(taken: Sequence[tuple[int, int]], nbytes: int) -> int:
    """Return the lowest offset where `nbytes` fit between the spans (start, end) of `taken`, sorted by start."""
    free = 0
    for start, end in taken:
        if start - free >= nbytes:
            break
        free = max(free, end)
    return free
