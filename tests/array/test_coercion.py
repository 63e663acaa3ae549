"""Python numbers and lists have one type wherever they are given, and that of the tensor beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tazza.array as ta
from tazza.array.coercion import values_beside, values_of
from tazza.errors import DTypeError, ShapeError
from tazza.tensor import DataType

TAKERS: dict[str, Callable[[Any], DataType]] = {
    "asarray": lambda one: ta.asarray([one]).dtype,
    "gemm": lambda one: ta.gemm([[one]], [[one]]).dtype,
    "matmul": lambda one: ta.einsum("i,i->i", [one], [one]).dtype,
    "CSR": lambda one: ta.CSR.from_dense([[one]]).dtype,
    "COO": lambda one: ta.COO((1, 1), [0], [0], [one]).dtype,
    "values_of": lambda one: DataType.of(values_of([one]).dtype),
}


@pytest.mark.parametrize("taker", TAKERS)
def test_lists_have_one_type_everywhere(taker: str) -> None:
    assert TAKERS[taker](1.0) is DataType.FLOAT
    assert TAKERS[taker](1) is DataType.INT64


@pytest.mark.parametrize("dtype", [DataType.INT64, DataType.INT8, DataType.FLOAT, DataType.DOUBLE, DataType.BFLOAT16])
def test_lists_take_the_type_of_the_tensor_beside_them(dtype: DataType) -> None:
    x = ta.ones((2, 3), dtype=dtype)
    found = ta.add_row(x, [10, 20, 30])
    assert (found.dtype, found.tolist()) == (dtype, [[11, 21, 31]] * 2)
    assert ta.gemv(x, [1, 2, 3]).tolist() == [6, 6]
    assert ta.gemm([[1, 2]], x).dtype is dtype


def test_what_does_not_fit_beside_a_tensor() -> None:
    with pytest.raises(DTypeError, match="1 to 300 do not fit into int8"):
        ta.add_row(ta.ones((2, 2), dtype="int8"), [1, 300])
    with pytest.raises(DTypeError, match="A is int64, x is float"):
        ta.add_row(ta.ones((2, 2), dtype="int64"), [0.5, 1])
    with pytest.raises(ShapeError, match="nested lists are no array"):
        ta.gemm([[1.0, 2.0], [3.0]], [[1.0]])
    assert values_beside([True], np.ones(1, np.int8)).dtype == np.int8
    assert values_beside([1], np.ones(1, np.bool_)).dtype == np.int64


def test_a_tensor_is_compared_with_a_list() -> None:
    x = ta.asarray(np.arange(3))
    assert (x == [0, 5, 2]).tolist() == [True, False, True]
    assert (x != (0, 5, 2)).tolist() == [False, True, False]
    assert (ta.asarray([0.1, 2], dtype=np.float32) == [0.1, 3]).tolist() == [True, False]
    with pytest.raises(ShapeError):
        assert x == [0, 1]
    assert (x == None) is False  # noqa: E711 - what Python says of unlike things
