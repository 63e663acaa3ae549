"""Linear algebra of the array-API standard against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.errors import ArgumentError, DTypeError, ShapeError, TazzaError
from tazza.tensor import DataType, Tensor, linear_algebra

BATCHES = st.sampled_from([((), ()), ((3,), ()), ((), (2, 3)), ((2, 1), (3,)), ((0,), (1,))])


@settings(max_examples=40)
@given(
    batches=BATCHES, seed=st.integers(0, 99), M=st.sampled_from([1, 5]), N=st.sampled_from([1, 7]), K=st.integers(0, 3)
)
def test_matmul(batches: tuple[tuple[int, ...], tuple[int, ...]], seed: int, M: int, N: int, K: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((*batches[0], M, K)), rng.standard_normal((*batches[1], K, N)).astype(np.float32)
    row, column = rng.standard_normal(K), rng.standard_normal(K)
    for x, y in ((a, b), (row, b), (a, column), (row, column)):
        found = linear_algebra.matmul(x, y)
        assert found.dtype is DataType.DOUBLE
        assert found.shape == np.matmul(x, y).shape
        assert np.allclose(found.plain(), np.matmul(x, y))


@settings(max_examples=30)
@given(data=st.data())
def test_tensordot(data: st.DataObject) -> None:
    dims = (2, 3, 5)
    mine = data.draw(st.permutations([0, 1, 2]))[: data.draw(st.integers(0, 3))]
    theirs = data.draw(st.permutations([-1, -2, -3]))
    where = theirs[: len(mine)]
    shape = [7, 1, 4]
    for i, axis in zip(mine, where, strict=True):
        shape[axis] = dims[i]
    a = np.arange(30).reshape(dims).astype(np.int32)
    b = np.arange(math.prod(shape)).reshape(shape).astype(np.int8)
    axes = (tuple(mine), tuple(where))
    found = linear_algebra.tensordot(a, b, axes=axes)
    assert found.dtype is DataType.INT32
    assert np.array_equal(found.plain(), np.tensordot(a, b.astype(np.int32), axes=axes))


def test_vecdot_broadcasts_the_other_axes() -> None:
    a, b = np.arange(30.0).reshape(2, 3, 5), np.arange(15.0).reshape(3, 5)
    assert np.allclose(linear_algebra.vecdot(a, b).plain(), (a * b).sum(-1))
    assert np.allclose(linear_algebra.vecdot(a, b[:, :1], axis=-2).plain(), (a * b[:, :1]).sum(-2))


def test_transpose_outer_trace_and_einsum() -> None:
    a = np.arange(30, dtype=np.int32).reshape(2, 3, 5)
    assert np.array_equal(linear_algebra.matrix_transpose(a).plain(), a.swapaxes(1, 2))
    assert np.array_equal(linear_algebra.outer(a[0, 0], a[1, :, 1]).plain(), np.outer(a[0, 0], a[1, :, 1]))
    assert np.array_equal(linear_algebra.trace(a, offset=1).plain(), a.trace(1, 1, 2))
    half = a.astype(DataType.BFLOAT16.numpy)
    found = linear_algebra.einsum("bij,bkj,j->bik", half, half[:, :2], np.ones(5, half.dtype))
    assert found.dtype is DataType.BFLOAT16
    assert np.allclose(found.plain().astype(float), np.einsum("bij,bkj->bik", a, a[:, :2]), rtol=8e-3)


@pytest.mark.parametrize("order", [0, 1, 2, 3.5, math.inf, -math.inf])
@pytest.mark.parametrize("axis", [None, 1, (2, 0), ()])
def test_vector_norm(axis: int | tuple[int, ...] | None, order: float) -> None:
    x = np.random.default_rng(6).standard_normal((2, 3, 5))
    along = tuple(range(3)) if axis is None else (axis,) if isinstance(axis, int) else axis
    size = np.abs(x)
    extreme = {math.inf: size.max, -math.inf: size.min}.get(order)
    if extreme is not None:
        expected = extreme(axis=along, keepdims=True)
    elif order == 0:
        expected = (size != 0).sum(axis=along, keepdims=True)
    else:
        expected = (size**order).sum(axis=along, keepdims=True) ** (1 / order)
    found = linear_algebra.vector_norm(x, axis=axis, keepdims=True, ord=order)
    assert found.shape == expected.shape
    assert np.allclose(found.plain(), expected)
    assert linear_algebra.vector_norm(x, axis=axis, ord=order).shape == np.sum(x, axis=along).shape


def test_norms_of_few_bytes_do_not_overflow() -> None:
    x = np.full((2, 90), 300, np.float16)
    assert np.allclose(linear_algebra.vector_norm(x, axis=1).plain().astype(float), 300 * 90**0.5, rtol=1e-3)
    assert linear_algebra.vector_norm(np.zeros((0, 3))).plain() == 0


@pytest.mark.parametrize("order", ["fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf])
def test_matrix_norm(order: Any) -> None:
    x = np.random.default_rng(7).standard_normal((3, 4, 2))
    found = linear_algebra.matrix_norm(x, ord=order)
    assert np.allclose(found.plain(), [np.linalg.norm(one, order) for one in x])


X = np.ones
WRONG: dict[str, tuple[Any, type[TazzaError], str]] = {
    "inner": (lambda: linear_algebra.matmul(X((2, 3)), X((5, 3))), ShapeError, "K = 3, x2 .* K = 5"),
    "rank 0": (lambda: linear_algebra.matmul(1.0, X(3)), ShapeError, "x1 has rank 0"),
    "bool": (lambda: linear_algebra.matmul(X((2, 2), np.bool_), X((2, 2))), DTypeError, "operand 0 is bool"),
    "pair": (
        lambda: linear_algebra.tensordot(X((2, 3)), X((5, 3)), axes=1),
        ShapeError,
        "axis 1 of x1 .* axis 0 of x2",
    ),
    "axis twice": (
        lambda: linear_algebra.tensordot(X((2, 2)), X((2, 2)), axes=((0, 0), (0, 1))),
        ArgumentError,
        "pairs",
    ),
    "vecdot": (lambda: linear_algebra.vecdot(X((2, 3)), X((2, 5))), ShapeError, "3 in x1 and 5 in x2"),
    "vecdot axis": (lambda: linear_algebra.vecdot(X((2, 3)), X(3), axis=0), ArgumentError, "counts from the front"),
    "einsum": (lambda: linear_algebra.einsum("ij,jk->ik", X((2, 3)), X((2, 5))), ArgumentError, "einsum: 'ij,jk->ik'"),
    "outer": (lambda: linear_algebra.outer(X((2, 3)), X(3)), ShapeError, "x1 has rank 2"),
    "norm of ints": (lambda: linear_algebra.vector_norm([1, 2]), DTypeError, "int64"),
    "norm": (lambda: linear_algebra.matrix_norm(X((2, 2)), ord=7), ArgumentError, "ord = 7"),
    "nothing": (lambda: linear_algebra.matrix_norm(X((0, 2)), ord=1), ShapeError, "no elements"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_said(name: str) -> None:
    call, error, text = WRONG[name]
    with pytest.raises(error, match=text):
        call()


def test_results_own_their_memory() -> None:
    for dims in ((2, 3), (3, 1), (1, 1)):
        x = Tensor.from_numpy(np.ones(dims))
        linear_algebra.matrix_transpose(x).numpy()[:] = 5
        linear_algebra.einsum("ij->ij", x).numpy()[:] = 5
        assert np.all(x.plain() == 1)
