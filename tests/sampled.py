"""Laws over all operators are shown for some of them by the fast tests, for all of them by `make test`."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
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
