"""COO: a matrix as a list of (row, column, value), in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

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
from tazza.array.sparse.task import accumulator, check_indices
from tazza.errors import ShapeError
from tazza.tensor.blob import blob_type
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.tensor import Tensor

if TYPE_CHECKING:
    from tazza.array.sparse.kept_form import KeptForm


class Sorting(NamedTuple):
    """The places of a matrix in canonical order, and how its values get there."""

    order: Array | None
    """Which element comes next; None where they lie so."""
    firsts: Array | None
    """Where, in that order, elements at another place begin; None where each place is stored once."""
    rows: Array
    columns: Array

    def values_of(self, matrix: COO) -> Array:
        """Return the values of a matrix that has its elements where the sorted one had them, summed up."""
        given = matrix.values.plain()
        values = given if self.order is None else taken(given, self.order).array
        return values if self.firsts is None else summed(values, self.firsts, matrix)


@blob_type("tazza::COO", serialized="tazza.COO")
class COO(SparseMatrix):
    """Element k of Z is `values[k]` at (`rows[k]`, `columns[k]`); indices are int32 or int64.

    >>> a = COO((2, 3), [1, 0, 1], [2, 1, 2], [5, 7, 1]); a
    COO(int64[2, 3], 3 stored, 50.00%)
    >>> a.coalesce().values.numpy(), a.to_dense().numpy()
    (array([7, 6]), array([[0, 7, 0],
           [0, 0, 6]]))
    """

    __slots__ = ("columns", "kept", "rows")
    DERIVED = "kept"

    def __init__(
        self, shape: Any, rows: ArrayLike, columns: ArrayLike, values: ArrayLike, *, copy: bool = False
    ) -> None:
        """Take the parts; arrays are shared where possible unless `copy`.

        Raises:
            ShapeError: `shape` is not of rank 2, the parts are not as long as each other, or an index is outside.
            DTypeError: indices that are no integers, values that are no numbers.
        """
        self.shape = matrix_shape(shape)
        self.kept: KeptForm | None = None
        found = [index_tensor(noun, what, copy=copy) for noun, what in (("rows", rows), ("columns", columns))]
        self.rows, self.columns = same_index_type(*found)
        self.values = value_tensor(values, copy=copy)
        if not self.rows.shape == self.columns.shape == self.values.shape:
            lengths = ", ".join(str(part.shape) for part in (self.rows, self.columns, self.values))
            raise ShapeError(
                f"rows, columns and values have the shapes {lengths}", hint="each has one entry per element"
            )
        self.check()

    @classmethod
    def made(cls, shape: Dim, rows: Tensor, columns: Tensor, values: Tensor) -> COO:
        """Return a matrix of parts that are known to fit."""
        self = cls.__new__(cls)
        self.shape, self.rows, self.columns, self.values = shape, rows, columns, values
        self.kept = None
        return self

    @classmethod
    def from_dense(cls, array: ArrayLike) -> COO:
        """Return the elements that are not 0, sorted by row and column; NaN is stored, -0.0 is not.

        Raises:
            ShapeError: the rank is not 2.
        """
        dense = plain(array)
        shape = matrix_shape(dense.shape)
        rows, columns = np.nonzero(dense)
        kind = index_type(*shape, len(rows))
        return cls.made(shape, stored(rows, kind), stored(columns, kind), stored(dense[rows, columns]))

    @classmethod
    def from_scipy(cls, matrix: Any, *, copy: bool = False) -> COO:
        """Return a matrix or array of `scipy.sparse`; memory is shared where possible unless `copy`.

        Raises:
            DTypeError: elements that no tensor holds.
        """
        found = matrix.tocoo()
        return cls(found.shape, found.row, found.col, found.data, copy=copy)

    def to_scipy(self) -> Any:
        """Return a `scipy.sparse.coo_array` that shares the memory.

        Raises:
            UnavailableError: SciPy is not installed.
            DTypeError: 16-bit floating point, which SciPy does not have.
        """
        places = (self.rows.numpy(), self.columns.numpy())
        return self._scipy().coo_array((self.values.numpy(), places), shape=tuple(self.shape))

    @property
    def nbytes(self) -> int:
        """Bytes of values and indices."""
        return self.rows.nbytes + self.columns.nbytes + self.values.nbytes

    @property
    def is_canonical(self) -> bool:
        """Whether (row, column) ascends strictly."""
        rows, columns = self.rows.plain(), self.columns.plain()
        later = rows[1:] > rows[:-1]
        return bool(np.all(later | ((rows[1:] == rows[:-1]) & (columns[1:] > columns[:-1]))))

    def check(self) -> None:
        """Look at all indices.

        Raises:
            ShapeError: one is outside of the matrix.
        """
        check_indices("row", self.rows.plain(), self.shape[0])
        check_indices("column", self.columns.plain(), self.shape[1])

    def to_coo(self) -> COO:
        """Return itself."""
        return self

    def to_csr(self) -> Any:
        """Return the canonical CSR matrix."""
        from tazza.array.sparse.csr import CSR

        single = self.coalesce()
        kind = index_type(*self.shape, single.nnz)
        starts = starts_of(single.rows.plain(), self.shape[0], kind)
        columns = single.columns
        if columns.dtype.numpy != kind:
            columns = stored(columns.plain(), kind)
        return CSR.made(self.shape, own(starts), columns, single.values)

    def coalesce(self) -> COO:
        """Return the canonical form, itself if it is in it."""
        if self.is_canonical:
            return self
        sorting = self.sorting()
        return COO.made(self.shape, stored(sorting.rows), stored(sorting.columns), stored(sorting.values_of(self)))

    def sorting(self) -> Sorting:
        """Return what the canonical form has of this one."""
        if self.is_canonical:
            return Sorting(None, None, self.rows.plain(), self.columns.plain())
        order = self._order()
        rows, columns = (taken(part.plain(), order).array for part in (self.rows, self.columns))
        fresh = np.empty(len(rows), np.bool_)
        fresh[:1] = True
        fresh[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
        if fresh.all():
            return Sorting(order, None, rows, columns)
        return Sorting(order, np.flatnonzero(fresh), rows[fresh], columns[fresh])

    def _order(self) -> Array:
        """Return the stable order by row and column."""
        by_column = bucket_order(self.columns.plain(), self.shape[1])
        return by_column[bucket_order(self.rows.plain()[by_column], self.shape[0])]

    def transpose(self) -> COO:
        """Return the transposed matrix, which shares all parts."""
        return COO.made(Dim((self.shape[1], self.shape[0])), self.columns, self.rows, self.values)

    def with_values(self, values: ArrayLike) -> COO:
        """Return a matrix with other values at the same places."""
        return COO.made(self.shape, self.rows, self.columns, fitting_values(values, self))


def stored(array: Array, dtype: npt.DTypeLike | None = None) -> Tensor:
    """Return a copy of elements, converted to `dtype` if one is given, in memory of the allocator in force."""
    result = Tensor(array.shape, DataType.of(array.dtype if dtype is None else dtype))
    np.copyto(result.array, array, casting="unsafe")
    return result


def taken(array: Array, places: Array) -> Tensor:
    """Return the elements of a vector at places that are known to be within, in memory of the allocator in force."""
    result = Tensor(places.shape, DataType.of(array.dtype))
    np.take(array, places, out=result.array, mode="clip")  # to raise, NumPy would make a copy of the result
    return result


def summed(values: Array, firsts: Array, matrix: SparseMatrix) -> Array:
    """Return the sums of runs of values that begin at `firsts`, in the type of the matrix."""
    wide = values.astype(accumulator(matrix.dtype), copy=False)
    return np.add.reduceat(wide, firsts).astype(matrix.dtype.numpy, copy=False)


def fitting_values(values: ArrayLike, matrix: SparseMatrix) -> Tensor:
    """Return values that may replace those of a matrix.

    Raises:
        ShapeError: it is another number of values.
    """
    found = value_tensor(values)
    if found.shape != (matrix.nnz,):
        raise ShapeError(
            f"values have the shape {found.shape} != {Dim((matrix.nnz,))}, the stored elements of {matrix}"
        )
    return found
