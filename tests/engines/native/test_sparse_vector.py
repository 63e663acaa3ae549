"""The product with one vector: rows of every length in blocks, sums of lanes, and what others spoil meanwhile."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.codegen.kernel import lane_count, unavailable
from tazza.codegen.loop import lanes_of
from tazza.codegen.term import Lines
from tazza.codegen.vector import Vector
from tazza.engines.native.sparse_product import BLOCK, finish
from tazza.engines.native.sparse_vector import HELD, sums_of_lanes, write_gathered
from tazza.runtime.native import call_native
from tazza.tensor import DataType
from tests.launching import kernel_of, pointer_at, run_kernel

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
C = 37


def run(starts: Array, columns: Array, values: Array, x: Array, threads: int = 1) -> tuple[int, Array]:
    """Return the status and Y, one number for each row and one behind that stays."""
    dtype, bits, R = DataType.of(values.dtype), 8 * columns.itemsize, len(starts) - 1
    address = kernel_of(f"sparse vectors: {dtype} {bits}", lambda lines: write_gathered(lines, dtype, bits), finish)
    Y = np.full(R + 1, -7, values.dtype)
    arrays = {"starts": starts, "columns": columns, "values": values, "D": x, "Y": Y}
    numbers = {"threads": threads, "R": R, "C": C, "Z": len(values), "N": 1, "D_pitch": 1, "Y_pitch": 1, "scratch": 0}
    words = BLOCK.words(**numbers, **{name: one.ctypes.data for name, one in arrays.items()})
    block = (ctypes.c_int64 * len(BLOCK))(*words)
    status = call_native(address, ctypes.addressof(block), threads=threads)
    assert Y[R] == -7, "it wrote behind Y"
    return status, Y[:R]


def drawn(lengths: list[int], dtype: Any = np.float32, index: Any = np.int32) -> tuple[Array, Array, Array, Array]:
    """Return starts, columns, values and x of whole numbers, whose sums are exact."""
    random = np.random.default_rng(len(lengths))
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(index)
    columns = random.integers(0, C, sum(lengths)).astype(index)
    values, x = (random.integers(-9, 10, count).astype(dtype) for count in (sum(lengths), C))
    return starts, columns, values, x


def expected(starts: Array, columns: Array, values: Array, x: Array) -> Array:
    products = values.astype(float) * x[columns]
    return np.array([products[a:b].sum() for a, b in itertools.pairwise(starts)])


LENGTH = st.one_of(st.integers(0, 40), st.sampled_from([0, HELD - 1, HELD, HELD + 1, 2 * HELD + 3]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dtype", "index"), [(np.float32, np.int32), (np.float32, np.int64), (np.float64, np.int32), (np.float64, np.int64)]
)
@settings(max_examples=40)
@given(st.lists(LENGTH, min_size=1, max_size=30), st.integers(1, 3))
def test_rows_of_every_length(dtype: Any, index: Any, lengths: list[int], threads: int) -> None:
    """Short ones together, up to what is held at once, long ones in pieces; threads share them by their elements."""
    given = drawn(lengths, dtype, index)
    status, Y = run(*given, threads=threads)
    assert status == 0
    np.testing.assert_array_equal(Y, expected(*given))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("at", "column"), [(0, C), (5, -1), (12, 2**31 - 1), (HELD + 40, C), (-1, -(2**31))])
def test_columns_that_are_none(at: int, column: int, threads: int) -> None:
    starts, columns, values, x = drawn([3, 0, 9, 4, HELD + 77, 2, 1])
    columns[at] = column
    assert run(starts, columns, values, x, threads)[0] == 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("at", "start"), [(0, -1), (2, 1), (3, 2**31 - 1), (5, 0), (-1, 2**31 - 1)])
def test_starts_that_are_none(at: int, start: int, threads: int) -> None:
    starts, columns, values, x = drawn([3, 0, 9, 4, HELD + 77, 2, 1])
    starts[at] = start
    assert run(starts, columns, values, x, threads)[0] == 1


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("share", [1, 2, 4])
def test_lanes_of_several_vectors_are_summed_up_together(bits: int, share: int) -> None:
    """Every sum has the same order: it does not depend on its place among the vectors."""
    L, dtype = lane_count(bits), DataType.FLOAT if bits == 32 else DataType.DOUBLE
    count = L // share
    if count == 0:
        pytest.skip("vectors have fewer lanes")
    one = np.random.default_rng(5).standard_normal(L).astype(dtype.numpy)
    X, Y = np.stack([one * 2.0**k for k in range(count)]).astype(dtype.numpy), np.full(count, np.nan, dtype.numpy)

    def work(lines: Lines) -> None:
        v = lanes_of(lines, dtype)
        source, target = (pointer_at(lines, word) for word in (1, 2))
        found = sums_of_lanes(v, [v.load(source, k * L, None) for k in range(count)])
        Vector(lines, count, dtype).store(found, target, 0, None)

    run_kernel(f"sparse: sums of lanes {bits} {share}", work, 1, X.ctypes.data, Y.ctypes.data)
    np.testing.assert_allclose(Y[0], one.sum(dtype=float), rtol=1e-5)
    np.testing.assert_array_equal(Y, Y[0] * 2.0 ** np.arange(count))
