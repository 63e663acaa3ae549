"""What all sparse matrices are: a shape, values, and the operators that people write with them.

Elements that are not stored are 0. An element may be stored more than once, and then is the sum of what is stored;
`coalesce` makes one of each. Where an operation is named after NumPy's, it gives what NumPy gives for the dense matrix,
except where 0 would become something else (0 / 0): elements that are not stored are not computed.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard, overload

import numpy as np

from tazza.array.sparse.parts import Array, ArrayLike, own
from tazza.errors import DTypeError, UnavailableError
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.promotion import result_type
from tazza.tensor.tensor import Tensor

if TYPE_CHECKING:
    from tazza.array.sparse.coo import COO
    from tazza.array.sparse.csr import CSR

Number = bool | int | float


def is_number(what: object) -> TypeGuard[Number | np.generic]:
    """Whether it is a Python or NumPy number."""
    return isinstance(what, (bool, int, float, np.generic))


class SparseMatrix(ABC):
    """Base of `COO` and `CSR`; arithmetic gives the class of the left operand, except where the result is dense."""

    __slots__ = ("shape", "values")
    __array_ufunc__ = None  # NumPy's arrays leave mixed operators to us

    shape: Dim
    values: Tensor
    DERIVED: ClassVar[str]
    """The slot of what products prepared and use again, which is of this process."""

    def __getstate__(self) -> tuple[None, dict[str, object]]:
        """Leave out what was prepared."""
        parts = {name: getattr(self, name) for name in (*SparseMatrix.__slots__, *self.__slots__)}
        return None, {**parts, self.DERIVED: None}

    # -- what it is ----------------------------------------------------------------------------------------------------

    @property
    def dtype(self) -> DataType:
        """The element type."""
        return self.values.dtype

    @property
    def nnz(self) -> int:
        """Number of stored elements, those that are 0 or stored twice included."""
        return self.values.size

    @property
    def density(self) -> float:
        """Stored elements over all elements; 0 for an empty matrix."""
        return self.nnz / self.shape.numel if self.shape.numel else 0.0

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of values and indices."""

    @property
    @abstractmethod
    def is_canonical(self) -> bool:
        """Whether the elements are stored once each and sorted by row, then by column; looks at all of them."""

    # -- other forms ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def check(self) -> None:
        """Look at all indices.

        Raises:
            ShapeError: one is out of its range.
        """

    @abstractmethod
    def to_coo(self) -> COO:
        """Return the matrix as COO; values are shared."""

    @abstractmethod
    def to_csr(self) -> CSR:
        """Return the matrix as CSR, itself if it is one."""

    @abstractmethod
    def coalesce(self) -> Self:
        """Return the canonical form: sorted, with what is stored more than once summed up; itself if it is in it.

        Sums of 16-bit numbers are made in float32, those of bool are `or`.
        """

    @abstractmethod
    def transpose(self) -> Self:
        """Return the transposed matrix."""

    @abstractmethod
    def with_values(self, values: ArrayLike) -> Self:
        """Return a matrix with other values at the same places; indices are shared.

        Raises:
            ShapeError: it is another number of values.
        """

    @property
    def T(self) -> Self:
        """The transposed matrix."""
        return self.transpose()

    def to_dense(self) -> Tensor:
        """Return all elements, those that are not stored as 0."""
        single = self.to_csr().coalesce().to_coo()
        dense = Tensor(self.shape, self.dtype)
        dense.reserve()
        dense.array[...] = 0
        dense.array[single.rows.plain(), single.columns.plain()] = single.values.plain()
        dense.mark_written()
        return dense

    def cast(self, dtype: DataType | Any) -> Self:
        """Return the matrix with elements of another type, itself if it has that; converted as NumPy's astype does."""
        wanted = DataType.of(dtype)
        return self if wanted is self.dtype else self.with_values(own(self.values.plain().astype(wanted.numpy)))

    def equals(self, other: SparseMatrix) -> bool:
        """Whether shape, element type and all elements are equal, in whatever form they are stored."""
        if self.shape != other.shape or self.dtype is not other.dtype:
            return False
        mine, theirs = (one.to_csr().coalesce().without_zeros() for one in (self, other))
        pairs = ((mine.starts, theirs.starts), (mine.columns, theirs.columns), (mine.values, theirs.values))
        return all(np.array_equal(a.plain(), b.plain()) for a, b in pairs)

    # -- sums ----------------------------------------------------------------------------------------------------------

    def sum(self, axis: int | None = None) -> Tensor:
        """Return the sum of all elements (rank 0), of each column (axis 0) or of each row (axis 1).

        Integers and bool give int64.

        Raises:
            ShapeError: there is no such axis.
        """
        from tazza.array.sparse.arithmetic import sparse_sum

        return sparse_sum(self, axis)

    # -- operators -----------------------------------------------------------------------------------------------------

    @overload
    def __matmul__(self, other: SparseMatrix) -> Self: ...
    @overload
    def __matmul__(self, other: ArrayLike) -> Tensor: ...
    def __matmul__(self, other: SparseMatrix | ArrayLike) -> Any:
        if isinstance(other, SparseMatrix):
            from tazza.array.sparse.multiplication import multiply_sparse

            return multiply_sparse(self, other)
        return _product()(self, other)

    def __rmatmul__(self, other: ArrayLike) -> Tensor:
        return _product()(other, self)

    def __mul__(self, other: ArrayLike) -> Self:
        from tazza.array.sparse.arithmetic import sparse_multiply

        return sparse_multiply(self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: ArrayLike) -> Self:
        from tazza.array.sparse.arithmetic import sparse_divide

        return sparse_divide(self, other)

    def __add__(self, other: ArrayLike | SparseMatrix) -> Any:
        from tazza.array.sparse.arithmetic import sparse_add

        return sparse_add(self, other)

    __radd__ = __add__

    def __sub__(self, other: ArrayLike | SparseMatrix) -> Any:
        from tazza.array.sparse.arithmetic import sparse_add

        negative = -other if isinstance(other, SparseMatrix) else np.negative(_dense(other))
        return sparse_add(self, negative)

    def __rsub__(self, other: ArrayLike) -> Any:
        return (-self).__add__(other)

    def __neg__(self) -> Self:
        return self.with_values(own(np.negative(self.values.plain())))

    def __abs__(self) -> Self:
        single = self.coalesce()  # |a + b| is not |a| + |b|
        return single.with_values(own(np.abs(single.values.plain())))

    def scaled(self, factor: Number | np.generic, *, divide: bool = False) -> Self:
        """Return the matrix times a number, or divided by it; a Python number takes the type of the matrix.

        Raises:
            DTypeError: a Python float with integers.
        """
        dtype = result_type(self.dtype, factor).numpy
        values, result = self.values.plain().astype(dtype, copy=False), Tensor((self.nnz,), DataType.of(dtype))
        function = np.true_divide if divide else np.multiply
        function(values, np.asarray(factor, dtype), out=result.array)
        return self.with_values(result)

    # -- SciPy ---------------------------------------------------------------------------------------------------------

    def _scipy(self) -> Any:
        """Return the module `scipy.sparse`.

        Raises:
            UnavailableError: SciPy is not installed.
            DTypeError: SciPy computes with no such elements.
        """
        import importlib

        if self.dtype in (DataType.FLOAT16, DataType.BFLOAT16):
            raise DTypeError(f"SciPy has no sparse matrices of {self.dtype}", hint="cast(DataType.FLOAT) first")
        try:
            return importlib.import_module("scipy.sparse")
        except ImportError as error:
            raise UnavailableError(f"SciPy cannot be imported: {error}", hint="pip install scipy") from error

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{type(self).__name__}({self.dtype}[{shape}], {self.nnz} stored, {self.density:.2%})"


@functools.cache
def _product() -> Callable[[Any, Any], Tensor]:
    from tazza.array.sparse.product import sparse_matmul  # which imports this file

    return sparse_matmul


def _dense(what: ArrayLike) -> Array:
    return what.plain() if isinstance(what, Tensor) else np.asarray(what)
