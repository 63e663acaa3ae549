"""Formulas of integers and bools: what NumPy computes, in each type; what has no such type is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.codegen.kernel import unavailable
from tazza.codegen.whole import Whole, whole
from tazza.engines.native.pointwise import kernel_address
from tazza.runtime.native import call_native
from tazza.tensor import DataType
from tazza.tensor.expression import Expression


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a / b", "div of int32 is not compiled"),
        ("a * 0.5", "0.5 is no int32"),
        ("a + 4294967296", "4.29497e+09 is no int32"),
        ("where(a, a, b)", "the condition of where is no bool"),
        ("a + (a < b)", "add of bool and int32 is not compiled"),
        ("2", "it is a number alone"),
        ("1 + 2", "add of numbers alone is not compiled"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    assert whole(Expression.parse(text), dict.fromkeys("ab", DataType.INT32)) == reason


def test_one_number_has_the_type_of_what_it_meets() -> None:
    found = whole(Expression.parse("where(a == 1, b, 1)"), {"a": DataType.UINT8, "b": DataType.INT64})
    assert isinstance(found, Whole)
    assert found.dtype is DataType.INT64
    assert set(found.numbers.values()) == {(DataType.UINT8, 1), (DataType.INT64, 1)}


@pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))
@pytest.mark.parametrize("kind", ["uint8", "int8", "int16", "int32", "int64", "bool"])
def test_computed_as_in_numpy(kind: str) -> None:
    dtype, random = DataType.of(np.dtype(kind)), np.random.default_rng(5)
    a, b = (random.integers(-1000, 1000, 199).astype(kind) for _ in range(2))
    for text, wanted in (
        ("bit_xor(a0, bit_not(a1))", a ^ ~b),
        ("max(a0, a1)", np.maximum(a, b)),
        ("where(a0 < a1, a1, 1)", np.where(a < b, b, np.ones((), kind))),
    ):
        address = kernel_address([Expression.parse(text)], [(dtype, True)] * 2, [dtype])
        found = np.zeros(len(a) + 1, kind)
        block = np.array([1, 1, len(a), 0, *(one.ctypes.data for one in (a, b, found))], np.int64)
        assert call_native(address, block.ctypes.data, 0, 0, 0, threads=1) == 0
        np.testing.assert_array_equal(found, [*wanted, 0])
