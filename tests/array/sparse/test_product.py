"""Products of sparse and dense matrices, on every engine, against NumPy's of the dense matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.array.sparse import CSR, explain_sparse_matmul, sparse_matmul
from tazza.array.sparse.task import SPARSE_ENGINES, Form, SparseTask
from tazza.errors import ShapeError, UnsupportedError
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import DataType, Tensor
from tazza.tensor.offer import Offer

Array = npt.NDArray[Any]

TOLERANCE = {
    DataType.FLOAT: 1e-5,
    DataType.DOUBLE: 1e-12,
    DataType.FLOAT16: 2e-3,
    DataType.BFLOAT16: 2e-2,
    DataType.INT32: 0,
    DataType.INT8: 0,
    DataType.BOOL: 0,
}


def random_matrix(rng: np.random.Generator, shape: tuple[int, int], dtype: DataType, density: float) -> Array:
    numbers = rng.integers(-3, 4, shape) if dtype is not DataType.INT8 else rng.integers(-1, 2, shape)
    return np.where(rng.random(shape) < density, numbers, 0).astype(dtype.numpy)


def wide(array: Array) -> Array:
    return array.astype(np.float64)


def assert_near(got: Tensor, wanted: Array, dtype: DataType) -> None:
    assert got.dtype is dtype
    expected = wanted != 0 if dtype is DataType.BOOL else wanted
    np.testing.assert_allclose(wide(got.plain()), wide(expected), rtol=TOLERANCE[dtype], atol=10 * TOLERANCE[dtype])


@st.composite
def products(draw: st.DrawFn) -> tuple[Array, int, DataType, np.random.Generator]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    dtype = draw(st.sampled_from(list(TOLERANCE)))
    shape = draw(st.integers(0, 40)), draw(st.integers(0, 40))
    vectors = draw(st.sampled_from([0, 1, 2, 15, 16, 17, 33, 64, 100, 150]))
    return random_matrix(rng, shape, dtype, draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]))), vectors, dtype, rng


@pytest.mark.slow
@settings(max_examples=40)
@given(products(), st.booleans(), st.booleans())
def test_products_are_numpys(
    case: tuple[Array, int, DataType, np.random.Generator], from_left: bool, transpose: bool
) -> None:
    dense, n, dtype, rng = case
    S = CSR.from_dense(dense)
    matrix = dense.T if transpose else dense
    inner = matrix.shape[0 if from_left else 1]
    D = random_matrix(rng, (n, inner) if from_left else (inner, n), dtype, 1.0)
    wanted = wide(D) @ wide(matrix) if from_left else wide(matrix) @ wide(D)
    left, right = (D, S) if from_left else (S, D)
    for _ in range(2):  # the second time by what the first was computed by
        assert_near(sparse_matmul(left, right, transpose=transpose), wanted, dtype)
    strided = np.asfortranarray(D)
    assert_near(sparse_matmul(*((strided, S) if from_left else (S, strided)), transpose=transpose), wanted, dtype)
    if n:
        vector = D[0] if from_left else D[:, 0]
        for _ in range(2):
            result = sparse_matmul(*((vector, S) if from_left else (S, vector)), transpose=transpose)
            assert_near(result, wanted[0] if from_left else wanted[:, 0], dtype)


def _tasks(dtype: DataType, index: type[np.integer[Any]]) -> list[SparseTask]:
    """Return one task of each form with large enough extents for several threads; rows of very different lengths."""
    rng = np.random.default_rng(5)
    dense = random_matrix(rng, (211, 307), dtype, 0.02)
    dense[7] = 1
    S = CSR.from_dense(dense)
    found: list[SparseTask] = []
    for form, D_shape, Y_shape in (
        (Form.ROWS, (307, 256), (211, 256)),
        (Form.ROWS, (307, 1), (211, 1)),
        (Form.TRANSPOSED, (211, 119), (307, 119)),
        (Form.FROM_LEFT, (119, 211), (119, 307)),
    ):
        D = random_matrix(rng, D_shape, dtype, 1.0)
        Y = np.full(Y_shape, 77, dtype.numpy)
        parts = S.starts.array.astype(index), S.columns.array.astype(index), S.values.array
        found.append(SparseTask(form, (211, 307), *parts, D, Y, dtype))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", ["native", "reference"])
@pytest.mark.parametrize("dtype", [DataType.FLOAT, DataType.DOUBLE, DataType.BFLOAT16], ids=str)
def test_every_engine_gives_the_same(name: str, dtype: DataType) -> None:
    engine = _engine(name)
    for index in (np.int32, np.int64):
        for task in _tasks(dtype, index):
            engine(task)
            matrix = np.zeros(task.shape)
            np.add.at(matrix, (np.repeat(np.arange(211), np.diff(task.starts)), task.columns), wide(task.values))
            D = wide(task.D)
            operands = {Form.ROWS: (matrix, D), Form.TRANSPOSED: (matrix.T, D), Form.FROM_LEFT: (D, matrix)}
            wanted = np.matmul(*operands[task.form])
            np.testing.assert_allclose(wide(task.Y), wanted, rtol=TOLERANCE[dtype], atol=10 * TOLERANCE[dtype])
            assert (task.flops, task.bytes_read) > (0, task.D.nbytes)


def _engine(name: str) -> Callable[[SparseTask], None]:
    if not isinstance(SPARSE_ENGINES.ask(name, _tasks(DataType.FLOAT, np.int32)[0]), Offer):
        pytest.skip(f"engine {name} is not available")
    return lambda task: SPARSE_ENGINES.choose(task, name).run(task.D, task.Y)


@pytest.mark.slow
def test_results_do_not_depend_on_the_number_of_threads() -> None:
    engine = _engine("native")
    results: list[list[Array]] = []
    before = NUM_THREADS.value
    for threads in (1, 2, 5):
        NUM_THREADS.set(threads)
        try:
            tasks = _tasks(DataType.FLOAT, np.int32)
            for task in tasks:
                engine(task)
            results.append([task.Y for task in tasks])
        finally:
            NUM_THREADS.set(before)
    assert all(np.array_equal(a, b) for other in results[1:] for a, b in zip(results[0], other, strict=True))


@pytest.mark.parametrize("name", ["native", "reference"])
@pytest.mark.parametrize(
    ("part", "at", "value", "message"),
    [
        ("columns", 5, 307, "column 307 of element 5 is outside of 0 to 306"),
        ("columns", 6, -1, "column -1 of element 6 is outside of 0 to 306"),
        ("starts", 3, 1 << 30, "row 3 ends at"),
        ("starts", 3, -5, "row 2 ends at -5"),
        ("starts", 0, -2, "starts go from -2 to"),
        ("starts", 211, 1 << 30, "starts go from 0 to 1073741824 != 0 to"),
    ],
)
def test_indices_that_others_spoiled_are_found(name: str, part: str, at: int, value: int, message: str) -> None:
    """A matrix shares its memory with whoever gave it; what they do to it must be no crash."""
    engine = _engine(name)
    for task in _tasks(DataType.FLOAT, np.int32):
        getattr(task, part)[at] = value
        with pytest.raises(ShapeError, match=message):
            engine(task)


def test_out_may_overlap_and_must_fit() -> None:
    S = CSR.from_dense(np.array([[0, 2, 1], [3, 0, 0], [0, 0, 5]], np.float32))
    x = Tensor.from_numpy(np.array([[1, 2], [3, 4], [5, 6]], np.float32))
    wanted = S.to_dense().array @ x.array
    assert sparse_matmul(S, x, out=x) is x
    np.testing.assert_array_equal(x.array, wanted)
    columns = Tensor.from_numpy(np.zeros((2, 3), np.float32)).view((3, 2), strides=(1, 3))
    version = columns.storage.version
    np.testing.assert_array_equal(sparse_matmul(S, x, out=columns).array, S.to_dense().array @ wanted)
    assert columns.storage.version > version
    with pytest.raises(ShapeError, match=r"out has the shape Dim\(2, 3\), the result has Dim\(3, 2\)"):
        sparse_matmul(S, x, out=Tensor((2, 3)))


@pytest.mark.slow
def test_operators_and_types_promote() -> None:
    S = CSR.from_dense(np.array([[0, 2, 1], [3, 0, 0]], np.float32))
    assert (S @ np.ones(3)).dtype is DataType.DOUBLE
    np.testing.assert_array_equal((np.ones((4, 2), "f") @ S).array, np.ones((4, 2)) @ S.to_dense().array)
    np.testing.assert_array_equal((Tensor.from_numpy(np.ones((4, 2), "f")) @ S).array, [[3, 2, 1]] * 4)
    assert (S.to_coo() @ np.ones((3, 4), np.int8)).shape == (2, 4)


def test_what_does_not_fit_is_said() -> None:
    S = CSR.from_dense(np.ones((2, 3), np.float32))
    with pytest.raises(ShapeError, match=r"Dim\(2, 3\) @ Dim\(4, 5\): inner extents 3 != 4"):
        _ = S @ np.ones((4, 5))
    with pytest.raises(ShapeError, match=r"Dim\(5, 3\) @ Dim\(2, 3\): inner extents 3 != 2"):
        sparse_matmul(np.ones((5, 3)), S)
    with pytest.raises(ShapeError, match="is of rank 3"):
        _ = S @ np.ones((3, 3, 3))
    with pytest.raises(UnsupportedError, match="both are sparse"):
        sparse_matmul(S, S)
    with pytest.raises(UnsupportedError, match="neither operand is sparse"):
        sparse_matmul(np.ones((2, 2)), np.ones((2, 2)))


def test_explain_tells_the_kernel_and_why_not_another() -> None:
    S = CSR.from_dense(np.ones((2, 3), np.int32))
    text = explain_sparse_matmul(S, np.ones((3, 4), np.int32))
    assert "reference: taken, NumPy" in text
    assert "native: dtype int32 is missing, there is dtype bfloat16, float16, float32, float64" in text
    assert "writes 32" in text
    _engine("native")
    assert "native: taken, sums of rows in registers" in explain_sparse_matmul(
        S.cast(DataType.FLOAT), np.ones((3, 4), "f")
    )
