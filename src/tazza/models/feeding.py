"""Records from threads that fetch, cut into batches: a bounded queue of chunks, and what joins and cuts them.

A chunk is a list of arrays, one for each blob, with any number of rows; rows lie along an axis of each array. Batches
have the rows of the chunks in the order in which these came, whatever their lengths.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.runtime.holding import Conditional

Arrays = list[NDArray[Any]]
LOOK_S = 0.1
"""How often somebody who waits asks whether to go on, where nobody wakes him."""


class Chunks:
    """Chunks that wait, `capacity` at most. `turn` guards them; whoever changes them notifies all who wait.

    >>> chunks = Chunks(2)
    >>> chunks.put([np.zeros(3)], lambda: True), len(chunks), chunks.take(lambda: True)
    (True, 1, [array([0., 0., 0.])])
    >>> print(chunks.take(lambda: False))
    None
    """

    def __init__(self, capacity: int) -> None:
        """Hold none.

        Raises:
            ArgumentError: there would be no room for one.
        """
        if capacity < 1:
            raise ArgumentError(f"room for {capacity} chunks: fetchers need room for one at least")
        self.capacity = capacity
        self.turn = Conditional()
        self._waiting: deque[Arrays] = deque()

    def __len__(self) -> int:
        """Return how many wait."""
        return len(self._waiting)

    def put(self, chunk: Arrays, goes_on: Callable[[], bool]) -> bool:
        """Put a chunk in as soon as there is room; False where it does not go on before."""
        with self.turn:
            while len(self._waiting) >= self.capacity:
                if not goes_on():
                    return False
                self.turn.wait(LOOK_S)
            self._waiting.append(chunk)
            self.turn.notify_all()
            return True

    def take(self, goes_on: Callable[[], bool]) -> Arrays | None:
        """Take the first chunk as soon as there is one; None where it does not go on before."""
        with self.turn:
            while not self._waiting:
                if not goes_on():
                    return None
                self.turn.wait(LOOK_S)
            found = self._waiting.popleft()
            self.turn.notify_all()
            return found

    def wake(self) -> None:
        """Let all who wait ask whether it goes on."""
        with self.turn:
            self.turn.notify_all()


def check_chunk(chunk: Sequence[Any], names: Sequence[str], axes: Sequence[int] | None) -> Arrays:
    """Return a chunk as it is, when it has an array for each name; with `axes`, equally many rows along them.

    Raises:
        ArgumentError, DTypeError, ShapeError: it has not.
    """
    if len(chunk) != len(names):
        raise ArgumentError(f"a fetcher gave {len(chunk)} arrays for the {len(names)} blobs {', '.join(names)}")
    for name, array in zip(names, chunk, strict=True):
        if not isinstance(array, np.ndarray):
            raise DTypeError(f"a fetcher gave a {type(array).__name__} for {name!r}", hint="give an array of NumPy")
    if axes is not None and len(chunk):
        rows = [_rows(name, array, axis) for name, array, axis in zip(names, chunk, axes, strict=True)]
        if len(set(rows)) > 1:
            found = ", ".join(f"{name!r}: {count}" for name, count in zip(names, rows, strict=True))
            raise ShapeError(f"a fetcher gave unequal numbers of rows ({found})")
    return list(chunk)


def _rows(name: str, array: NDArray[Any], axis: int) -> int:
    if axis >= array.ndim:
        raise ShapeError(
            f"rows of {name!r} lie along axis {axis}, a fetcher gave an array of shape {list(array.shape)}"
        )
    return int(array.shape[axis])


class Batches:
    """Joins chunks and cuts them into batches of `size` rows; what is left begins the next batch.

    >>> batches = Batches(["x"], 2, [0])
    >>> batches.add([np.arange(3)]), batches.take(), batches.take()
    (None, [array([0, 1])], None)
    >>> batches.add([np.arange(3, 6)]), batches.take(), batches.take()
    (None, [array([2, 3])], [array([4, 5])])
    """

    def __init__(self, names: Sequence[str], size: int, axes: Sequence[int]) -> None:
        """Hold no rows; each blob's lie along an axis of its own.

        Raises:
            ArgumentError: a size below 1, an axis below 0, or not one axis for each name.
        """
        if size < 1:
            raise ArgumentError(f"batches of {size} rows: they need one at least")
        if len(axes) != len(names) or any(axis < 0 for axis in axes):
            raise ArgumentError(
                f"the axes {list(axes)} for the {len(names)} blobs {', '.join(names)}: one from 0 up each"
            )
        self.size = size
        self.names, self.axes = list(names), list(axes)
        self._held: deque[Arrays] = deque()
        self._rows = 0

    def add(self, chunk: Sequence[Any]) -> None:
        """Take in a chunk.

        Raises:
            ArgumentError, DTypeError, ShapeError: see `check_chunk`; or its rows differ from those that are here.
        """
        arrays = check_chunk(chunk, self.names, self.axes)
        rows = arrays[0].shape[self.axes[0]] if arrays else 0
        if not rows:
            return
        if self._held:
            self._check_rows(arrays)
        self._held.append(arrays)
        self._rows += rows

    def _check_rows(self, arrays: Arrays) -> None:
        for name, axis, before, array in zip(self.names, self.axes, self._held[-1], arrays, strict=True):
            if _without(before.shape, axis) != _without(array.shape, axis):
                shapes = f"{list(before.shape)} and then {list(array.shape)}"
                raise ShapeError(f"{name!r} had the shape {shapes}: only axis {axis}, of the rows, may differ")

    def take(self) -> Arrays | None:
        """Return the next batch; None until there are rows enough."""
        if self._rows < self.size:
            return None
        parts: list[Arrays] = []
        wanted = self.size
        while wanted:
            first = self._held.popleft()
            here = first[0].shape[self.axes[0]]
            if here > wanted:
                self._held.appendleft(self._cut(first, slice(wanted, None)))
                first = self._cut(first, slice(0, wanted))
            parts.append(first)
            wanted -= min(here, wanted)
        self._rows -= self.size
        return [np.concatenate(column, axis) for axis, column in zip(self.axes, zip(*parts, strict=True), strict=True)]

    def _cut(self, arrays: Arrays, rows: slice) -> Arrays:
        return [array[(slice(None),) * axis + (rows,)] for axis, array in zip(self.axes, arrays, strict=True)]


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]
