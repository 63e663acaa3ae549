"""Kernels of sparse products alone: each form against NumPy, the loops and turns within, and broken indices."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.codegen.kernel import lane_count, unavailable
from tazza.codegen.loop import lanes_of
from tazza.codegen.term import Lines, Term
from tazza.engines.native.sparse_product import (
    BLOCK,
    TILE,
    exchanged,
    finish,
    halved,
    tile_floats,
    tiles,
    transposed,
    write_from_left,
    write_rows,
    write_scattered,
    write_transposed,
)
from tazza.runtime.native import call_native
from tazza.tensor import DataType
from tests.launching import kernel_of, pointer_at, run_kernel, word_at

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
Write = Callable[[Lines, DataType, int], None]
R, C = 9, 13
LENGTHS = (2, 0, 7, 1, 0, 13, 4, 5, 0)
Z = sum(LENGTHS)


def matrix(index: Any) -> tuple[Array, Array, Array, Array]:
    """Return starts, columns and values of a sparse matrix with elements that repeat, and the matrix itself."""
    random = np.random.default_rng(1)
    starts: Array = np.concatenate([[0], np.cumsum(LENGTHS)]).astype(index)
    columns: Array = random.integers(0, C, Z).astype(index)
    values = random.standard_normal(Z)
    dense = np.zeros((R, C))
    np.add.at(dense, (np.repeat(np.arange(R), LENGTHS), columns), values)
    return starts, columns, values, dense


def status_of(write: Write, dtype: DataType, arrays: dict[str, Array], N: int, threads: int, scratch: int = 0) -> int:
    """Run a kernel, and return its status; D and Y have rows of their own pitch."""
    starts, columns, values, D, Y = (arrays[name] for name in ("starts", "columns", "values", "D", "Y"))
    bits = 8 * columns.itemsize
    name = f"sparse products: {write.__name__} {dtype} {bits}"
    address = kernel_of(name, lambda lines: write(lines, dtype, bits), finish)
    room = np.full(scratch + 1, np.nan, dtype.numpy)
    pitches = [one.strides[0] // one.itemsize for one in (D, Y)]
    numbers = {"threads": threads, "R": R, "C": C, "Z": Z, "N": N, "D_pitch": pitches[0], "Y_pitch": pitches[1]}
    arrays = {"starts": starts, "columns": columns, "values": values, "D": D, "Y": Y, "scratch": room}
    words = BLOCK.words(**numbers, **{name: one.ctypes.data for name, one in arrays.items()})
    block = (ctypes.c_int64 * len(BLOCK))(*words)
    found = call_native(address, ctypes.addressof(block), threads=threads)
    assert np.isnan(room[scratch:]).all(), "it wrote behind its scratch memory"
    return found


def wide(rows: int, columns: int, dtype: DataType, value: float | None = None) -> Array:
    """Return a matrix with something between its rows: numbers, or all of one value."""
    memory = np.random.default_rng(rows).standard_normal((rows, columns + 5)).astype(dtype.numpy)
    if value is not None:
        memory[...] = value
    return memory[:, :columns]


def assert_close(found: Array, expected: Array, dtype: DataType) -> None:
    tolerance = 1e-5 if dtype is DataType.FLOAT else 1e-12
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


TYPES = pytest.mark.parametrize(
    ("dtype", "index"), [(DataType.FLOAT, np.int32), (DataType.FLOAT, np.int64), (DataType.DOUBLE, np.int32)]
)


@pytest.mark.slow
@TYPES
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("N", [1, 7, 150])
@pytest.mark.parametrize("write", [write_rows, write_transposed, write_from_left], ids=lambda one: one.__name__)
def test_products(write: Write, N: int, threads: int, dtype: DataType, index: Any) -> None:
    """Whole tiles of n, halves of them and a masked rest; nothing is written between the rows of Y."""
    starts, columns, values, S = matrix(index)
    given, left, sides = wide(R, N, dtype), wide(N, R, dtype), R + C + 2 * (tile_floats(dtype) // TILE)
    D, right, scratch = {
        "write_rows": (other := wide(C, N, dtype), S @ other, 0),
        "write_transposed": (given, S.T @ given, 0),
        "write_from_left": (left, left @ S, threads * sides * tile_floats(dtype)),
    }[write.__name__]
    Y = wide(len(right), right.shape[1], dtype, 7)
    arrays = {"starts": starts, "columns": columns, "values": values.astype(dtype.numpy), "D": D, "Y": Y}
    assert status_of(write, dtype, arrays, N, threads, scratch) == 0
    assert_close(Y, right, dtype)
    assert Y.base is not None
    assert (np.asarray(Y.base)[:, Y.shape[1] :] == 7).all()


@TYPES
def test_one_vector_element_by_element(dtype: DataType, index: Any) -> None:
    starts, columns, values, S = matrix(index)
    D, Y = np.arange(1, R + 1, dtype=dtype.numpy), np.full(C, 7, dtype.numpy)
    arrays = {"starts": starts, "columns": columns, "values": values.astype(dtype.numpy), "D": D, "Y": Y}
    assert status_of(write_scattered, dtype, arrays, 1, 1) == 0
    assert_close(Y, S.T @ D, dtype)


BREAKS = {
    "a column too large": ("columns", 11, C),
    "a negative column": ("columns", 0, -1),
    "a start behind the end": ("starts", R, Z + 1),
    "starts that fall": ("starts", 3, 12),
    "a negative start": ("starts", 0, -2),
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("what", BREAKS)
@pytest.mark.parametrize("write", [write_rows, write_transposed], ids=lambda one: one.__name__)
def test_broken_indices_give_a_status(write: Write, what: str, threads: int) -> None:
    starts, columns, values, _ = matrix(np.int64)
    name, at, value = BREAKS[what]
    {"starts": starts, "columns": columns}[name][at] = value
    N = lane_count() + 1
    rows = (C, R) if write is write_rows else (R, C)
    D, Y = (wide(count, N, DataType.FLOAT) for count in rows)
    arrays = {"starts": starts, "columns": columns, "values": values.astype(np.float32), "D": D, "Y": Y}
    assert status_of(write, DataType.FLOAT, arrays, N, threads) == 1


# -- what kernels are made of ------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(-1, 60))
def test_halving_finds_the_first_that_is_enough(steps: list[int], wanted: int) -> None:
    table = np.cumsum([0, *steps]).astype(np.int64)
    found = np.zeros(1, np.int64)

    def work(lines: Lines) -> None:
        count, work = (word_at(lines, word) for word in (1, 2))
        values, out = (pointer_at(lines, word).of("i64") for word in (3, 4))
        out.store(halved(lines, count, work, lambda i: values[i]))

    run_kernel("sparse: halved", work, 1, len(steps), wanted, table.ctypes.data, found.ctypes.data)
    assert found[0] == int(np.searchsorted(table[: len(steps)], wanted))


@pytest.mark.parametrize("extent", [0, 1, 16, 63, 64, 200, 243])
@pytest.mark.parametrize("rest", [False, True])
def test_tiles_cover_everything_once(extent: int, rest: bool) -> None:
    """The widest ones, then halves, then a masked one; without a rest only whole vectors."""
    marks = np.zeros(300, np.float32)

    def work(lines: Lines) -> None:
        v, end, out = lanes_of(lines), word_at(lines, 1), pointer_at(lines, 2)

        def tile(n: Term, vectors: int, mask: Term | None) -> None:
            at = out.at(n)
            for q in range(vectors):
                v.store(v.load(at, q * v.count, mask) + 1.0, at, q * v.count, mask)

        tiles(v, 3, end, TILE, tile, rest=rest)

    run_kernel(f"sparse: tiles {rest}", work, 1, 3 + extent, marks.ctypes.data)
    whole = extent if rest else extent // lane_count() * lane_count()
    right = np.zeros(300)
    right[3 : 3 + whole] = 1
    np.testing.assert_array_equal(marks, right)


@pytest.mark.parametrize("bits", [32, 64])
def test_squares_are_turned(bits: int) -> None:
    L, dtype = lane_count(bits), DataType.FLOAT if bits == 32 else DataType.DOUBLE
    X, Y = np.arange(L * L, dtype=dtype.numpy).reshape(L, L), np.zeros((L, L), dtype.numpy)

    def work(lines: Lines) -> None:
        v = lanes_of(lines, dtype)
        source, target = (pointer_at(lines, word) for word in (1, 2))
        rows = [v.load(source, i * L, None) for i in range(L)]
        for i, column in enumerate(transposed(v, rows)):
            v.store(column, target, i * L, None)

    run_kernel(f"sparse: turned {bits}", work, 1, X.ctypes.data, Y.ctypes.data)
    np.testing.assert_array_equal(Y, X.T)


def test_lanes_change_places() -> None:
    L = lane_count()
    X, Y = np.arange(2 * L, dtype=np.float32), np.zeros((L.bit_length() - 1, 2, L), np.float32)

    def work(lines: Lines) -> None:
        v = lanes_of(lines)
        source, target = (pointer_at(lines, word) for word in (1, 2))
        pair = [v.load(source, i * L, None) for i in range(2)]
        for k in range(len(Y)):
            for half, one in enumerate(exchanged(v, pair[0], pair[1], 1 << k)):
                v.store(one, target, (2 * k + half) * L, None)

    run_kernel("sparse: exchanged", work, 1, X.ctypes.data, Y.ctypes.data)
    for k, (a, b) in enumerate(Y):
        step = 1 << k
        right = X.reshape(2, L).copy()
        for i in range(L):
            if not i & step:
                right[0, i + step], right[1, i] = X[L + i], X[i + step]
        np.testing.assert_array_equal((a, b), right)
