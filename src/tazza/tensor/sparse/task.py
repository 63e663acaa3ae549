"""A product of a CSR matrix with a dense one, as engines get it, and the engines that can do it.

S is the sparse matrix, R x C with Z elements; D is the dense one. An engine keeps its kernels in a file `sparse.py`,
which fills `SPARSE_ENGINES` (see tensor/tasks.py). `reference`, NumPy, takes everything.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tazza.errors import ShapeError
from tazza.tensor.dtype import DataType
from tazza.tensor.place import Place
from tazza.tensor.tasks import CPU, Offer, Tasks

Array: TypeAlias = npt.NDArray[Any]


class Form(enum.Enum):
    """Which product, in the shapes of `Task`."""

    ROWS = "S @ D"
    """(R, C) @ (C, N) -> (R, N)."""
    TRANSPOSED = "S.T @ D"
    """(C, R) @ (R, N) -> (C, N)."""
    FROM_LEFT = "D @ S"
    """(N, R) @ (R, C) -> (N, C)."""


def check_parts(shape: tuple[int, int], starts: Array, columns: Array) -> None:
    """Check what a CSR matrix says of where its elements are.

    Raises:
        ShapeError: the starts do not ascend from 0 to the number of elements, or a column is outside of the matrix.
    """
    rows, width = shape
    first, last = int(starts[0]), int(starts[-1])
    if first != 0 or last != len(columns):
        raise ShapeError(f"starts go from {first} to {last} != 0 to {len(columns)}, the number of columns")
    steps = np.diff(starts)
    if rows and int(steps.min()) < 0:
        row = int(np.argmax(steps < 0))
        raise ShapeError(f"row {row} ends at {int(starts[row + 1])} < {int(starts[row])}, where it begins")
    check_indices("column", columns, width)


def check_indices(noun: str, indices: Array, extent: int) -> None:
    """Check that all indices are in [0, extent).

    Raises:
        ShapeError: one is not.
    """
    if indices.size and (int(indices.min()) < 0 or int(indices.max()) >= extent):
        at = int(np.argmax((indices < 0) | (indices >= extent)))
        raise ShapeError(f"{noun} {int(indices[at])} of element {at} is outside of 0 to {extent - 1}")


@dataclass(frozen=True, slots=True)
class Task:
    """One product; S, D and Y have one element type, the indices another; neighbours in rows of D and Y are adjacent.

    The rows of D may lie anywhere, but a D of one column is contiguous; Y shares no memory with the operands.
    """

    form: Form
    shape: tuple[int, int]
    starts: Array
    columns: Array
    values: Array
    D: Array
    Y: Array
    dtype: DataType
    place: Place = CPU

    @property
    def rank(self) -> int:
        """2: matrices."""
        return 2

    def __str__(self) -> str:
        return f"{self.form.value} of {self.dtype}, S {list(self.shape)}"

    @property
    def vectors(self) -> int:
        """N, the number of vectors that S is multiplied with."""
        return self.D.shape[0 if self.form is Form.FROM_LEFT else 1]

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * len(self.values) * self.vectors

    @property
    def bytes_read(self) -> int:
        """Bytes of the operands, each counted once."""
        return self.starts.nbytes + self.columns.nbytes + self.values.nbytes + self.D.size * self.D.itemsize

    def check(self) -> None:
        """Look at starts and columns.

        Raises:
            ShapeError: one is out of its range.
        """
        check_parts(self.shape, self.starts, self.columns)


SPARSE_ENGINES: Tasks[Task, Callable[[], None]] = Tasks("engine of sparse products", "sparse")
"""What an engine offers writes all of Y. It reads nothing outside of the arrays, whatever starts and columns say: it
raises what `Task.check` raises."""


# -- reference ---------------------------------------------------------------------------------------------------------

_BLOCK = 1 << 18
"""Products that are held at a time, in elements."""


def accumulator(dtype: DataType) -> np.dtype[Any]:
    """Return the NumPy dtype that sums are kept in; counting what is true makes sums of bool right."""
    wider = {DataType.FLOAT16: DataType.FLOAT, DataType.BFLOAT16: DataType.FLOAT, DataType.BOOL: DataType.INT64}
    return wider.get(dtype, dtype).numpy


def _reference(task: Task) -> None:
    task.check()
    if task.form is Form.FROM_LEFT:  # Y.T = S.T @ D.T
        task.Y[...] = _columns_sum(task, task.D.T).T
    elif task.form is Form.TRANSPOSED:
        task.Y[...] = _columns_sum(task, task.D)
    else:
        task.Y[...] = _rows_sum(task)


def rows_of(starts: Array) -> npt.NDArray[np.int64]:
    """Return the row of each element."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _blocks(task: Task) -> list[slice]:
    step = max(1, _BLOCK // max(task.vectors, 1))
    return [slice(i, i + step) for i in range(0, len(task.values), step)]


def _rows_sum(task: Task) -> Array:
    kind = accumulator(task.dtype)
    return _sum_up(task, np.zeros(task.Y.shape, kind), rows_of(task.starts), task.D.astype(kind), task.columns)


def _columns_sum(task: Task, D: Array) -> Array:
    kind = accumulator(task.dtype)
    total = np.zeros((task.shape[1], D.shape[1]), kind)
    return _sum_up(task, total, task.columns, D.astype(kind), rows_of(task.starts))


def _sum_up(task: Task, total: Array, to: Array, D: Array, source: Array) -> Array:
    for block in _blocks(task):
        weights = task.values[block].astype(total.dtype)[:, None]
        np.add.at(total, to[block], weights * D[source[block]])
    return total


@SPARSE_ENGINES.solving("reference", help="NumPy: any element type, one thread", priority=-1)
def reference(task: Task) -> Offer[Callable[[], None]]:
    """Take everything."""
    return Offer(functools.partial(_reference, task), "NumPy, in blocks of elements")
