"""COO and CSR against NumPy's dense matrices and against SciPy."""

from __future__ import annotations

import importlib
import subprocess
import sys
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tazza.array.sparse import COO, CSR, SparseMatrix
from tazza.errors import DTypeError, ShapeError, UnsupportedError
from tazza.tensor import DataType, Tensor

Array = npt.NDArray[Any]
CLASSES: list[type[COO] | type[CSR]] = [COO, CSR]


@st.composite
def listed(draw: st.DrawFn) -> tuple[COO, Array]:
    """Draw a matrix of few places, many of them stored more than once, and the dense matrix."""
    shape = draw(st.integers(1, 7)), draw(st.integers(1, 9))
    count = draw(st.integers(0, 20))
    dtype = draw(st.sampled_from(["f4", "f8", "i4", "i8"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, columns = rng.integers(0, shape[0], count), rng.integers(0, shape[1], count)
    values = rng.integers(-4, 5, count).astype(dtype)
    dense = np.zeros(shape, dtype)
    np.add.at(dense, (rows, columns), values)
    index = draw(st.sampled_from([np.int32, np.int64]))
    return COO(shape, rows.astype(index), columns.astype(index), values), dense


def assert_holds(matrix: SparseMatrix, dense: Array) -> None:
    """The matrix stands for exactly this dense one."""
    matrix.check()
    got = matrix.to_dense().array
    assert got.dtype == dense.dtype
    np.testing.assert_array_equal(got, dense)
    assert matrix.shape == dense.shape


@settings(max_examples=30)
@given(listed(), st.sampled_from(CLASSES))
def test_every_form_holds_the_same(case: tuple[COO, Array], cls: type[COO] | type[CSR]) -> None:
    coo, dense = case
    matrix = coo if cls is COO else _uncoalesced(coo)
    assert_holds(matrix, dense)
    assert_holds(matrix.to_csr(), dense)
    assert_holds(matrix.to_coo(), dense)
    assert_holds(matrix.T, dense.T)
    assert type(matrix.T) is type(matrix) is cls
    single = matrix.coalesce()
    assert_holds(single, dense)
    assert single.is_canonical
    assert single.coalesce() is single
    assert matrix.equals(cls.from_dense(dense))
    assert matrix.equals(COO.from_dense(dense))
    assert not matrix.equals(CSR.from_dense(np.where(dense == dense[0, 0], dense + 1, dense)))
    assert_holds(matrix.cast("f8"), dense.astype("f8"))


def _uncoalesced(coo: COO) -> CSR:
    """Return CSR with the elements of each row in the order of the list."""
    order = np.argsort(coo.rows.array, kind="stable")
    starts = np.concatenate(([0], np.cumsum(np.bincount(coo.rows.array, minlength=coo.shape[0]))))
    return CSR(coo.shape, starts, coo.columns.array[order], coo.values.array[order])


@settings(max_examples=30)
@given(listed(), st.sampled_from(CLASSES), st.data())
def test_arithmetic_is_numpys(case: tuple[COO, Array], cls: type[COO] | type[CSR], data: st.DataObject) -> None:
    coo, dense = case
    matrix: Any = coo if cls is COO else _uncoalesced(coo)
    shape = data.draw(st.sampled_from([dense.shape, (1, dense.shape[1]), dense.shape[1:], (dense.shape[0], 1)]))
    other = data.draw(hnp.arrays(dense.dtype, shape, elements=st.integers(1, 5)))
    assert_holds(matrix * other, dense * other)
    assert_holds(other * matrix, dense * other)
    assert_holds(matrix * Tensor.from_numpy(other), dense * other)
    assert_holds(matrix * 3, dense * 3)
    # What stands in one place twice is divided twice: what cancels leaves rounding.
    np.testing.assert_allclose((matrix / other).to_dense().array, dense / other, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose((matrix / 4).to_dense().array, dense / 4, rtol=1e-6, atol=1e-12)
    assert_holds(-matrix, -dense)
    assert_holds(abs(matrix), abs(dense))
    pairs: list[tuple[Any, Any]] = [(matrix, other), (other, matrix), (Tensor.from_numpy(other), matrix)]
    for left, right in pairs:
        a, b = (dense if one is matrix else other for one in (left, right))
        np.testing.assert_array_equal((left + right).array, a + b)
        np.testing.assert_array_equal((left - right).array, a - b)
    total = matrix + matrix.to_csr()
    assert type(total) is cls
    assert_holds(total, dense + dense)
    assert_holds(matrix - 2 * matrix, -dense)


@pytest.mark.slow
@settings(max_examples=30)
@given(listed())
def test_sums_are_numpys(case: tuple[COO, Array]) -> None:
    coo, dense = case
    for axis in (None, 0, 1, -1):
        got, wanted = coo.sum(axis), dense.sum(axis)
        assert got.shape == wanted.shape
        np.testing.assert_array_equal(got.array, wanted)
    with pytest.raises(ShapeError, match="axis 2"):
        coo.sum(2)


@settings(max_examples=30)
@given(listed(), st.data())
def test_rows_are_numpys(case: tuple[COO, Array], data: st.DataObject) -> None:
    coo, dense = case
    csr: Any = _uncoalesced(coo)
    rows = dense.shape[0]
    chosen = data.draw(st.slices(rows))
    assert_holds(csr[chosen], dense[chosen])
    picked = np.array(data.draw(st.lists(st.integers(-rows, rows - 1), max_size=9)), np.int64)
    assert_holds(csr[picked], dense[picked])
    mask = data.draw(hnp.arrays(np.bool_, rows))
    assert_holds(csr[mask], dense[mask])
    r, c = data.draw(st.integers(-rows, rows - 1)), data.draw(st.integers(-dense.shape[1], dense.shape[1] - 1))
    np.testing.assert_array_equal(csr[r].array, dense[r])
    assert csr[r, c] == dense[r, c]


def test_slices_of_rows_share_the_values() -> None:
    csr = CSR.from_dense(np.arange(12.0).reshape(4, 3))
    part = csr[1:3]
    csr.values.array[:] = 1
    np.testing.assert_array_equal(part.to_dense().array, np.ones((2, 3)))


@pytest.mark.parametrize("index", [4, -5, (0, 3), (0, 0, 0), (slice(1), 0), [4], [True]], ids=str)
def test_rows_that_are_not_there(index: Any) -> None:
    with pytest.raises(ShapeError):
        CSR.from_dense(np.ones((4, 3)))[index]


@pytest.mark.parametrize("dtype", [DataType.FLOAT16, DataType.BFLOAT16, DataType.BOOL], ids=str)
def test_sums_of_what_is_stored_twice_are_rounded_once(dtype: DataType) -> None:
    values = np.array([1.0, *[2.0**-12] * 64]).astype(dtype.numpy)
    coo = COO((2, 3), np.ones(65, np.int32), np.full(65, 2, np.int32), values)
    wanted = np.asarray(values.astype(np.float32).sum()).astype(dtype.numpy)
    assert coo.coalesce().values.array[0] == wanted == coo.to_dense().array[1, 2] == coo.to_csr()[1, 2]
    assert coo.sum().array == (65 if dtype is DataType.BOOL else wanted)


def test_large_extents_take_wide_indices() -> None:
    far = COO((2**40, 2**35), [2**40 - 1, 3, 3], [5, 2**35 - 1, 1], [1.0, 2.0, 3.0])
    assert far.rows.dtype is DataType.INT64
    np.testing.assert_array_equal(far.coalesce().values.array, [3, 2, 1])
    assert far.T.shape == (2**35, 2**40)
    assert COO.from_dense(np.eye(3)).rows.dtype is DataType.INT32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: COO((2, 3, 4), [], [], []), r"Dim\(2, 3, 4\) is of rank 3 != 2"),
        (lambda: COO((2, 3), [0], [3], [1]), "column 3 of element 0 is outside of 0 to 2"),
        (lambda: COO((2, 3), [-1], [0], [1]), "row -1 of element 0 is outside of 0 to 1"),
        (lambda: COO((2, 3), [0, 1], [0], [1]), "have the shapes"),
        (lambda: COO((2, 3), [[0]], [[0]], [1]), "rows are of rank 2 != 1"),
        (lambda: CSR((2, 3), [0, 1], [0], [1]), "2 starts != 3 for 2 rows"),
        (lambda: CSR((2, 3), [0, 2, 1], [0], [1]), "row 1 ends at 1 < 2"),
        (lambda: CSR((2, 3), [0, 1, 2], [0], [1]), "starts go from 0 to 2 != 0 to 1"),
        (lambda: CSR((2, 3), [0, 1, 1], [0], [1, 2]), "columns have the shape"),
        (lambda: CSR.from_dense(np.ones((2, 3))).with_values([1.0]), r"!= Dim\(6\)"),
        (lambda: CSR.from_dense(np.ones((2, 3))) * np.ones((3, 2)), "does not broadcast"),
        (lambda: CSR.from_dense(np.ones((2, 3))) + np.ones((4, 2, 3)), "does not broadcast to"),
        (lambda: CSR.from_dense(np.ones((2, 3))) + COO.from_dense(np.ones((3, 2))), r"Dim\(2, 3\) != Dim\(3, 2\)"),
    ],
)
def test_what_does_not_fit_is_said(make: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        make()


def test_what_has_no_meaning_is_refused() -> None:
    matrix: Any = CSR.from_dense(np.ones((2, 3)))
    with pytest.raises(UnsupportedError, match="the sum is not sparse"):
        _ = matrix + 1
    assert (matrix + 0) is matrix
    with pytest.raises(UnsupportedError, match="both are sparse"):
        _ = matrix * matrix
    with pytest.raises(DTypeError, match="rows are float32, not integers"):
        COO((2, 3), [0.5], [0], [1])
    with pytest.raises(DTypeError, match="strings"):
        COO((2, 3), [0], [0], np.array(["a"]))
    with pytest.raises(DTypeError, match=r"1\.5"):
        _ = CSR.from_dense([[1, 2]]) * 1.5


def test_scipy_both_ways_without_copies() -> None:
    pytest.importorskip("scipy")
    sparse: Any = importlib.import_module("scipy.sparse")
    rng = np.random.default_rng(3)
    for cls, kind in ((CSR, "csr"), (COO, "coo")):
        theirs = sparse.random_array((7, 11), density=0.3, format=kind, dtype=np.float32, rng=rng)
        ours = cls.from_scipy(theirs)
        assert_holds(ours, theirs.toarray())
        assert np.shares_memory(ours.values.array, theirs.data)
        assert not np.shares_memory(cls.from_scipy(theirs, copy=True).values.array, theirs.data)
        back = ours.to_scipy()
        assert back.format == kind
        assert np.shares_memory(back.data, theirs.data)
        np.testing.assert_array_equal(back.toarray(), theirs.toarray())
        D = rng.standard_normal((11, 5)).astype(np.float32)
        np.testing.assert_allclose((ours @ D).array, theirs @ D, rtol=1e-5, atol=1e-6)
    with pytest.raises(DTypeError, match="no sparse matrices of float16"):
        CSR.from_dense(np.ones((2, 2), np.float16)).to_scipy()


@pytest.mark.slow
def test_scipy_is_not_imported() -> None:
    program = """
import sys, numpy as np
from tazza.array.sparse import CSR
S = CSR.from_dense(np.eye(3, dtype="f")); (S @ S.to_dense()); S.T; S + S
assert not [name for name in sys.modules if name.startswith("scipy")]
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_texts_tell_shape_and_density() -> None:
    assert repr(CSR.from_dense(np.eye(4, 5, dtype="f"))) == "CSR(float32[4, 5], 4 stored, 20.00%)"
    empty = COO((0, 3), [], [], np.zeros(0, "f"))
    assert (empty.density, empty.nbytes, empty.to_csr().nbytes) == (0.0, 0, 4)
    assert (CSR.from_dense(np.eye(4)) @ np.zeros((4, 0))).shape == (4, 0)
