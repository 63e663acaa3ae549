"""Extents, conditions and rows that the recordings of `record_unlike` share: no two axes are equally long."""

from __future__ import annotations

from typing import Any

import numpy as np

SOLID, FLAT = (2, 3, 5), (4, 7)
"""The extents of the two runs of operators that take any tensor."""

TRUTH = [np.arange(30).reshape(SOLID) % 3 > 0, np.arange(28).reshape(FLAT) % 4 < 2]
AGAIN, TWO = np.array([1, 0, 1], np.int32), np.array([3, 0])
"""Rows of each, one of them twice."""


def one_of(value: float) -> Any:
    """Return a float32 tensor of one element."""
    return np.array([value], np.float32)
