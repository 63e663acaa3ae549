"""Which of many cases the fast tests take: laws over all operators are shown for all of them by `make test`."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def is_fast(name: str, one_of: int) -> bool:
    """Whether a name is among the one of so many that fast tests take.

    >>> [is_fast(name, 2) for name in ("Add", "Conv", "FC", "Relu")]
    [False, True, True, True]
    """
    return zlib.crc32(name.encode()) % one_of == 0


def sampled(names: Iterable[str], one_of: int = 8) -> list[Any]:
    """Return parameters of which one of so many is fast; which ones follows from the names alone."""
    return [name if is_fast(name, one_of) else pytest.param(name, marks=pytest.mark.slow) for name in names]


def few(names: Sequence[str], limit: int) -> set[str]:
    """Return at most so many of some names; which ones hangs on the names alone, not on their order.

    >>> sorted(few([f"case-{number}" for number in range(100)], 3))
    ['case-46', 'case-52', 'case-56']
    >>> sorted(few(["a", "b"], 3))
    ['a', 'b']
    """
    return set(sorted(names, key=lambda name: zlib.crc32(name.encode()))[:limit])
