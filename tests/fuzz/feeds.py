"""What fuzzed nets are fed: arrays that follow from a type and extents, so that an input stays small."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.errors import DTypeError
from tazza.tensor import DataType

ELEMENTS_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class Feed:
    """One blob: element type by label (`text` for a string blob), extents, and whether it is a parameter."""

    dtype: str
    dims: tuple[int, ...]
    parameter: bool = False

    def value(self) -> NDArray[Any] | bytes:
        """Return what is fed: numbers with a pattern, whole ones from 0 to 2."""
        if self.dtype == "text":
            return b"text"
        count = math.prod(self.dims)
        if self.dtype == "string":
            return np.array([b"ab", b""] * count, object)[:count].reshape(self.dims)
        made = np.arange(count)
        dtype = next(each for each in DataType if each.label == self.dtype).numpy
        if np.dtype(dtype).kind in "iub":
            return (made % 3).astype(dtype).reshape(self.dims)
        return (((made * 7) % 11 - 4) / 4).astype(dtype).reshape(self.dims)


def stored(feeds: Mapping[str, Feed]) -> bytes:
    """Return feeds as a part of a case."""
    return json.dumps({name: [feed.dtype, list(feed.dims), feed.parameter] for name, feed in feeds.items()}).encode()


def read(data: bytes) -> dict[str, Feed]:
    """Return what `stored` gave."""
    return {name: Feed(dtype, tuple(dims), parameter) for name, (dtype, dims, parameter) in json.loads(data).items()}


def of_array(array: NDArray[Any]) -> Feed:
    """Return the feed of the type and extents of an array; an object that is no array of text is a text."""
    if array.dtype == object and array.ndim == 0:
        return Feed("text", ())
    try:
        label = "string" if array.dtype.kind in "OS" else DataType.of(array).label
    except DTypeError:
        label = "float32"
    return Feed(label, array.shape if array.size <= ELEMENTS_MAX else (1,))


def arrays(feeds: Mapping[str, Feed]) -> Iterator[tuple[str, Feed, Any]]:
    """Yield name, feed and value of those that have few enough elements."""
    for name, feed in feeds.items():
        if math.prod(feed.dims) <= ELEMENTS_MAX:
            yield name, feed, feed.value()
