"""New tensors: from values, filled, in sequence; what is shared and what is copied."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tazza.array as ta
from tazza.errors import ArgumentError, DTypeError, NotFoundError, OutOfMemoryError, ShapeError, UnavailableError
from tests.arrays import NUMBERS, Pair, assert_same, pairs, shapes


@given(st.sampled_from(NUMBERS), shapes(), st.booleans())
@settings(max_examples=60)
def test_filled(dtype: ta.DataType, shape: tuple[int, ...], value: bool) -> None:
    assert_same(ta.full(shape, value, dtype=dtype), np.full(shape, value, dtype.numpy))
    assert_same(ta.zeros(shape, dtype=dtype), np.zeros(shape, dtype.numpy))
    assert_same(ta.ones_like(ta.empty(shape, dtype=dtype)), np.ones(shape, dtype.numpy))
    assert ta.empty_like(ta.empty(shape, dtype=dtype, device="pinned")).place == ta.PinnedPlace()


@given(pairs(), st.sampled_from(NUMBERS))
@settings(max_examples=100)
def test_conversion(pair: Pair, dtype: ta.DataType) -> None:
    x = pair.tensor
    found = x.astype(dtype)
    with np.errstate(all="ignore"):
        assert_same(found, pair.array.astype(dtype.numpy))
    assert not ta.shares_memory(found, x)
    assert (ta.asarray(x, dtype=dtype) is x) == (dtype is x.dtype)
    assert_same(ta.array(x), pair.array)
    assert not ta.shares_memory(ta.array(x), x)
    assert x.to_device("cpu") is x
    pair.check()


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (3, "int64"),
        (2.5, "float32"),
        (True, "bool"),
        ([[1, 2.5], [3, 4]], "float32"),
        ([], "float32"),
        ([True, 2], "int64"),
        (b"text", "string"),
        ([b"a\0", "\u00e8".encode()], "string"),
        (np.float64(3), "float64"),
        (np.arange(3, dtype=">i2"), "int16"),
        (np.ones(2, ml_dtypes.bfloat16), "bfloat16"),
        (2**53 + 1, "int64"),
    ],
)
def test_values(value: Any, dtype: str) -> None:
    x = ta.asarray(value)
    assert x.dtype.label == dtype
    assert x.tolist() == (value.tolist() if isinstance(value, np.ndarray | np.generic) else value)


@given(pairs())
@settings(max_examples=20)
def test_pickled_and_copied(pair: Pair) -> None:
    for found in (pickle.loads(pickle.dumps(pair.tensor)), copy.copy(pair.tensor), copy.deepcopy(pair.tensor)):
        assert_same(found, pair.array)
        assert not ta.shares_memory(found, pair.tensor)


def test_sharing() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    for shared in (ta.asarray(array), ta.asarray(array.T, copy=False)):
        assert shared.address == array.ctypes.data
        assert shared.storage.escaped
    assert ta.asarray(array, copy=True).address != array.ctypes.data
    assert ta.asarray([ta.ones(2), ta.zeros(2)]).tolist() == [[1, 1], [0, 0]]
    x = ta.asarray(array)
    assert ta.asarray(x) is x
    with pytest.raises(ArgumentError, match="only as a copy"):
        ta.asarray(x, dtype="int32", copy=False)
    with pytest.raises(ArgumentError, match="no memory to share"):
        ta.asarray([1], copy=False)


@given(
    st.integers(-9, 9) | st.floats(-9, 9), st.integers(-9, 9) | st.none(), st.sampled_from([-3, -0.5, 0.25, 1, 2, 2.5])
)
@settings(max_examples=60)
def test_arange(start: float, stop: float | None, step: float) -> None:
    expected = np.arange(0 if stop is None else start, start if stop is None else stop, step)
    found = ta.arange(start, stop, step)
    assert found.dtype is (ta.int64 if expected.dtype.kind == "i" else ta.float32)
    np.testing.assert_allclose(found.plain(), expected.astype(found.dtype.numpy), 1e-6, 1e-6)


@given(st.integers(0, 6), st.integers(0, 6) | st.none(), st.integers(-8, 8))
@settings(max_examples=60)
def test_matrices(n: int, m: int | None, k: int) -> None:
    assert_same(ta.eye(n, m, k=k, dtype="int16"), np.eye(n, m, k, dtype=np.int16))
    x = ta.ones((2, n, n if m is None else m))
    assert_same(ta.tril(x, k=k), np.tril(x.plain(), k))
    assert_same(ta.triu(x, k=k), np.triu(x.plain(), k))


def test_linspace_and_meshgrid() -> None:
    assert_same(ta.linspace(-1, 3, 7), np.linspace(-1, 3, 7, dtype=np.float32))
    assert_same(ta.linspace(-1, 3, 7, endpoint=False), np.linspace(-1, 3, 7, endpoint=False, dtype=np.float32))
    lines = [np.arange(n, dtype=np.int32) for n in (2, 3, 5)]
    for indexing in ("xy", "ij"):
        expected = np.meshgrid(*lines, indexing=indexing)  # pyright: ignore[reportArgumentType, reportCallIssue] - a literal in the stub
        for mine, theirs in zip(ta.meshgrid(*map(ta.asarray, lines), indexing=indexing), expected, strict=True):
            assert_same(mine, theirs)


WRONG: Any = object()


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda: ta.zeros((2, -1)), ShapeError),
        (lambda: ta.zeros(2, dtype="complex64"), DTypeError),
        (lambda: ta.zeros(2, device="moon"), NotFoundError),
        (lambda: ta.ones(2).to_device(ta.CUDAPlace(0)), UnavailableError),
        (lambda: ta.full(2, 300, dtype="uint8"), DTypeError),
        (lambda: ta.full(2, 2.5, dtype="int32"), DTypeError),
        (lambda: ta.full(2, WRONG), DTypeError),
        (lambda: ta.asarray([1, 300], dtype="int8"), DTypeError),
        (lambda: ta.asarray([[1], [2, 3]]), ShapeError),
        (lambda: ta.asarray(1j), DTypeError),
        (lambda: ta.asarray(WRONG), DTypeError),
        (lambda: ta.asarray(["a"]).astype("float32"), DTypeError),
        (lambda: ta.arange(0, 1, 0), ArgumentError),
        (lambda: ta.arange(float("inf")), ArgumentError),
        (lambda: ta.arange(float("nan")), ArgumentError),
        (lambda: ta.arange(0, 1, float("nan")), ArgumentError),
        (lambda: ta.arange(2**70), ShapeError),
        (lambda: ta.arange(2**70, 2**70 + 3), DTypeError),
        (lambda: ta.arange(1e300), ShapeError),
        (lambda: ta.arange(2**50), OutOfMemoryError),
        (lambda: ta.zeros((2**62, 2**62, 0)), ShapeError),
        (lambda: ta.empty((1,) * 65), ShapeError),
        (lambda: ta.linspace(0, 1, -1), ShapeError),
        (lambda: ta.tril(ta.zeros(3)), ShapeError),
        (lambda: ta.meshgrid(ta.zeros((2, 3))), ShapeError),
        (lambda: ta.meshgrid(ta.zeros(2), ta.arange(3)), DTypeError),
        (lambda: ta.meshgrid(ta.zeros(2), indexing="yx"), ArgumentError),
    ],
)
def test_what_does_not_fit(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        wrong()
