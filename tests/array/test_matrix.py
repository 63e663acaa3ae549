"""Products of matrices and what goes along rows and columns: against NumPy in float64, whatever the strides."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tazza.array as ta
from tazza.errors import ArgumentError, DTypeError, ShapeError, TazzaError
from tazza.tensor import DataType, Tensor, matrix

Array = NDArray[Any]

TYPES = [DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16, DataType.INT32, DataType.INT8]
EPSILON = {DataType.FLOAT: 1e-6, DataType.DOUBLE: 1e-14, DataType.FLOAT16: 1e-3, DataType.BFLOAT16: 8e-3}


def _random(rng: np.random.Generator, dims: tuple[int, ...], dtype: DataType, order: str) -> Array:
    """Return small numbers, exact in every type: row-major, column-major, every second column, or backwards."""
    values = rng.integers(-4, 5, (*dims[:-1], 2 * dims[-1])).astype(dtype.numpy)[..., ::2]
    if order == "C":
        return np.ascontiguousarray(values)
    if order == "F":
        return np.ascontiguousarray(values.swapaxes(-1, -2)).swapaxes(-1, -2)
    return values if order == "gaps" else values[..., ::-1]


ORDERS = st.sampled_from(["C", "F", "gaps", "back"])


@settings(max_examples=60)
@given(data=st.data(), dtype=st.sampled_from(TYPES), seed=st.integers(0, 2**32 - 1))
def test_gemm_is_the_formula(data: st.DataObject, dtype: DataType, seed: int) -> None:
    rng = np.random.default_rng(seed)
    M, N, K = (data.draw(st.sampled_from([0, 1, 2, 5, 64, 130])) for _ in "MNK")
    transpose_a, transpose_b = data.draw(st.booleans()), data.draw(st.booleans())
    alpha, beta = data.draw(st.sampled_from([1, 2, -3])), data.draw(st.sampled_from([0, 1, 2]))
    a = _random(rng, (K, M) if transpose_a else (M, K), dtype, data.draw(ORDERS))
    b = _random(rng, (N, K) if transpose_b else (K, N), dtype, data.draw(ORDERS))
    former = _random(rng, (M, N), dtype, "C")
    out = Tensor.from_numpy(former)
    wide = [one.astype(np.float64) for one in (a.T if transpose_a else a, b.T if transpose_b else b, former)]
    expected = alpha * (wide[0] @ wide[1]) + beta * wide[2]
    given = out if beta else None
    found = matrix.gemm(a, b, transpose_a=transpose_a, transpose_b=transpose_b, alpha=alpha, beta=beta, out=given)
    if dtype.is_float:
        tolerance = EPSILON[dtype] * (1 + np.abs(expected))
        assert np.all(np.abs(found.plain().astype(np.float64) - expected) <= tolerance)
    else:
        assert np.array_equal(found.plain(), expected.astype(np.int64).astype(dtype.numpy))
    assert found.dtype is dtype
    assert beta == 0 or found is out


def test_beta_0_does_not_read_what_out_holds() -> None:
    for size in (2, 130):
        out = Tensor.from_numpy(np.full((size, size), np.nan, np.float32))
        eye = np.eye(size, dtype=np.float32)
        assert np.array_equal(matrix.gemm(eye, eye, alpha=2, out=out).plain(), 2 * eye)


def test_no_inner_extent_means_zero_or_beta() -> None:
    out = Tensor.from_numpy(np.full((2, 3), 5, np.float32))
    hollow = np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32)
    assert np.all(matrix.gemm(*hollow, beta=2, out=out).plain() == 10)
    assert np.all(matrix.gemm(*hollow).plain() == 0)


@pytest.mark.parametrize("size", [3, 128])
def test_out_may_be_an_operand(size: int) -> None:
    rng = np.random.default_rng(1)
    values = rng.integers(-3, 4, (size, size)).astype(np.float32)
    x = Tensor.from_numpy(values)
    matrix.gemm(x, x, transpose_b=True, beta=1, out=x)
    assert np.array_equal(x.plain(), values @ values.T + values)


def test_a_lazy_expression_is_an_operand() -> None:
    x = np.ones((2, 3))
    found = matrix.gemm(ta.lazy(ta.asarray(x)) * 2, x, transpose_b=True)
    assert found.plain().tolist() == [[6, 6], [6, 6]]


def test_integers_are_exact_and_wrap() -> None:
    big = np.array([[2**40, 1]], np.int64)
    assert matrix.gemm(big, big, transpose_b=True).plain()[0, 0] == (2**80 + 1) % 2**64
    exact = np.array([[2**31, 3]], np.int64)
    assert matrix.gemm(exact, exact, transpose_b=True).plain()[0, 0] == 2**62 + 9
    assert matrix.gemm(np.array([[100]], np.int8), np.array([[2]], np.int8)).plain()[0, 0] == np.int8(-56)


@pytest.mark.parametrize("size", [4, 90])
def test_batches_broadcast_and_need_no_copies(size: int) -> None:
    rng = np.random.default_rng(2)
    a = rng.standard_normal((2, 3, size, size + 1)).astype(np.float32)
    b = rng.standard_normal((size + 1, size + 2)).astype(np.float32)
    repeated = np.broadcast_to(b, (3, *b.shape))
    for other in (b, repeated):
        assert np.allclose(matrix.strided_batched_gemm(a, other).plain(), a @ b, atol=1e-3)
    turned = a.transpose(1, 0, 3, 2)
    assert np.allclose(
        matrix.strided_batched_gemm(turned, b, transpose_a=True).plain(), turned.swapaxes(2, 3) @ b, atol=1e-3
    )


def test_batched_gemm_takes_pairs_of_any_shapes() -> None:
    rng = np.random.default_rng(3)
    a = [rng.standard_normal((m, 4)) for m in (2, 3)]
    b = [rng.standard_normal((n, 4)) for n in (5, 1)]
    out = [Tensor.from_numpy(np.ones((2, 5))), Tensor.from_numpy(np.ones((3, 1)))]
    found = matrix.batched_gemm(a, b, transpose_b=True, beta=3, out=out)
    for x, y, result in zip(a, b, found, strict=True):
        assert np.allclose(result.plain(), x @ y.T + 3)
    with pytest.raises(ShapeError, match="pair 1"):
        matrix.batched_gemm(a, [b[0], b[1][:, :3]], transpose_b=True, out=out)
    assert np.allclose(out[0].plain(), a[0] @ b[0].T + 3), "nothing was multiplied before all was checked"


def test_gemv_and_vectors_along_axes() -> None:
    rng = np.random.default_rng(4)
    a = rng.standard_normal((200, 300)).astype(np.float32)
    row, column = (rng.standard_normal(2 * n).astype(np.float32)[::2] for n in (300, 200))
    assert np.allclose(matrix.gemv(a, row).plain(), a @ row, atol=1e-3)
    y = Tensor.from_numpy(row)
    assert np.allclose(
        matrix.gemv(a, column, transpose=True, alpha=2, beta=-1, out=y).plain(), 2 * (column @ a) - row, atol=1e-3
    )
    assert np.allclose(matrix.row_sums(a).plain(), a.sum(1), atol=1e-3)
    half = a.astype(np.float16)
    assert np.allclose(matrix.column_sums(half).plain(), half.sum(0, dtype=np.float64), rtol=1e-3, atol=1e-3)
    assert matrix.row_sums(np.ones((2, 300), np.uint8)).plain().tolist() == [300, 300]
    x = Tensor.from_numpy(a)
    assert matrix.add_row(x, row, alpha=2, out=x) is x
    assert np.allclose(x.plain(), a + 2 * row)
    assert np.allclose(matrix.add_column(a, column).plain(), a + column[:, None])


def test_set_elements() -> None:
    x = Tensor.from_numpy(np.arange(6, dtype=np.int32).reshape(2, 3))
    matrix.set_elements(x, [[7], [8]], where=x.plain() % 2 == 0)
    assert x.plain().tolist() == [[7, 1, 7], [3, 8, 5]]
    assert np.all(matrix.set_elements(x, 9).plain() == 9)


F = np.ones
WRONG: dict[str, tuple[Any, type[TazzaError], str]] = {
    "inner extents": (
        lambda: matrix.gemm(F((2, 3)), F((5, 3))),
        ShapeError,
        "K = 3 .* K = 5 (.|\n)*transpose_b=True would fit",
    ),
    "no matrix": (lambda: matrix.gemm(F(3), F((3, 2))), ShapeError, "A has rank 1"),
    "dtypes": (lambda: matrix.gemm(F((2, 3)), F((3, 2), np.float32)), DTypeError, "A is float64, B is float32"),
    "bool": (lambda: matrix.gemm(F((2, 3), np.bool_), F((3, 2), np.bool_)), DTypeError, "bool"),
    "sparse": (lambda: matrix.gemm(cast("Any", ta.COO((2, 3), [0], [1], F(1))), F((3, 2))), DTypeError, "A is a COO"),
    "text": (lambda: matrix.gemm([["a"]], F((1, 2))), DTypeError, "text"),
    "beta without out": (lambda: matrix.gemm(F((2, 3)), F((3, 2)), beta=1), ArgumentError, "beta = 1 needs"),
    "fraction": (
        lambda: matrix.gemm(F((2, 3), int), F((3, 2), int), alpha=0.5),
        ArgumentError,
        "alpha = 0.5 is no integer",
    ),
    "shape of out": (
        lambda: matrix.gemm(F((2, 3)), F((3, 2)), out=Tensor((2, 3), DataType.DOUBLE)),
        ShapeError,
        "out has",
    ),
    "dtype of out": (lambda: matrix.gemm(F((2, 3)), F((3, 2)), out=Tensor((2, 2))), DTypeError, "out is float32"),
    "vector": (lambda: matrix.gemv(F((2, 3)), F(2)), ShapeError, "K = 3 .* K = 2(.|\n)*transpose=True would fit"),
    "batches": (lambda: matrix.strided_batched_gemm(F((2, 1, 3)), F((5, 3, 1))), ShapeError, "2 != 5"),
    "numbers of matrices": (lambda: matrix.batched_gemm([F((2, 3))], []), ShapeError, "1 and 0 matrices"),
    "row": (
        lambda: matrix.add_row(F((2, 3)), F(2)),
        ShapeError,
        "3 columns, the vector has 2(.|\n)*add_column would fit",
    ),
    "mask": (lambda: matrix.set_elements(Tensor((2,)), 1, where=[0, 1]), DTypeError, "where is int64"),
    "value": (lambda: matrix.set_elements(Tensor((2,)), [1, 2, 3]), ShapeError, "does not broadcast|not equal|!="),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_said(name: str) -> None:
    call, error, text = WRONG[name]
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("transpose", [False, True])
def test_the_hint_of_gemv_helps(transpose: bool) -> None:
    A = np.ones((3, 2))
    with pytest.raises(ShapeError, match=f"transpose={not transpose} would fit"):
        matrix.gemv(A, np.ones(2 if transpose else 3), transpose=transpose)
    with pytest.raises(ShapeError) as caught:
        matrix.gemv(A, np.ones(5), transpose=transpose)
    assert "would fit" not in str(caught.value)
