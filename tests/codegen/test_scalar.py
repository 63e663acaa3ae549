"""Numbers of which a run of a kernel has one each: in float64, of operands of any type."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.block import Slot
from tazza.codegen.kernel import compiled, unavailable
from tazza.codegen.loop import lanes_of
from tazza.codegen.scalar import Scalars
from tazza.codegen.term import Lines
from tazza.runtime.native import call_native
from tazza.tensor import DataType
from tazza.tensor.expression import Expression
from tests.launching import pointer_at

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]


def scalars(text: str, **operands: DataType) -> Scalars:
    return Scalars({"s": Expression.parse(text)}, tuple((name, Slot(name), dtype) for name, dtype in operands.items()))


def computed(given: Scalars, *operands: Array, bits: int = 32) -> float:
    """Return the first lane of the one number."""
    dtype = DataType.FLOAT if bits == 32 else DataType.DOUBLE
    result = np.zeros(64, dtype.numpy)

    def write(lines: Lines) -> None:
        v = lanes_of(lines, dtype)
        v.store(given.write(v, 2)["s"], pointer_at(lines, 1), 0, None)

    address = compiled(f"scalars of a test {given} {bits}", write)
    block = np.array([1, result.ctypes.data, *(one.ctypes.data for one in operands)], np.int64)
    call_native(address, block.ctypes.data, threads=1)
    return float(result[0])


def test_whole_numbers_and_powers_in_float64() -> None:
    one = scalars("1 - pow(beta, t + 1)", t=DataType.INT64, beta=DataType.FLOAT)
    beta = np.array([0.999], np.float32)
    for t in (0, 1, 1_000_000):
        wanted = 1 - float(beta[0]) ** (t + 1)
        assert computed(one, np.array([t]), beta, bits=64) == pytest.approx(wanted, rel=1e-15)
        assert computed(one, np.array([t]), beta) == np.float32(wanted)


def test_equal_ones_are_told_alike() -> None:
    first, second = (
        scalars("a + b", a=DataType.INT32, b=DataType.DOUBLE),
        scalars("x + y", x=DataType.INT32, y=DataType.DOUBLE),
    )
    assert str(first.renamed()) == str(second.renamed())
    assert first.names == {"a", "b"}
    assert first.words == (Slot("a"), Slot("b"))


def test_other_types_are_told() -> None:
    assert scalars("a", a=DataType.INT64).unsupported is None
    assert scalars("a", a=DataType.UINT8).unsupported == "a is uint8, which is no number of a formula"
