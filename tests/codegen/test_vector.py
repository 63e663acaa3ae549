"""Vectors: each piece of arithmetic is compiled alone, and run, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.kernel import lane_count, unavailable
from tazza.codegen.loop import lanes_below
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.tensor import DataType
from tests.launching import pointer_at, run_kernel, word_at

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
Write = Callable[[Vector, Term, Term], Term]
NAN = float("nan")


def numbers(count: int, dtype: type) -> tuple[Array, Array]:
    """Return two vectors of unlike numbers, some of them 0, infinite or none."""
    random = np.random.default_rng(count)
    drawn: list[Array] = [random.standard_normal(count).astype(dtype) * 3 for _ in range(2)]
    a, b = drawn
    a[:3], b[1:4] = (0.0, NAN, np.inf), (-0.0, 2.5, NAN)
    return a, b


def floats(bits: int) -> DataType:
    """Return the floating type of so many bits."""
    return DataType.FLOAT if bits == 32 else DataType.DOUBLE


def computed(name: str, write: Write, bits: int = 32) -> tuple[Array, Array, Array]:
    """Return two vectors, and what a kernel makes of them."""
    count, dtype = lane_count() * 32 // bits, np.float32 if bits == 32 else np.float64
    a, b = numbers(count, dtype)
    result = np.full(count, -1, dtype)

    def work(lines: Lines) -> None:
        v = Vector(lines, count, floats(bits))
        pointers = [pointer_at(lines, word) for word in (1, 2, 3)]
        loaded = [one.of(v.type).load(4) for one in pointers[:2]]
        lines.do(f"store {v.type} {write(v, *loaded)}, ptr {pointers[2]}, align 4")

    run_kernel(f"vectors: {name} {bits}", work, 1, *(x.ctypes.data for x in (a, b, result)))
    return a, b, result


ARITHMETIC: dict[str, tuple[Write, Callable[[Array, Array], Array]]] = {
    "add": (lambda v, a, b: a + b, np.add),
    "sub": (lambda v, a, b: a - b, np.subtract),
    "mul": (lambda v, a, b: a * b, np.multiply),
    "div": (lambda v, a, b: a / b, np.divide),
    "neg": (lambda v, a, b: -a, lambda a, b: -a),
    "constant": (lambda v, a, b: a + 0.1, lambda a, b: a + a.dtype.type(0.1)),
    "fabs": (lambda v, a, b: abs(a), lambda a, b: np.abs(a)),
    "ceiling": (lambda v, a, b: a.at_most(1.5), lambda a, b: np.where(a > 1.5, a.dtype.type(1.5), a)),
    "floor_at": (lambda v, a, b: a.at_least(-1.5), lambda a, b: np.where(a < -1.5, a.dtype.type(-1.5), a)),
    "copy_sign": (lambda v, a, b: a.copy_sign(b), np.copysign),
    "select": (lambda v, a, b: (a < b).choose(a, b), lambda a, b: np.where(a < b, a, b)),
    "bits": (lambda v, a, b: a.as_bits().as_floats(), lambda a, b: a),
    "whole": (
        lambda v, a, b: (a.as_bits() & ((1 << (v.bits - 1)) - 1)).as_floats(),
        lambda a, b: np.abs(a),
    ),
}


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_arithmetic(name: str, bits: int) -> None:
    write, expected = ARITHMETIC[name]
    with np.errstate(all="ignore"):
        a, b, result = computed(name, write, bits)
        np.testing.assert_array_equal(result, expected(a, b))


@pytest.mark.parametrize("bits", [32, 64])
def test_polynomial(bits: int) -> None:
    """By Horner's rule; with products that are rounded once the last bit may differ."""
    a, _, result = computed("polynomial", lambda v, a, b: a.polynomial((1.0, -2.0, 0.5)), bits)
    known = np.isfinite(a)
    a = a[known]
    np.testing.assert_allclose(result[known], 1 - 2 * a + 0.5 * a * a, rtol=1e-5 if bits == 32 else 1e-13)


@pytest.mark.parametrize("bits", [32, 64])
def test_lanes_are_joined_half_by_half(bits: int) -> None:
    """So the order of a sum is fixed: that of its two halves, lane by lane; what is no number is left out here."""

    def joined(v: Vector, a: Term, b: Term) -> Term:
        finite = (abs(b) < 1e6).choose(b, 0.0)
        return v.full(finite.sum()) - v.full(finite.largest())

    _, b, result = computed("joined", joined, bits)
    b[~np.isfinite(b)] = 0
    total = b
    while total.size > 1:
        total = total[: total.size // 2] + total[total.size // 2 :]
    np.testing.assert_array_equal(result, np.broadcast_to(total - b.max(), result.shape))


def test_functions_of_libm_lane_by_lane_and_only_where_they_are_needed() -> None:
    a, b, result = computed("each", lambda v, a, b: abs(a).each("powf", b))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result, np.power(np.abs(a), b), rtol=1e-6)
    a, _, result = computed("rare", lambda v, a, b: (a > 1.0).rarely(lambda: a.each("sinf"), v.constant(7.0)))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(result, np.where(a > 1, np.sin(a), 7), rtol=1e-6)


def test_texts_of_lines() -> None:
    lines = Lines()
    lines.label("entry")
    assert str(lines.number(1) + 2) == "%v1"
    lines.declare("void @f()")
    lines.declare("void @f()")
    lines.do("ret void")
    assert lines.fresh("x") == "x2"
    assert lines.text("void @g()", "#0") == "define void @g() #0 {\nentry:\n  %v1 = add i64 1, 2\n  ret void\n}"
    assert list(lines.declared) == ["declare void @f()"]


def test_lanes_in_another_order_and_of_two_vectors() -> None:
    """The lanes of one vector backwards, then those of both in turn, then one lane for all."""
    count = lane_count()

    def reversed_(v: Vector, a: Term, b: Term) -> Term:
        return a.shuffle(reversed(range(count)))

    def in_turn(v: Vector, a: Term, b: Term) -> Term:
        return a.shuffle((k // 2 + k % 2 * count for k in range(count)), b)

    a, b, found = computed("backwards", reversed_)
    np.testing.assert_array_equal(found, a[::-1])
    a, b, found = computed("in turn", in_turn)
    np.testing.assert_array_equal(found, np.stack([a, b], 1).ravel()[:count])
    a, b, found = computed("full", lambda v, a, b: v.full(b.lane(4)))
    np.testing.assert_array_equal(found, np.full(count, b[4]))


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [
        *((one, 32) for one in (DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16)),
        *((one, 64) for one in (DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16)),
    ],
)
def test_memory_of_another_type(dtype: DataType, bits: int) -> None:
    """Two masked elements, as they are stored, come back from memory; what is not there is what was asked for."""
    count = lane_count(bits)
    X = np.arange(1, 5).astype(dtype.numpy)
    Y, Z = np.zeros(4, dtype.numpy), np.zeros(count, np.float32 if bits == 32 else np.float64)

    def work(lines: Lines) -> None:
        v = Vector(lines, count, floats(bits))
        x, y, z = (pointer_at(lines, word) for word in (1, 2, 3))
        mask = lanes_below(v, 2)
        found = v.load(x, 1, mask, v.constant(-7.0), dtype=dtype)
        v.store(found, y, 1, mask, dtype=dtype)
        v.store(found + v.load_one(x, dtype=dtype), z, 0, None)

    run_kernel(f"memory: {dtype} {bits}", work, 1, *(one.ctypes.data for one in (X, Y, Z)))
    assert Y.astype(np.float32).tolist() == [0, 2, 3, 0]
    assert Z.tolist() == [3, 4, *[-6] * (count - 2)]


def test_the_smaller_and_the_larger_word_and_whether_any_lane_is_set() -> None:
    found = np.zeros(4, np.int64)

    def work(lines: Lines) -> None:
        v, a = Vector(lines, lane_count()), word_at(lines, 1)
        some = (lanes_below(v, count).any() for count in (0, 1))
        values = (a.at_most(7), a.at_least(7), *(one.to_unsigned("i64") for one in some))
        for k, value in enumerate(values):
            at = pointer_at(lines, 2).of("i64").at(k)
            at.of("i64").store(value)

    run_kernel("words: least and most", work, 1, -5, found.ctypes.data)
    assert found.tolist() == [-5, 7, 0, 1]


@pytest.mark.parametrize("dtype", [DataType.UINT8, DataType.INT16, DataType.INT32, DataType.INT64], ids=str)
def test_integers_have_the_arithmetic_of_floats(dtype: DataType) -> None:
    """What both have is asked for by one name; integers wrap around, and what is not there is what was asked for."""
    X = np.arange(-2, 2).astype(dtype.numpy)
    Y = np.zeros(4, dtype.numpy)

    def work(lines: Lines) -> None:
        v = Vector(lines, 4, dtype)
        x, y = (pointer_at(lines, word) for word in (1, 2))
        found = v.load(x, 0, Vector(lines, 4, DataType.BOOL).listed((1, 1, 1, 0)), v.constant(7))
        tripled = found * 4 - found
        v.store(found.equals(7).choose(-found, tripled + found), y, 0, None)

    run_kernel(f"vectors: {dtype} are added", work, 1, X.ctypes.data, Y.ctypes.data)
    np.testing.assert_array_equal(Y, np.array([-8, -4, 0, -7]).astype(dtype.numpy))
