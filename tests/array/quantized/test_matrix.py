"""Products of quantized matrices: exact integers on every engine, and bounds of the real ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.array.quantized import (
    INTEGER_PRODUCTS,
    QTensor,
    error_bound,
    explain_quantized_matmul,
    integer_matmul,
    quantize,
    quantized_matmul,
)
from tazza.array.quantized.factor import Factor
from tazza.array.quantized.product import ProductTask
from tazza.errors import DTypeError, ShapeError, UnsupportedError
from tazza.tensor import DataType, Tensor
from tazza.tensor.offer import Unsupported

ENGINES = INTEGER_PRODUCTS.engines()
SHAPES = st.sampled_from([(1, 1, 1), (3, 5, 7), (1, 19, 130), (17, 2, 264), (9, 33, 1030)])
KINDS = st.sampled_from([(1, False), (3, True), (8, True), np.int8, np.uint8])
"""Few, because each pair is a kernel to be compiled; all forms of kernels are in the tests of the engine."""
Kind = tuple[int, bool] | type[np.int8 | np.uint8]


def matrix(kind: Kind, dims: tuple[int, int], seed: int) -> tuple[QTensor | Tensor, npt.NDArray[np.int64]]:
    """Return a matrix with the ends of its range in it, and its integers."""
    generator = np.random.default_rng(seed)
    if isinstance(kind, tuple):
        top = (1 << kind[0]) - 1
        low = -top if kind[1] else 0
    else:
        low, top = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    x = generator.integers(low, top + 1, dims)
    x[generator.random(dims) < 0.3] = top
    x[generator.random(dims) < 0.3] = low
    if isinstance(kind, tuple):
        return QTensor.of_integers(x, kind[0], signed=kind[1], scale=0.5, bias=3.0), x
    return Tensor.from_numpy(x.astype(kind)), x


def plain(x: QTensor | Tensor) -> QTensor | npt.NDArray[Any]:
    return x if isinstance(x, QTensor) else x.array


@pytest.mark.slow
@settings(max_examples=30)
@given(KINDS, KINDS, SHAPES, st.booleans(), st.booleans(), st.sampled_from([None, *ENGINES]))
def test_exact(
    kind_a: Kind, kind_b: Kind, sizes: tuple[int, int, int], turn_a: bool, turn_b: bool, engine: str | None
) -> None:
    m, n, k = sizes
    a, x = matrix(kind_a, (k, m) if turn_a else (m, k), 1)
    b, y = matrix(kind_b, (n, k) if turn_b else (k, n), 2)
    a_side, b_side = Factor(plain(a), turn_a), Factor(plain(b), not turn_b)
    if engine is not None and isinstance(INTEGER_PRODUCTS.ask(engine, ProductTask(a_side, b_side)), Unsupported):
        with pytest.raises(UnsupportedError, match=f"product '{engine}' does not take {m} x {k} integers"):
            integer_matmul(a, b, transpose_a=turn_a, transpose_b=turn_b, engine=engine)
        return
    found = integer_matmul(a, b, transpose_a=turn_a, transpose_b=turn_b, engine=engine)
    assert found.dtype is DataType.INT32
    np.testing.assert_array_equal(found.plain(), (x.T if turn_a else x) @ (y.T if turn_b else y))


@pytest.mark.parametrize("engine", ENGINES)
def test_sums_that_leave_int32(engine: str) -> None:
    a = QTensor.of_integers(np.full((1, 33_100), -255), 8, signed=True)
    b = QTensor.of_integers(np.full((33_100,), 255), 8, signed=False)
    if engine == "onednn":
        with pytest.raises(UnsupportedError, match="and it sums in int32"):
            integer_matmul(a, b, engine=engine)
        return
    if isinstance(INTEGER_PRODUCTS.ask(engine, ProductTask(Factor(a), Factor(a))), Unsupported):
        pytest.skip(f"{engine} is not available")
    found = integer_matmul(a, b, engine=engine)
    assert (found.dtype, found.plain().tolist()) == (DataType.INT64, [-255 * 255 * 33_100])


def test_vectors() -> None:
    v = QTensor.of_integers([1, 2, 3], 2, signed=False)
    w = QTensor.of_integers([[1, 0, 1], [0, 1, 1]], 1, signed=False, scale=2.0)
    assert integer_matmul(v, v).plain().tolist() == 14
    assert integer_matmul(w, v).plain().tolist() == [4, 5]
    assert integer_matmul(v, w, transpose_b=True).plain().tolist() == [4, 5]
    assert (w @ v).plain().tolist() == [8.0, 10.0]
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = v @ 3  # pyright: ignore[reportOperatorIssue] -- that is what is tested


REAL_KINDS = st.tuples(st.sampled_from([2, 5, 8]), st.booleans(), st.floats(-20, 20))


@settings(max_examples=30)
@given(SHAPES, REAL_KINDS, REAL_KINDS)
def test_bounds_of_the_real_product(
    sizes: tuple[int, int, int], left: tuple[int, bool, float], right: tuple[int, bool, float]
) -> None:
    m, n, k = sizes
    generator = np.random.default_rng(k)
    factors: list[tuple[npt.NDArray[np.float64], QTensor]] = []
    for dims, (precision, signed, shift) in (((m, k), left), ((n, k), right)):
        real = generator.normal(shift, 3.0, dims)
        factors.append((real, quantize(real, precision, signed=signed)))
    (A, a), (B, b) = factors
    found = quantized_matmul(a, b, transpose_b=True, engine="numpy").plain().astype(np.float64)
    x, y = (q.integer_array().astype(np.float64) for q in (a, b))
    C, scale = x @ y.T, a.scale * b.scale
    f_u, e_v = b.bias * x.sum(1)[:, None], a.bias * y.sum(1)[None, :]
    exact = scale * (C + f_u + e_v + k * a.bias * b.bias)
    terms = scale * (np.abs(C) + np.abs(f_u) + np.abs(e_v) + k * abs(a.bias * b.bias))
    rounding = 2.0**-24 * np.abs(exact) + 2.0**-49 * terms  # twice: `exact` is no more exact than the result
    assert (np.abs(found - exact) <= rounding).all()
    p, q = error_bound(a, dtype=DataType.DOUBLE), error_bound(b, dtype=DataType.DOUBLE)
    bound = k * (p * np.abs(B).max() + q * np.abs(A).max() + p * q)
    assert (np.abs(found - A @ B.T) <= bound + rounding).all()


def test_refusals() -> None:
    q = QTensor.of_integers(np.ones((2, 3), np.int8), 1, signed=False)
    with pytest.raises(ShapeError, match=r"K of a is 3 != 2 of b: shapes \[2, 3\] and \[2, 3\]\n"):
        integer_matmul(q, q)
    with pytest.raises(ShapeError, match=r"K of a is 2 != 3 of b: .*, a transposed, b transposed"):
        integer_matmul(q, q, transpose_a=True, transpose_b=True)
    with pytest.raises(ShapeError, match=r"b has shape .* of rank 3, wanted 1 or 2"):
        integer_matmul(q, q.reshape((1, 2, 3)))
    with pytest.raises(DTypeError, match="a has elements of type float32, wanted int8, uint8 or a QTensor"):
        integer_matmul(np.ones((2, 2), np.float32), q)


def test_explains() -> None:
    q = QTensor.of_integers(np.ones((2, 3), np.int8), 8, signed=True)
    told = explain_quantized_matmul(q, q, transpose_b=True).splitlines()
    assert told[0] == "2 x 3 integers from -255 to 255 times 3 x 2 from -255 to 255, in int32"
    assert sum(": taken, about " in line for line in told) == 1
    assert "onednn: a has integers from -255 to 255, which are no bytes" in told
