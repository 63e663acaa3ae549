"""A product of a CSR matrix with a dense one, as engines get it, and the registry of the engines that can do it.

S is the sparse matrix, R x C with Z elements; D is the dense one. An engine keeps its kernels in a file `sparse.py`,
which registers a `SparseEngine`; they are tried from the highest priority on. `reference`, NumPy, takes everything.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tazza.errors import ShapeError
from tazza.registry import Registry
from tazza.tensor.dtype import DataType
from tazza.tensor.filling import load_fillers

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


@dataclass(frozen=True, slots=True)
class SparseEngine:
    """Kernels for products: `refusal(task)` says why a task is not taken, or None; `run(task)` writes all of Y.

    `run` reads nothing outside of the arrays, whatever starts and columns say: it raises what `task.check` raises.
    """

    refusal: Callable[[Task], str | None]
    run: Callable[[Task], None]
    describe: Callable[[Task], str]
    priority: int = 0


SPARSE_ENGINES: Registry[str, SparseEngine] = Registry("engine of sparse products")


def choose(task: Task) -> tuple[str, SparseEngine, Mapping[str, str]]:
    """Return the name of the first engine that takes a task, the engine, and engine -> reason of those passed over."""
    reasons = dict(load_fillers("sparse"))
    for name in sorted(SPARSE_ENGINES.registered(), key=lambda one: -SPARSE_ENGINES[one].priority):
        engine = SPARSE_ENGINES[name]
        reason = engine.refusal(task)
        if reason is None:
            return name, engine, reasons
        reasons[name] = reason
    raise AssertionError("reference takes everything")


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


SPARSE_ENGINES.register(
    "reference",
    SparseEngine(lambda task: None, _reference, lambda task: "NumPy, in blocks of elements", priority=-1),
    help="NumPy: any element type, one thread",
)
