"""Laws over all operators are shown for some of them by the fast tests, for all of them by `make test`."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any

import pytest


def sampled(names: Iterable[str], one_of: int = 4) -> list[Any]:
    """Return parameters of which one of so many is fast; which ones follows from the names alone.

    >>> [isinstance(each, str) for each in sampled(["Add", "Conv", "FC", "Relu"], one_of=2)]
    [False, True, True, True]
    """
    slow = pytest.mark.slow
    return [name if zlib.crc32(name.encode()) % one_of == 0 else pytest.param(name, marks=slow) for name in names]
