"""Sparse times sparse, against NumPy's products of the dense matrices and SciPy's of the sparse ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tazza.array.sparse.multiplication as multiplication
from tazza.array.sparse import COO, CSR, SparseMatrix
from tazza.errors import ShapeError
from tazza.tensor import DataType, Tensor

TYPES = [DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16, DataType.INT32, DataType.BOOL]


def listed(rng: np.random.Generator, rows: int, columns: int, dtype: DataType, count: int) -> COO:
    """Return a matrix of small integers in no order, some of them stored more than once."""
    stored = count if rows * columns else 0
    places = (rng.integers(0, max(extent, 1), stored) for extent in (rows, columns))
    return COO((rows, columns), next(places), next(places), rng.integers(-2, 3, stored).astype(dtype.numpy))


def dense_of(matrix: SparseMatrix) -> np.ndarray[Any, Any]:
    return matrix.to_dense().plain().astype(np.int64)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(TYPES),
    st.tuples(*[st.integers(0, 9)] * 3),
    st.integers(0, 40),
    st.integers(1, 30),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_products_are_numpys(
    dtype: DataType, extents: tuple[int, int, int], count: int, block: int, by_rows: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    (rows, inner, columns), before = extents, multiplication.BLOCK
    A, B = listed(rng, rows, inner, dtype, count), listed(rng, inner, columns, dtype, 2 * count)
    left = A.to_csr() if by_rows else A
    multiplication.BLOCK = block
    try:
        product = left @ B
    finally:
        multiplication.BLOCK = before
    wanted = dense_of(A) @ dense_of(B)
    assert type(product) is type(left)
    assert product.dtype is dtype
    assert product.is_canonical
    product.check()
    assert np.array_equal(dense_of(product), wanted != 0 if dtype is DataType.BOOL else wanted)


def test_places_are_those_of_scipy() -> None:
    rng = np.random.default_rng(3)
    A, B = (listed(rng, *shape, DataType.DOUBLE, 500).to_csr() for shape in ((70, 110), (110, 50)))
    theirs = A.to_scipy() @ B.to_scipy()
    theirs.sort_indices()
    ours = (A @ B).without_zeros().to_scipy()  # SciPy leaves out sums that are 0
    assert np.array_equal(ours.indptr, theirs.indptr)
    assert np.array_equal(ours.indices, theirs.indices)
    assert np.array_equal(ours.data, theirs.data)


def test_types_promote_and_sums_are_rounded_once() -> None:
    ones = CSR.from_dense(np.ones((1, 4097), np.float16))
    assert (ones @ ones.T).to_dense().plain().tolist() == [[4096.0]], "4097 is no float16, 2049 summands are lost in it"
    mixed = CSR.from_dense(np.array([[2]], np.int32)) @ CSR.from_dense(np.array([[0.5]], np.float64))
    assert (mixed.dtype, mixed.values.plain().tolist()) == (DataType.DOUBLE, [1.0])


def test_a_sum_of_zero_is_stored() -> None:
    A = CSR.from_dense(np.array([[1, 1]], np.float32))
    B = CSR.from_dense(np.array([[3], [-3]], np.float32))
    assert (A @ B).nnz == 1
    assert (A @ B).without_zeros().nnz == 0


def test_what_does_not_fit_is_said() -> None:
    A = CSR.from_dense(np.ones((2, 3), np.float32))
    with pytest.raises(ShapeError, match="inner extents 3 != 2"):
        _ = A @ A
    spoiled = CSR(
        (3, 2),
        Tensor.from_numpy(np.array([0, 1, 2, 3], np.int32)),
        np.array([0, 1, 0], np.int32),
        np.array([1, 2, 3], np.float32),
    )
    spoiled.columns.numpy()[1] = 9
    with pytest.raises(ShapeError, match="column 9 of element 1"):
        _ = A @ spoiled
