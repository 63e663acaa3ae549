"""Elementwise arithmetic and sums of sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from tazza.array.sparse.coo import COO, stored
from tazza.array.sparse.matrix import SparseMatrix, is_number
from tazza.array.sparse.parts import Array, ArrayLike, index_type, plain
from tazza.array.sparse.product import sparse_matmul
from tazza.errors import ShapeError, UnsupportedError
from tazza.tensor.dim import Dim
from tazza.tensor.dtype import DataType
from tazza.tensor.promotion import float_type, promote
from tazza.tensor.tensor import Tensor

M = TypeVar("M", bound=SparseMatrix)


def sparse_multiply(matrix: M, other: ArrayLike) -> M:
    """Return matrix * other, a number or dense and broadcast to the matrix; sparse, with elements at the same places.

    What is not stored stays 0, also where `other` is infinite or NaN.

    Raises:
        ShapeError: `other` does not broadcast to the matrix.
        UnsupportedError: `other` is sparse.

    >>> from tazza.array.sparse import CSR
    >>> (CSR.from_dense([[0, 2], [3, 4]]) * [[10], [100]]).values.numpy()
    array([ 20, 300, 400])
    """
    if is_number(other):
        return matrix.scaled(other)
    places = _at_places(matrix, other, "*")
    dtype = promote(matrix.dtype, DataType.of(places)).numpy
    values = Tensor((matrix.nnz,), DataType.of(dtype))
    np.multiply(matrix.values.plain(), places, out=values.array, dtype=dtype)
    return matrix.with_values(values)


def sparse_divide(matrix: M, other: ArrayLike) -> M:
    """Return matrix / other, a number or dense and broadcast to the matrix; sparse, with elements at the same places.

    What is not stored stays 0, also where `other` is 0 or NaN. Integers give floating point, as NumPy's.

    Raises:
        ShapeError: `other` does not broadcast to the matrix.
        UnsupportedError: `other` is sparse.
    """
    floating = matrix.cast(_quotient_type(matrix.dtype))
    if is_number(other):
        return floating.scaled(other, divide=True)
    places = _at_places(matrix, other, "/")
    dtype = promote(floating.dtype, _quotient_type(DataType.of(places))).numpy
    values = Tensor((matrix.nnz,), DataType.of(dtype))
    np.true_divide(floating.values.plain().astype(dtype, copy=False), places.astype(dtype, copy=False), values.array)
    return floating.with_values(values)


def _quotient_type(dtype: DataType) -> DataType:
    """Floating point stays; integers give float64, as NumPy's true division of most does."""
    return dtype if dtype.is_float else promote(float_type(dtype), DataType.DOUBLE)


def _at_places(matrix: SparseMatrix, other: ArrayLike | SparseMatrix, sign: str) -> Array:
    """Return the elements of a dense operand at the places of the stored elements."""
    if isinstance(other, SparseMatrix):
        raise UnsupportedError(f"{matrix} {sign} {other}: both are sparse", hint="make one dense with to_dense()")
    dense = plain(other)
    if matrix.shape.broadcast(dense.shape) != matrix.shape:
        raise ShapeError(f"{Dim(dense.shape)} does not broadcast to {matrix.shape}, the shape of the sparse operand")
    single = matrix.to_coo()
    return np.broadcast_to(dense, matrix.shape)[single.rows.plain(), single.columns.plain()]


def sparse_add(matrix: SparseMatrix, other: ArrayLike | SparseMatrix) -> Any:
    """Return matrix + other: with a sparse one a coalesced matrix of the left one's class, with a dense one a tensor.

    Raises:
        ShapeError: the shapes differ, or the dense one does not broadcast to the matrix.
        UnsupportedError: `other` is a number other than 0, which no sparse matrix is full of.

    >>> from tazza.array.sparse import CSR
    >>> (CSR.from_dense([[0, 2], [3, 4]]) + [10, 20]).numpy()
    array([[10, 22],
           [13, 24]])
    """
    if isinstance(other, SparseMatrix):
        return _added(matrix, other)
    dense = plain(other)
    if dense.ndim == 0:
        if dense == 0:
            return matrix
        raise UnsupportedError(f"{matrix} + {dense}: the sum is not sparse", hint="add it to to_dense()")
    if matrix.shape.broadcast(dense.shape) != matrix.shape:
        raise ShapeError(f"{Dim(dense.shape)} does not broadcast to {matrix.shape}, the shape of the sparse operand")
    dtype = promote(matrix.dtype, DataType.of(dense))
    result = stored(np.broadcast_to(dense, matrix.shape), dtype.numpy)
    total = result.array
    single = matrix.to_csr().coalesce().to_coo()
    total[single.rows.plain(), single.columns.plain()] += single.values.plain().astype(dtype.numpy, copy=False)
    return result


def _added(left: SparseMatrix, right: SparseMatrix) -> SparseMatrix:
    if left.shape != right.shape:
        raise ShapeError(f"{left} + {right}: {left.shape} != {right.shape}")
    dtype, (a, b) = promote(left.dtype, right.dtype).numpy, (left.to_coo(), right.to_coo())
    kind = index_type(*left.shape, a.nnz + b.nnz)
    rows, columns = (
        _joined([one.plain() for one in pair], kind) for pair in ((a.rows, b.rows), (a.columns, b.columns))
    )
    values = _joined([one.values.plain() for one in (a, b)], dtype)
    total = COO.made(left.shape, rows, columns, values).coalesce()
    return total if isinstance(left, COO) else total.to_csr()


def _joined(parts: Sequence[Array], dtype: np.dtype[Any]) -> Tensor:
    """Return vectors one behind the other."""
    result = Tensor((sum(map(len, parts)),), DataType.of(dtype))
    at = 0
    for part in parts:
        result.array[at : at + len(part)] = part
        at += len(part)
    return result


def sparse_sum(matrix: SparseMatrix, axis: int | None) -> Tensor:
    """Return the sum of all elements (rank 0), of each column (axis 0) or of each row (axis 1).

    Integers are summed up as int64, 16-bit floating point in float32 and rounded once.

    Raises:
        ShapeError: there is no such axis.
    """
    dtype = matrix.dtype if matrix.dtype.is_float else DataType.INT64
    wide = matrix.cast(dtype)
    if axis is None:
        kind = np.float32 if dtype in (DataType.FLOAT16, DataType.BFLOAT16) else dtype.numpy
        return Tensor.from_numpy(np.sum(wide.values.plain(), dtype=kind, keepdims=True).astype(dtype.numpy).reshape(()))
    over = matrix.shape.canonical_axis(axis)
    return sparse_matmul(wide, np.ones(matrix.shape[over], dtype.numpy), transpose=over == 0)
