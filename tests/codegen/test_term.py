"""Terms: every operator is compiled for every type that has it, and run, against NumPy; what cannot be is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.codegen.kernel import unavailable
from tazza.codegen.term import FLOAT_BITS, Lines, Term, bits_of, literal, scalar_of, short
from tazza.errors import DTypeError
from tests.launching import pointer_at, run_kernel

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

Array = NDArray[Any]
LANES = 4
INTEGERS = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64}
FLOATS = {"float": np.float32, "double": np.float64}
TYPES: dict[str, Any] = INTEGERS | FLOATS
A = [7, -3, 5, 0]
B = [2, 4, 5, 1]
Write = Callable[[Term, Term], Term]
Expected = Callable[[Array, Array], Any]
ANY: dict[str, tuple[Write, Expected]] = {
    "add": (lambda a, b: a + b, lambda a, b: a + b),
    "sub": (lambda a, b: a - b, lambda a, b: a - b),
    "mul": (lambda a, b: a * b, lambda a, b: a * b),
    "neg": (lambda a, b: -a, lambda a, b: -a),
    "a constant behind": (lambda a, b: a - 3, lambda a, b: a - a.dtype.type(3)),
    "a constant in front": (lambda a, b: 3 - a, lambda a, b: a.dtype.type(3) - a),
    "smaller": (lambda a, b: (a < b).choose(a, b), np.minimum),
    "larger or a constant": (lambda a, b: (a >= b).choose(a, 1), lambda a, b: np.where(a >= b, a, 1)),
    "equal": (lambda a, b: a.equals(b).choose(1, b), lambda a, b: np.where(a == b, 1, b)),
    "different": (lambda a, b: a.differs(b).choose(a, 9), lambda a, b: np.where(a != b, a, 9)),
    "at the most": (lambda a, b: (a <= b).choose(a, b), np.minimum),
    "above": (lambda a, b: (a > 4).choose(a, b), lambda a, b: np.where(a > 4, a, b)),
}
OF_INTEGERS: dict[str, tuple[Write, Expected]] = {
    "and": (lambda a, b: a & b, lambda a, b: a & b),
    "or": (lambda a, b: a | b, lambda a, b: a | b),
    "xor": (lambda a, b: a ^ b, lambda a, b: a ^ b),
    "not": (lambda a, b: ~a, lambda a, b: ~a),
    "left": (lambda a, b: a << 2, lambda a, b: a << 2),
    "right, with the sign": (lambda a, b: a >> 1, lambda a, b: a >> 1),
    "right, with zeros": (lambda a, b: a.shifted_down(b), lambda a, b: unsigned(a) >> unsigned(b)),
    "quotient": (lambda a, b: (a & 63) // b, lambda a, b: (a & 63) // b),
    "rest": (lambda a, b: (a & 63) % b, lambda a, b: (a & 63) % b),
    "pieces": (lambda a, b: (a & 63).pieces(b), lambda a, b: -(-(a & 63) // b)),
    "below": (lambda a, b: a.below(6).choose(a, b), lambda a, b: np.where((a >= 0) & (a < 6), a, b)),
    "least": (lambda a, b: a.at_most(b), np.minimum),
    "most": (lambda a, b: a.at_least(0), lambda a, b: np.maximum(a, 0)),
    "by name": (lambda a, b: a.op("sdiv", b), lambda a, b: np.trunc(a / b)),
}
OF_FLOATS: dict[str, tuple[Write, Expected]] = {
    "quotient": (lambda a, b: a / b, lambda a, b: a / b),
    "a constant by it": (lambda a, b: 0.5 / b, lambda a, b: 0.5 / b),
    "fma": (lambda a, b: a.fma(b, 1.0), lambda a, b: a * b + 1),
    "polynomial": (lambda a, b: a.polynomial((1.0, -2.0, 0.5)), lambda a, b: 1 - 2 * a + 0.5 * a * a),
    "size with a sign": (lambda a, b: b.copy_sign(a), lambda a, b: np.copysign(b, a)),
    "ceiling": (lambda a, b: a.at_most(4.5), lambda a, b: np.minimum(a, 4.5)),
    "floor": (lambda a, b: a.at_least(-1.0), lambda a, b: np.maximum(a, -1)),
    "bits": (lambda a, b: a.as_bits().as_floats(), lambda a, b: a),
}
REFUSED: list[tuple[str, Callable[[Term], object]]] = [
    ("i64", lambda a: a / 2),
    ("i64", lambda a: a * 0.5),
    ("i8", lambda a: a + 256),
    ("i64", lambda a: a.choose(1, a)),
    ("i64", lambda a: a[0]),
    ("i64", lambda a: a.load()),
    ("i64", lambda a: a + float("inf")),
    ("i64", lambda a: a + float("nan")),
    ("i1", lambda a: a & 2),
    ("float", lambda a: a.below(2.0)),
    ("float", lambda a: a.outside(2.0)),
    ("ptr", lambda a: a.to("i64")),
    ("ptr", lambda a: a.equals(0)),
    ("float", lambda a: a // 2),
    ("float", lambda a: a & 1),
    ("float", lambda a: a << 1),
    ("<4 x double>", lambda a: a % 2),
    ("i1", lambda a: a + a),
    ("i1", lambda a: a.choose(1, 2)),
    ("ptr", lambda a: a + 4),
    ("ptr", lambda a: a.at(1)),
    ("ptr", lambda a: a.of("float").at(0.5)),
    ("ptr", lambda a: a.of("float").at(a.lines.number(1.0, "float"))),
    ("i64", lambda a: a == 1),
    ("i64", lambda a: a != 1),
    ("i64", abs),
    ("i64", bool),
    ("i64", list),
    ("i64", lambda a: 0 < a < 5),
]
CASES = [
    *((type, name, case) for type in TYPES for name, case in ANY.items()),
    *((type, name, case) for type in INTEGERS for name, case in OF_INTEGERS.items()),
    *((type, name, case) for type in FLOATS for name, case in OF_FLOATS.items()),
]


def unsigned(x: Array) -> Array:
    """Return the same bits as numbers without a sign."""
    return x.view(f"u{x.dtype.itemsize}")


def computed(name: str, type: str, write: Write, *, count: int = LANES) -> Array:
    """Return what a kernel makes of A and B, of vectors of so many lanes or, where that is 0, one by one."""
    a, b = (np.array(numbers, TYPES[type]) for numbers in (A, B))
    result = np.full(LANES, 77, TYPES[type])
    kind, steps = (f"<{count} x {type}>", range(0, LANES, count)) if count else (type, range(LANES))

    def work(lines: Lines) -> None:
        x, y, z = (pointer_at(lines, word).of(type) for word in (1, 2, 3))
        for i in steps:
            first, second = (one.at(i).of(kind).load(1) for one in (x, y))
            z.at(i).of(kind).store(write(first, second), 1)

    run_kernel(f"values: {name} of {kind}", work, 1, *(one.ctypes.data for one in (a, b, result)))
    return result


@pytest.mark.parametrize("count", [0, 2, LANES])
@pytest.mark.parametrize(("type", "name", "case"), CASES, ids=[f"{type}-{name}" for type, name, _ in CASES])
def test_operators_of_every_type(type: str, name: str, case: tuple[Write, Expected], count: int) -> None:
    """Of one value and of lanes, beside others and beside constants."""
    write, expected = case
    a, b = (np.array(numbers, TYPES[type]) for numbers in (A, B))
    right = np.asarray(expected(a, b))
    if right.dtype.kind == "u":
        right = right.view(TYPES[type])
    tolerance = 1e-6 if type in FLOATS else 0
    np.testing.assert_allclose(computed(name, type, write, count=count), right.astype(a.dtype), rtol=tolerance)


@pytest.mark.parametrize("count", [0, LANES])
@pytest.mark.parametrize("target", TYPES)
@pytest.mark.parametrize("source", TYPES)
def test_numbers_in_another_type(source: str, target: str, count: int) -> None:
    """And back: a number that both types have stays what it is, with its sign or, if that is asked for, without."""

    def both(a: Term, b: Term) -> Term:
        there, without = a.to(target), b.to_unsigned(target)
        assert {there.scalar, without.scalar} == {target}
        assert there.count == a.count
        return there.to(source) + without.to(source)

    np.testing.assert_array_equal(computed(f"{source} as {target}", source, both, count=count), np.add(A, B))


NUMBERS = [0, 1, -1, 100, -128, 2049, -4097, 65504, 65519, 2**24 + 1, -(2**31), 2**40 + 2**17 + 1, 2**53, -(2**63)]
PARTS = [0.5, 0.1, -2.7, 1 / 3, 1e-3, 6.1e-5, 3e-8, 2.98e-8, 1e-320, 1e300, np.inf, -np.inf, np.nan, -0.0]
NEARLY = [1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11 - 2.0**-40, 2049 * (1 + 2.0**-40), 65519.9999999, 65520]


@pytest.mark.parametrize("count", [0, 8])
@pytest.mark.parametrize("target", [*TYPES, "half"])
@pytest.mark.parametrize("source", [*TYPES, "half"])
def test_numbers_are_rounded_once(source: str, target: str, count: int) -> None:
    """From any type to any, on any processor; what does not fit a float is infinity. NumPy converts sure numbers so."""
    types: dict[str, Any] = {**TYPES, "half": np.float16}
    floating = source not in INTEGERS
    low, high = (-np.inf, np.inf) if floating else (np.iinfo(types[source]).min, np.iinfo(types[source]).max)
    given = [one for one in NUMBERS if low <= one <= high] + (PARTS + NEARLY if floating else [])
    with np.errstate(over="ignore", invalid="ignore"):
        a = np.array(given).astype(types[source]) if floating else np.array(given, types[source])
        if target in INTEGERS:  # others have no number there
            bound = np.iinfo(types[target])
            inside = [math.isfinite(one) and bound.min <= int(one) <= bound.max for one in a.tolist()]
            a = a[np.array(inside)]
        a = np.resize(a, -(-a.size // 8) * 8)
        wanted = np.array([types[target](one) for one in a.tolist()]) if source in INTEGERS else a.astype(types[target])
    found = np.full(a.shape, 77, types[target])

    def work(lines: Lines) -> None:
        x, y = pointer_at(lines, 1).of(source), pointer_at(lines, 2).of(target)
        for i in range(0, a.size, count or 1):
            kind = f"<{count} x {source}>" if count else source
            value = x.at(i).of(kind).load(1).to(target)
            y.at(i).of(value.type).store(value, 1)

    run_kernel(f"once: {source} to {target} {count} {a.size}", work, 1, a.ctypes.data, found.ctypes.data)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("type", TYPES)
def test_an_address_has_elements(type: str) -> None:
    """They are read and written by number, in steps of their own size; addresses are chosen between, and numbers."""
    x, y = np.arange(1, 7).astype(TYPES[type]), np.zeros(6, TYPES[type])
    nbytes = y.itemsize

    def work(lines: Lines) -> None:
        source, target = (pointer_at(lines, word).of(type) for word in (1, 2))
        i = lines.block_start[3]
        target[0] = source[i]
        target[i] = source[i + 1] + source[0]
        behind = source.bytes_on(4 * nbytes)
        assert behind.element == type
        target[1] = behind[0]
        target[3] = (i > 0).choose(source.at(5), source).load()
        target[4] = 9
        assert target.as_integer().as_pointer().of(type).at(5).element == type
        target.as_integer().as_pointer().of(type)[5] = source.load()

    run_kernel(f"values: elements of {type}", work, 1, x.ctypes.data, y.ctypes.data, 2)
    assert y.tolist() == [3, 5, 5, 6, 9, 1]


def test_room_lanes_and_what_is_added_by_many() -> None:
    found = np.zeros(5, np.int64)

    def work(lines: Lines) -> None:
        out = pointer_at(lines, 1).of("i64")
        room = lines.room("i64")
        room.store(40)
        out[0] = room.add_atomically(2, "monotonic") + room.load()
        lanes = lines.poison("<2 x i64>").with_lane(1, room.load()).with_lane(0, lines.number(5))
        out[1] = lanes.sum()
        out[2] = lanes.largest()
        out[3] = lines.number(40).trailing_zeros()
        out[4] = lanes.differs(5).any().to_unsigned("i64") + lanes.differs(5).within(lanes.equals(5)).any().to_unsigned(
            "i64"
        )

    run_kernel("values: room, lanes", work, 1, found.ctypes.data)
    assert found.tolist() == [82, 47, 42, 3, 1]


@pytest.mark.parametrize(
    ("left", "right"), [("i64", "i32"), ("float", "double"), ("<4 x float>", "float"), ("i1", "i64"), ("ptr", "i64")]
)
def test_values_of_two_types_stand_not_beside_each_other(left: str, right: str) -> None:
    lines = Lines()
    a, b = Term(lines, left, "%a"), Term(lines, right, "%b")
    does: list[Callable[[], object]] = [
        *(lambda: a + b, lambda: a < b, lambda: a & b, lambda: a.at_most(b), lambda: a.equals(b)),
        lambda: Term(lines, "i1", "%c").choose(a, b),
    ]
    for one in does:
        with pytest.raises(DTypeError, match=f"{right} %b beside {left} %a"):
            one()
    with pytest.raises(DTypeError, match="beside"):
        Term(lines, "ptr", "%p", left).store(b)
    assert not lines.lines, "nothing is written before it is refused"


@pytest.mark.parametrize(("type", "does"), REFUSED)
def test_what_cannot_be_is_refused_where_it_is_written(type: str, does: Callable[[Term], object]) -> None:
    """LLVM would complain much later, or not at all."""
    lines = Lines()
    with pytest.raises(DTypeError):
        does(Term(lines, type, "%a"))


def test_truths_as_numbers_and_as_bits() -> None:
    found = np.zeros(3, np.int64)

    def work(lines: Lines) -> None:
        out, one = pointer_at(lines, 1).of("i64"), lines.block_start[2]
        out[0] = (one > 0).to("i64")
        out[1] = (one > 0).filled("i64")
        out[2] = (one > 5).to("double").to("i64") + (one > 0).to("float").to("i64")

    run_kernel("values: truths", work, 1, found.ctypes.data, 5)
    assert found.tolist() == [1, -1, 1]


def test_types_and_constants_by_their_names() -> None:
    assert [scalar_of(type) for type in ("<8 x i32>", "double", "ptr")] == ["i32", "double", "ptr"]
    assert [short(type) for type in ("<16 x float>", "<2 x ptr>", "i64", "half")] == ["v16f32", "v2p0", "i64", "f16"]
    assert {type: bits_of(type) for type in ("i1", "i64", *FLOAT_BITS)} == {"i1": 1, "i64": 64, **FLOAT_BITS}
    assert literal("i32", -1) == "-1"
    assert literal("float", 0.1) == literal("float", float(np.float32(0.1))) != literal("double", 0.1)
    assert literal("half", 0.1) == literal("half", float(np.float16(0.1))) != literal("float", 0.1)
    assert literal("<4 x i1>", True) == "splat (i1 true)"
