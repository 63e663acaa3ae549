"""CSR: a matrix row by row, as columns and values of the elements of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeGuard, cast, overload

import numpy as np

from tazza.array.sparse.coo import COO, fitting_values, stored, taken
from tazza.array.sparse.matrix import SparseMatrix
from tazza.array.sparse.parts import (
    Array,
    ArrayLike,
    bucket_order,
    index_tensor,
    index_type,
    matrix_shape,
    own,
    plain,
    same_index_type,
    starts_of,
    value_tensor,
)
from tazza.array.sparse.task import Prepared, check_parts, rows_of
from tazza.errors import ShapeError
from tazza.tensor.blob import blob_type
from tazza.tensor.dim import Dim
from tazza.tensor.tensor import Tensor

Int: TypeAlias = "int | np.integer[Any]"


def _is_int(what: object) -> TypeGuard[Int]:
    return isinstance(what, (int, np.integer))


@blob_type("tazza::CSR", serialized="tazza.CSR")
class CSR(SparseMatrix):
    """Row r of R x C has the elements `starts[r]` up to `starts[r + 1]` of `columns` and `values`.

    Columns of a row may be in any order; indices are int32 or int64.

    >>> a = CSR.from_dense([[0, 2, 0], [3, 0, 4]])
    >>> a.starts.numpy().tolist(), a.columns.numpy().tolist(), a.values.numpy().tolist()
    ([0, 1, 3], [1, 0, 2], [2, 3, 4])
    >>> a[1].numpy(), int(a[1, 2]), a[1:], (a @ [1, 10, 100]).numpy()
    (array([3, 0, 4]), 4, CSR(int64[1, 3], 2 stored, 66.67%), array([ 20, 403]))
    """

    __slots__ = ("columns", "prepared", "starts")
    DERIVED = "prepared"

    def __init__(
        self, shape: Any, starts: ArrayLike, columns: ArrayLike, values: ArrayLike, *, copy: bool = False
    ) -> None:
        """Take the parts; arrays are shared where possible unless `copy`.

        Raises:
            ShapeError: `shape` is not of rank 2, the lengths do not fit, starts descend, or a column is outside.
            DTypeError: indices that are no integers, values that are no numbers.
        """
        self.shape = matrix_shape(shape)
        self.prepared: Prepared | None = None
        found = [index_tensor(noun, what, copy=copy) for noun, what in (("starts", starts), ("columns", columns))]
        self.starts, self.columns = same_index_type(*found)
        self.values = value_tensor(values, copy=copy)
        if self.starts.size != self.shape[0] + 1:
            raise ShapeError(f"{self.starts.size} starts != {self.shape[0] + 1} for {self.shape[0]} rows and the end")
        if self.columns.shape != self.values.shape:
            raise ShapeError(f"columns have the shape {self.columns.shape} != {self.values.shape}, that of the values")
        self.check()

    @classmethod
    def made(cls, shape: Dim, starts: Tensor, columns: Tensor, values: Tensor) -> CSR:
        """Return a matrix of parts that are known to fit."""
        self = cls.__new__(cls)
        self.shape, self.starts, self.columns, self.values = shape, starts, columns, values
        self.prepared = None
        return self

    @classmethod
    def from_dense(cls, array: ArrayLike) -> CSR:
        """Return the elements that are not 0; NaN is stored, -0.0 is not.

        Raises:
            ShapeError: the rank is not 2.
        """
        dense = plain(array)
        shape = matrix_shape(dense.shape)
        rows, columns = np.nonzero(dense)
        kind = index_type(*shape, len(rows))
        starts = starts_of(rows, shape[0], kind)
        return cls.made(shape, stored(starts), stored(columns, kind), stored(dense[rows, columns]))

    @classmethod
    def from_scipy(cls, matrix: Any, *, copy: bool = False) -> CSR:
        """Return a matrix or array of `scipy.sparse`; memory is shared where possible unless `copy`.

        Raises:
            DTypeError: elements that no tensor holds.
        """
        found = matrix.tocsr()
        return cls(found.shape, found.indptr, found.indices, found.data, copy=copy)

    def to_scipy(self) -> Any:
        """Return a `scipy.sparse.csr_array` that shares the memory.

        Raises:
            UnavailableError: SciPy is not installed.
            DTypeError: 16-bit floating point, which SciPy does not have.
        """
        parts = (self.values.numpy(), self.columns.numpy(), self.starts.numpy())
        return self._scipy().csr_array(parts, shape=tuple(self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes of values and indices."""
        return self.starts.nbytes + self.columns.nbytes + self.values.nbytes

    @property
    def is_canonical(self) -> bool:
        """Whether the columns of each row ascend strictly."""
        columns, starts = self.columns.plain(), self.starts.plain()
        ascends = columns[1:] > columns[:-1]
        borders = starts[1:-1]
        ascends[borders[(borders > 0) & (borders < len(columns))] - 1] = True
        return bool(ascends.all())

    def check(self) -> None:
        """Look at all starts and columns.

        Raises:
            ShapeError: starts descend or do not end at the number of elements, or a column is outside of the matrix.
        """
        check_parts((self.shape[0], self.shape[1]), self.starts.plain(), self.columns.plain())

    def to_coo(self) -> COO:
        """Return the matrix as COO, which shares columns and values."""
        rows = rows_of(self.starts.plain()).astype(self.columns.dtype.numpy, copy=False)
        return COO.made(self.shape, own(rows), self.columns, self.values)

    def to_csr(self) -> CSR:
        """Return itself."""
        return self

    def coalesce(self) -> CSR:
        """Return the canonical form, itself if it is in it."""
        return self if self.is_canonical else self.to_coo().to_csr()

    def transpose(self) -> CSR:
        """Return the transposed matrix, with the columns of each row in order where each is stored once.

        To multiply with it, `sparse_matmul(..., transpose=True)` needs no such matrix.
        """
        columns = self.columns.plain()
        order = bucket_order(columns, self.shape[1])
        rows = rows_of(self.starts.plain()).astype(columns.dtype, copy=False)
        starts = starts_of(columns, self.shape[1], columns.dtype)
        shape = Dim((self.shape[1], self.shape[0]))
        return CSR.made(shape, stored(starts), taken(rows, order), taken(self.values.plain(), order))

    def with_values(self, values: ArrayLike) -> CSR:
        """Return a matrix with other values at the same places."""
        return CSR.made(self.shape, self.starts, self.columns, fitting_values(values, self))

    def without_zeros(self) -> CSR:
        """Return the matrix without stored elements that are 0, itself if there are none."""
        kept = self.values.plain() != 0
        if kept.all():
            return self
        starts = self.starts.plain()
        counts = np.concatenate(([0], np.cumsum(kept)))
        columns, values = self.columns.plain()[kept], self.values.plain()[kept]
        return CSR.made(self.shape, stored(counts[starts], starts.dtype), stored(columns), stored(values))

    # -- rows ----------------------------------------------------------------------------------------------------------

    @overload
    def __getitem__(self, index: Int) -> Tensor: ...
    @overload
    def __getitem__(self, index: tuple[Int, Int]) -> Any: ...
    @overload
    def __getitem__(self, index: slice | Tensor | Array | Sequence[int]) -> CSR: ...
    def __getitem__(self, index: Any) -> Any:
        """Return a row as a dense vector (int), an element (two ints), or some rows (a slice, indices or a mask).

        Raises:
            ShapeError: it is outside of the matrix, or another kind of index.
        """
        if isinstance(index, tuple):
            return self._element(cast("tuple[object, ...]", index))
        if isinstance(index, slice):
            first, last, step = index.indices(self.shape[0])
            return self._range(first, max(first, last)) if step == 1 else self.take_rows(np.arange(first, last, step))
        if _is_int(index):
            row = self._row_number(index)
            return Tensor.from_numpy(self._range(row, row + 1).to_dense().array[0])
        return self.take_rows(cast("ArrayLike", index))

    def _row_number(self, index: Int) -> int:
        row, rows = int(index), self.shape[0]
        if not -rows <= row < rows:
            raise ShapeError(f"row {row} is outside of {self}", hint=f"-{rows} <= row < {rows}")
        return row % rows

    def _element(self, index: tuple[object, ...]) -> Any:
        if len(index) != 2 or not (_is_int(index[0]) and _is_int(index[1])):
            raise ShapeError(f"{self} has no part {index}", hint="rows are sliced with one index; columns: .T[...].T")
        r, column, width = index[0], int(index[1]), self.shape[1]
        if not -width <= column < width:
            raise ShapeError(f"column {column} is outside of {self}", hint=f"-{width} <= column < {width}")
        return self[r].array[column]

    def _range(self, first: int, last: int) -> CSR:
        """Return rows first to last - 1, which share columns and values."""
        starts = self.starts.plain()[first : last + 1]
        begin, count = int(starts[0]), int(starts[-1] - starts[0])
        parts = (part.view((count,), offset=begin) for part in (self.columns, self.values))
        return CSR.made(Dim((last - first, self.shape[1])), own(starts - starts[0]), *parts)

    def take_rows(self, rows: ArrayLike) -> CSR:
        """Return the rows of these numbers, in this order, or those where a mask is set.

        Raises:
            ShapeError: a row is outside of the matrix, or the mask is not as long as there are rows.
        """
        wanted = plain(rows)
        if wanted.dtype == np.bool_:
            if wanted.shape != (self.shape[0],):
                raise ShapeError(
                    f"a mask of shape {Dim(wanted.shape)} != {Dim((self.shape[0],))} chooses no rows of {self}"
                )
            wanted = np.flatnonzero(wanted)
        wanted = index_tensor("rows", wanted).plain()
        outside = (wanted < -self.shape[0]) | (wanted >= self.shape[0])
        if outside.any():
            raise ShapeError(f"row {wanted[outside][0]} is outside of {self}")
        wanted = np.where(wanted < 0, wanted + self.shape[0], wanted)
        starts = self.starts.plain()
        counts = starts[wanted + 1] - starts[wanted]
        made = np.concatenate(([0], np.cumsum(counts)))
        # Element k of a row is the k-th behind the row's start, here as there.
        source: Array = np.arange(int(made[-1])) + np.repeat(starts[wanted] - made[:-1], counts)
        columns, values = self.columns.plain()[source], self.values.plain()[source]
        shape = Dim((len(wanted), self.shape[1]))
        return CSR.made(shape, own(made.astype(starts.dtype)), own(columns), own(values))
