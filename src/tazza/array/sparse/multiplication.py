"""Sparse times sparse: every element (i, k) of A meets row k of B, and what falls on one place is summed up.

The products are made for a block of rows of A at a time, sorted by place and added in the order of k, so that the
memory for them is bounded but for a single row, and the result is the same however many rows a block has.

Source: F. G. Gustavson, "Two Fast Algorithms for Sparse Matrices: Multiplication and Permuted Transposition" (1978);
the rows are gathered by sorting in place of his dense row of pointers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, overload

import numpy as np

from tazza.array.sparse.csr import CSR
from tazza.array.sparse.matrix import SparseMatrix
from tazza.array.sparse.parts import Array, bucket_order, index_type, own
from tazza.array.sparse.task import accumulator, rows_of
from tazza.errors import ShapeError
from tazza.tensor.dim import Dim
from tazza.tensor.promotion import promote

BLOCK = 1 << 20
"""Products that are made at a time."""


@overload
def multiply_sparse(left: CSR, right: SparseMatrix) -> CSR: ...
@overload
def multiply_sparse(left: SparseMatrix, right: SparseMatrix) -> SparseMatrix: ...
def multiply_sparse(left: SparseMatrix, right: SparseMatrix) -> SparseMatrix:
    """Return A (R, K) @ B (K, C) in canonical form, of the class of A; a sum that is 0 is stored, as NaN would be.

    Sums of 16-bit numbers are made in float32, those of bool are `or`.

    Raises:
        ShapeError: the inner extents differ, or starts and columns were spoiled since the matrices were made.
    """
    A, B = left.to_csr(), right.to_csr()
    if A.shape[1] != B.shape[0]:
        raise ShapeError(f"{A.shape} @ {B.shape}: inner extents {A.shape[1]} != {B.shape[0]}")
    A.check()
    B.check()
    dtype = promote(A.dtype, B.dtype)
    shape = Dim((A.shape[0], B.shape[1]))
    made = [_block(A, B, part, accumulator(dtype)) for part in _parts(A, B)]
    counts, columns, values = (
        np.concatenate([np.empty(0, kind), *parts])
        for kind, parts in zip(
            (np.int64, np.int64, accumulator(dtype)), zip(*made, strict=True) if made else ((), (), ()), strict=True
        )
    )
    kind = index_type(*shape, len(columns))
    starts = np.concatenate(([0], np.cumsum(counts))).astype(kind)
    numbers = values.astype(dtype.numpy, copy=False)
    product = CSR.made(shape, own(starts), own(columns.astype(kind, copy=False)), own(numbers))
    return product if isinstance(left, CSR) else product.to_coo()


def _parts(A: CSR, B: CSR) -> Iterator[slice]:
    """Yield runs of rows of A that have at most `BLOCK` products, or one row."""
    lengths = np.diff(B.starts.plain())
    starts = A.starts.plain()
    upto = np.concatenate(([0], np.cumsum(lengths[A.columns.plain()], dtype=np.int64)))[starts]
    first = 0
    while first < A.shape[0]:
        last = max(first + 1, int(np.searchsorted(upto, upto[first] + BLOCK, "right")) - 1)
        yield slice(first, last)
        first = last


def _block(A: CSR, B: CSR, rows: slice, kind: np.dtype[Any]) -> tuple[Array, Array, Array]:
    """Return the lengths of these rows of the product, and their columns and values."""
    starts = A.starts.plain()[rows.start : rows.stop + 1]
    inner = A.columns.plain()[starts[0] : starts[-1]]
    begins = B.starts.plain()[inner].astype(np.int64)
    counts = B.starts.plain()[inner + 1] - begins
    made = np.concatenate(([0], np.cumsum(counts)))
    # The k-th product of an element is that with element k of a row of B.
    source = np.arange(int(made[-1])) + np.repeat(begins - made[:-1], counts)
    column = B.columns.plain()[source].astype(np.int64)
    row = np.repeat(rows_of(starts), counts)
    order = bucket_order(column, B.shape[1])
    order = order[bucket_order(row[order], rows.stop - rows.start)]
    row, column = row[order], column[order]
    factors: Array = np.repeat(A.values.plain()[starts[0] : starts[-1]].astype(kind), counts)
    products: Array = (factors * B.values.plain()[source].astype(kind))[order]
    fresh = np.ones(len(row), np.bool_)
    fresh[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    firsts = np.flatnonzero(fresh)
    sums: Array = np.add.reduceat(products, firsts) if len(firsts) else products
    return np.bincount(row[firsts], minlength=rows.stop - rows.start), column[firsts], sums
