"""Vectors of every element type: memory, casts and functions are compiled alone, and run, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.kernel import lane_count, unavailable
from tazza.codegen.term import Lines, Term
from tazza.codegen.typed_function import TypedEmission, folded, unsupported
from tazza.codegen.vector import MEMORY, Vector
from tazza.tensor import DataType
from tazza.tensor.expression import Expression
from tests.launching import pointer_at, run_kernel

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
TYPES = sorted(MEMORY, key=lambda dtype: dtype.label)
WHOLE = [dtype for dtype in TYPES if not dtype.is_float and dtype is not DataType.BOOL]


def numbers(dtype: DataType, count: int, seed: int = 0) -> Array:
    """Return unlike numbers of a type, negative ones where it has such, the ends of integers among them."""
    random = np.random.default_rng(seed)
    if dtype is DataType.BOOL:
        return random.random(count) < 0.5
    if dtype.is_float:
        return (random.standard_normal(count) * 40).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    found = random.integers(max(limits.min, -100), 100, count).astype(dtype.numpy)
    found[:2] = limits.min, limits.max
    return found


def computed(name: str, source: Array, target: DataType, write: Callable[[Lines, Vector, Term], None]) -> Array:
    """Return a tensor of as many elements, with what a kernel writes to it that gets the address of `source`."""
    result = np.zeros(source.size * 2, target.numpy)

    def work(lines: Lines) -> None:
        pointer, out = (pointer_at(lines, word) for word in (1, 2))
        vector = Vector(lines, lane_count(), DataType.of(source))
        lines.do(f"; {out}")
        write(lines, vector, pointer)

    run_kernel(f"types: {name}", work, 1, source.ctypes.data, result.ctypes.data)
    return result


def out_of(lines: Lines) -> Term:
    """Return the address of the result."""
    return pointer_at(lines, 2)


def half_mask(lines: Lines) -> Term:
    """Return a mask of every lane but the last two."""
    return Vector(lines, lane_count(), DataType.BOOL).listed([1] * (lane_count() - 2) + [0] * 2)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_what_is_loaded_is_stored(dtype: DataType, masked: bool) -> None:
    L = lane_count()
    source = numbers(dtype, 2 * L)

    def write(lines: Lines, vector: Vector, pointer: Term) -> None:
        mask = half_mask(lines) if masked else None
        vector.store(vector.load(pointer, 3, mask), out_of(lines), 1, mask)

    result = computed(f"load {dtype} {masked}", source, dtype, write)
    count = L - 2 if masked else L
    np.testing.assert_array_equal(result[1 : 1 + count], source[3 : 3 + count])
    assert not result[:1].any()
    assert not result[1 + count :].any()


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_elements_apart_and_one_for_all(dtype: DataType) -> None:
    L, size = lane_count(), dtype.itemsize
    source = numbers(dtype, 4 * L)

    def write(lines: Lines, vector: Vector, pointer: Term) -> None:
        mask = half_mask(lines)
        vector.scatter(vector.gather(pointer, 1, 3 * size, None), out_of(lines), 0, 2 * size, mask)
        vector.store(vector.load_one(pointer), out_of(lines), 2 * L, None)

    result = computed(f"apart {dtype}", source, dtype, write)
    np.testing.assert_array_equal(result[: 2 * (L - 2) : 2], source[3 : 3 * (L - 1) : 3])
    assert not result[1 : 2 * L : 2].any()
    np.testing.assert_array_equal(result[2 * L : 3 * L], np.full(L, source[0]))


@pytest.mark.parametrize("target", TYPES, ids=str)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_casts_are_those_of_numpy(dtype: DataType, target: DataType) -> None:
    """Of numbers that the other type holds."""
    L = lane_count()
    source = numbers(dtype, L)
    if not target.is_float and target is not DataType.BOOL:
        limits = np.iinfo(target.numpy)
        wide = source.astype(np.float64)
        source = np.where((wide >= limits.min) & (wide <= limits.max), source, source.dtype.type(7))

    def write(lines: Lines, vector: Vector, pointer: Term) -> None:
        value = vector.converted(vector.load(pointer, 0, None), target)
        Vector(lines, vector.count, target).store(value, out_of(lines), 0, None)

    result = computed(f"cast {dtype} {target}", source, target, write)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(result[:L], source.astype(target.numpy))


@pytest.mark.parametrize("dtype", WHOLE, ids=str)
@pytest.mark.parametrize(
    "text", ["a + b", "a * b", "min(a, b)", "max(a, b)", "-a", "abs(a)", "where(a < b, a, b)", "a - b"]
)
def test_functions_of_whole_numbers(dtype: DataType, text: str) -> None:
    """They wrap around."""
    L = lane_count()
    if unsupported("neg", (dtype,)) is not None and text == "-a":
        return
    source = np.concatenate([numbers(dtype, L), numbers(dtype, L, 1)[::-1]])

    def write(lines: Lines, vector: Vector, pointer: Term) -> None:
        values = {"a": vector.load(pointer, 0, None), "b": vector.load(pointer, L, None)}
        emission = TypedEmission(lines, vector.count, values, {"a": dtype, "b": dtype})
        vector.store(emission.write(Expression.parse(text)), out_of(lines), 0, None)

    result = computed(f"function {dtype} {text}", source, dtype, write)
    a, b = source[:L], source[L:]
    named: dict[str, Any] = {"min": np.minimum, "max": np.maximum, "abs": np.abs, "where": np.where, "a": a, "b": b}
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(result[:L], eval(text, named))


@pytest.mark.parametrize("function", ["min", "max"])
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_lanes_are_folded(dtype: DataType, function: str) -> None:
    if unsupported(function, (dtype, dtype)) is not None:
        pytest.skip(f"{function} of {dtype} is not compiled")
    source = numbers(dtype, 2 * lane_count())

    def write(lines: Lines, vector: Vector, pointer: Term) -> None:
        one = folded(vector, vector.load(pointer, 0, None), function)
        Vector(lines, 1, dtype).store(one, out_of(lines), 0, None)

    result = computed(f"fold {dtype} {function}", source, dtype, write)
    assert result[0] == getattr(source[: lane_count()], function)()


def test_what_is_not_compiled_is_told() -> None:
    assert unsupported("exp", (DataType.INT32,)) == "exp of int32 is not compiled"
    assert unsupported("exp", (DataType.DOUBLE,)) is None
    assert unsupported("where", (DataType.BOOL, DataType.INT8, DataType.INT8)) is None
