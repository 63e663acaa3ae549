"""Weights that are drawn anew from what is said of them, so that recordings of large nets need not hold them.

The genuine Caffe2 is recorded with the same ones: this file needs NumPy alone, and runs on Python 3.8 too.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, NamedTuple

import numpy as np


class Drawn(NamedTuple):
    """Normal float32 numbers of a shape, times `scale`, plus `offset`."""

    shape: tuple[int, ...]
    scale: float
    offset: float = 0.0

    def values(self, name: str) -> Any:
        """Return the numbers of a blob; its name is the seed."""
        random = np.random.RandomState(zlib.crc32(name.encode()))
        return (random.standard_normal(self.shape) * self.scale + self.offset).astype(np.float32)


def as_text(weights: dict[str, Drawn]) -> str:
    """Return what is said of weights as it is stored."""
    return json.dumps(weights)


def from_text(text: str) -> dict[str, Any]:
    """Return the weights that a text of `as_text` speaks of."""
    return {name: Drawn(tuple(shape), *rest).values(name) for name, (shape, *rest) in json.loads(text).items()}
