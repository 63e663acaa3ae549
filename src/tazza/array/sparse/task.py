"""A product of a CSR matrix with a dense one, as engines get it, and the engines that can do it.

S is the sparse matrix, R x C with Z elements; D is the dense one. An engine keeps its kernels in a file `sparse.py`,
which fills `SPARSE_ENGINES` (see tensor/tasks.py). `reference`, NumPy, takes everything.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from tazza.array.sparse.results import Results
from tazza.data_class import dataclass
from tazza.errors import ShapeError
from tazza.tensor.dtype import DataType
from tazza.tensor.offer import Offer
from tazza.tensor.place import Place
from tazza.tensor.spec import TensorSpec
from tazza.tensor.tasks import CPU, Tasks

Array: TypeAlias = npt.NDArray[Any]


class Form(enum.Enum):
    """Which product, in the shapes of `SparseTask`."""

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
class SparseTask:
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

    def bare(self) -> SparseTask:
        """Return the task with D and Y of no elements, for whoever keeps it."""
        nothing = np.empty((0, 0), self.dtype.numpy)
        return replace(self, D=nothing, Y=nothing)

    def check(self) -> None:
        """Look at starts and columns.

        Raises:
            ShapeError: one is out of its range.
        """
        check_parts(self.shape, self.starts, self.columns)


Multiply: TypeAlias = Callable[[Array, Array], None]
"""`multiply(D, Y)` writes all of Y, whose memory is no operand's; D and Y are the task's, or others that have their
shapes, strides and element types. Many threads may be in it. It is kept as long as S, and so holds neither D nor Y of
the task (`SparseTask.bare`)."""

SPARSE_ENGINES: Tasks[SparseTask, Multiply] = Tasks("engine of sparse products", "sparse_matrix")
"""What an engine offers reads nothing outside of the arrays, whatever starts and columns say: it raises what
`SparseTask.check` raises."""


@runtime_checkable
class Addressed(Protocol):
    """A `Multiply` that can do with addresses, which spares making an array of a new result."""

    def __call__(self, D: Array, Y: Array, /) -> None:
        """Write Y."""
        ...

    def at(self, D: int, Y: int, /) -> None:
        """Write Y; both are addresses of first elements."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What the last product of a matrix with a dense operand was computed by, for the next one of the same kind."""

    multiply: Multiply
    call: tuple[object, ...]
    """How it was asked for: the side and the form of the dense operand, and what the choice of an engine rests on."""
    parts: tuple[Array, Array, Array]
    """Starts, columns and values, in the memory that `multiply` reads."""
    result: TensorSpec
    results: Results
    at: Callable[[int, int], None] | None
    """`multiply` by addresses, where it can do that."""


# -- reference ---------------------------------------------------------------------------------------------------------

_BLOCK = 1 << 18
"""Products that are held at a time, in elements."""


def accumulator(dtype: DataType) -> np.dtype[Any]:
    """Return the NumPy dtype that sums are kept in; counting what is true makes sums of bool right."""
    wider = {DataType.FLOAT16: DataType.FLOAT, DataType.BFLOAT16: DataType.FLOAT, DataType.BOOL: DataType.INT64}
    return wider.get(dtype, dtype).numpy


def _reference(task: SparseTask, D: Array, Y: Array) -> None:
    task.check()
    if task.form is Form.FROM_LEFT:  # Y.T = S.T @ D.T
        Y[...] = _columns_sum(task, D.T).T
    elif task.form is Form.TRANSPOSED:
        Y[...] = _columns_sum(task, D)
    else:
        Y[...] = _rows_sum(task, D)


def rows_of(starts: Array) -> npt.NDArray[np.int64]:
    """Return the row of each element."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _blocks(task: SparseTask, vectors: int) -> list[slice]:
    step = max(1, _BLOCK // max(vectors, 1))
    return [slice(i, i + step) for i in range(0, len(task.values), step)]


def _rows_sum(task: SparseTask, D: Array) -> Array:
    kind = accumulator(task.dtype)
    return _sum_up(
        task, np.zeros((task.shape[0], D.shape[1]), kind), rows_of(task.starts), D.astype(kind), task.columns
    )


def _columns_sum(task: SparseTask, D: Array) -> Array:
    kind = accumulator(task.dtype)
    total = np.zeros((task.shape[1], D.shape[1]), kind)
    return _sum_up(task, total, task.columns, D.astype(kind), rows_of(task.starts))


def _sum_up(task: SparseTask, total: Array, to: Array, D: Array, source: Array) -> Array:
    for block in _blocks(task, D.shape[1]):
        weights = task.values[block].astype(total.dtype)[:, None]
        np.add.at(total, to[block], weights * D[source[block]])
    return total


@SPARSE_ENGINES.solving("reference", help="NumPy: any element type, one thread", priority=-1)
def reference(task: SparseTask) -> Offer[Multiply]:
    """Take everything."""
    return Offer(functools.partial(_reference, task.bare()), "NumPy, in blocks of elements")
