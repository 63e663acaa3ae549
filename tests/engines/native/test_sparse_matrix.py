"""Products of a CSR matrix and one vector, compiled: rows of every length against sums in float64."""

from __future__ import annotations

import copy
import itertools
import pickle
import weakref
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from tazza.array.sparse import CSR, explain_sparse_matmul, sparse_matmul
from tazza.array.sparse.task import SPARSE_ENGINES
from tazza.codegen import kernel
from tazza.codegen.kernel import unavailable
from tazza.engines.native import sparse_matrix
from tazza.engines.native.sparse_vector import GROUP, HELD
from tazza.errors import ShapeError
from tazza.runtime.native_code import Processor, processor
from tazza.runtime.threads import NUM_THREADS
from tazza.tensor import Tensor

Array = npt.NDArray[Any]

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=f"the engine native is not there: {unavailable()}")

WIDTH = 531
LENGTHS = {
    "each residue, up and down": [*range(37), *range(36, -1, -1)],
    "short": [3, 1, 2, 5, 1, 4, 2],
    "empty between": [0, 0, 7, 0, 0, 0, 0, 0, 19, 0],
    "all but the last empty": [0] * 13 + [5],
    "one long between short": [2, 9, 0, 2 * HELD + 77, 1, 4, 0, 6],
    "long ones of whole pieces": [HELD, HELD + 1, 2 * HELD, HELD - 1, 3],
    "groups just too long": [HELD // GROUP, HELD // GROUP, HELD // GROUP, HELD // GROUP + 1] * 3,
    "groups that just fit": [HELD // GROUP] * (2 * GROUP + 1),
    "many blocks": [20 + i % 7 for i in range(307)],
}


@pytest.fixture(autouse=True)
def small_shares(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let few elements be enough for another thread."""
    monkeypatch.setattr(sparse_matrix, "DOT_THREAD_NS", 1)
    before = NUM_THREADS.value
    yield
    NUM_THREADS.set(before)


def matrix(lengths: list[int], dtype: type[np.floating[Any]] = np.float32, index: type[Any] = np.int32) -> CSR:
    rng = np.random.default_rng(len(lengths))
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(index)
    count = sum(lengths)
    columns = rng.integers(0, WIDTH, count).astype(index)
    return CSR((len(lengths), WIDTH), starts, columns, rng.standard_normal(count).astype(dtype))


def vector(dtype: type[np.floating[Any]] = np.float32) -> Array:
    return np.random.default_rng(1).standard_normal(WIDTH).astype(dtype)


def summed(S: CSR, x: Array) -> Array:
    starts, columns, values = (part.numpy() for part in (S.starts, S.columns, S.values))
    products = values.astype(np.float64) * x[columns]
    return np.array([products[a:b].sum() for a, b in itertools.pairwise(starts)])


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=list(LENGTHS))
def test_rows_of_every_length(lengths: list[int], dtype: type[np.floating[Any]], index: type[Any]) -> None:
    S, x = matrix(lengths, dtype, index), vector(dtype)
    found: list[Array] = []
    for threads in (1, 2, 3):
        NUM_THREADS.set(threads)
        assert f"dot products of rows, compiled, threads: {threads}" in explain_sparse_matmul(S, x)
        found.append((S @ x).numpy())
    tolerance = 2e-5 if dtype is np.float32 else 1e-13
    np.testing.assert_allclose(found[0], summed(S, x), rtol=tolerance, atol=10 * tolerance)
    np.testing.assert_array_equal(found[1], found[0])
    np.testing.assert_array_equal(found[2], found[0])


def test_a_sum_depends_on_its_row_alone() -> None:
    NUM_THREADS.set(1)
    lengths = [5, 2 * HELD + 5, 33, 0, 17, HELD, 400, 400, 400, 16]
    S, x = matrix(lengths), vector()
    together = (S @ x).numpy()
    for r in range(len(lengths)):
        assert (S[r : r + 1] @ x).numpy()[0] == together[r]


@pytest.mark.slow
@pytest.mark.parametrize("vector_bytes", [16, 32])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_narrower_vectors(dtype: type[np.floating[Any]], vector_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on processors that have no wider ones."""
    if processor().vector_bytes < vector_bytes:
        pytest.skip(f"the processor has no vectors of {vector_bytes} bytes")
    narrow = Processor(processor().name, "+avx2" if vector_bytes == 32 else "")
    monkeypatch.setattr(kernel, "processor", lambda: narrow)
    monkeypatch.setattr(sparse_matrix, "compiled_once", cast("Any", sparse_matrix.compiled_once).__wrapped__)
    S, x = matrix(LENGTHS["one long between short"] + LENGTHS["each residue, up and down"], dtype), vector(dtype)
    tolerance = 2e-5 if dtype is np.float32 else 1e-13
    np.testing.assert_allclose((S @ x).numpy(), summed(S, x), rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("at", [0, 6, 40, HELD + 500, 2 * HELD + 76, -1])
@pytest.mark.parametrize("column", [WIDTH, -1, 2**31 - 1])
def test_columns_that_others_spoiled_are_found_in_any_row(at: int, column: int) -> None:
    S, x = matrix([2, 9, 30, 2 * HELD + 77, 1, 4, 0, 6]), vector()
    good = (S @ x).numpy()
    columns = S.columns.numpy()
    columns[at], kept = column, columns[at]
    for threads in (1, 2):
        NUM_THREADS.set(threads)
        with pytest.raises(ShapeError, match=f"column {column} of element"):
            _ = S @ x
    columns[at] = kept
    np.testing.assert_array_equal((S @ x).numpy(), good)


@pytest.mark.parametrize("start", [-1, -(2**31), 2**31 - 1, 0])
@pytest.mark.parametrize("row", [1, 3, 4, 7])
def test_starts_that_others_spoiled_are_found(row: int, start: int) -> None:
    S, x = matrix([2, 9, 30, 2 * HELD + 77, 1, 4, 1, 6]), vector()
    S.starts.numpy()[row] = start
    for threads in (1, 2):
        NUM_THREADS.set(threads)
        if start == 0 and row == 1:  # still ascends
            np.testing.assert_allclose((S @ x).numpy(), summed(S, x), rtol=1e-4, atol=1e-4)
            continue
        with pytest.raises(ShapeError, match=r"row \d ends at"):
            _ = S @ x


# -- what is kept from one product to the next -------------------------------------------------------------------------


def test_the_next_product_reads_what_is_there_then() -> None:
    S, x = matrix(LENGTHS["short"]), vector()
    first = (S @ x).numpy()
    assert S.prepared is not None
    S.values.numpy()[:] *= 2
    np.testing.assert_array_equal((S @ x).numpy(), 2 * first)
    np.testing.assert_array_equal((S @ (2 * x)).numpy(), 4 * first)
    np.testing.assert_array_equal((S @ Tensor.from_numpy(x.reshape(-1, 1))).numpy()[:, 0], 2 * first)


def test_other_operands_are_prepared_anew() -> None:
    S, x = matrix(LENGTHS["each residue, up and down"]), vector()
    D = np.stack([x, -x, 2 * x], axis=1)
    rows = S.shape[0]
    left = np.ones((2, rows), np.float32)
    dense = S.to_dense().numpy().astype(np.float64)
    calls = [
        (lambda: S @ x, dense @ x),
        (lambda: S @ D, dense @ D),
        (lambda: S @ D[:, 1], dense @ D[:, 1]),
        (lambda: S @ D[:, :2], dense @ D[:, :2]),
        (lambda: S @ np.asfortranarray(D), dense @ D),
        (lambda: S @ x.astype(np.float64), dense @ x),
        (lambda: S @ x.astype(">f4"), dense @ x),
        (lambda: sparse_matmul(S, left.T, transpose=True), dense.T @ left.T),
        (lambda: left @ S, left @ dense),
        (lambda: left[0] @ S, left[0] @ dense),
        (lambda: sparse_matmul(x, S, transpose=True), x @ dense.T),
    ]
    for call, wanted in [*calls, *calls[::-1]]:
        for _ in range(2):
            np.testing.assert_allclose(call().numpy(), wanted, rtol=1e-4, atol=1e-4)


def test_parts_that_moved_are_prepared_anew() -> None:
    S, x = matrix(LENGTHS["short"]), vector()
    before = (S @ x).numpy()
    values = S.values.numpy().copy()
    S.values = Tensor.from_numpy(3 * values)
    np.testing.assert_allclose((S @ x).numpy(), 3 * before, rtol=1e-6)
    S.values.release()
    S.values.assign(values)
    np.testing.assert_array_equal((S @ x).numpy(), before)


def test_another_engine_and_another_number_of_threads_are_taken() -> None:
    S, x = matrix(LENGTHS["short"]), vector()
    NUM_THREADS.set(2)
    _ = S @ x
    told = S.prepared
    _ = S @ x
    assert S.prepared is told
    NUM_THREADS.set(1)
    _ = S @ x
    assert S.prepared is not told
    ran: list[str] = []

    def solve(task: Any) -> Any:
        found = SPARSE_ENGINES.ask("reference", task)
        ran.append("another")
        return found

    SPARSE_ENGINES.register("another", solve, priority=99)
    try:
        _ = S @ x
        _ = S @ x
    finally:
        SPARSE_ENGINES.unregister("another")
    assert ran == ["another"]


def test_neither_operand_nor_result_is_kept() -> None:
    S, x = matrix(LENGTHS["short"]), vector()
    result = S @ x
    kept = [weakref.ref(x), weakref.ref(result), weakref.ref(result.array)]
    del x, result
    assert [one() for one in kept] == [None] * 3


def test_copies_leave_what_is_prepared_behind() -> None:
    S, x = matrix(LENGTHS["short"]), vector()
    wanted = (S @ x).numpy()
    for other in (copy.copy(S), copy.deepcopy(S), pickle.loads(pickle.dumps(S))):
        assert other.prepared is None
        np.testing.assert_array_equal((other @ x).numpy(), wanted)
