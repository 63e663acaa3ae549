"""Elementwise functions and operators against NumPy, over element types, rank 0-9, layouts and aliasing."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tazza.array as ta
from tazza.errors import DTypeError, ShapeError, UnsupportedError
from tazza.tensor import elementwise
from tests.arrays import FLOATS, INTEGERS, NUMBERS, Array, Pair, assert_same, pairs

DataType = ta.DataType
BOOLS = [DataType.BOOL]
ANY = {
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "negative": np.negative,
    "positive": np.positive,
    "conj": np.conj,
    "real": np.real,
}
TRUTHS = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "signbit": np.signbit}
ROUNDINGS = {"ceil": np.ceil, "floor": np.floor, "round": np.rint, "trunc": np.trunc}
SMOOTH = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cos": np.cos,
    "cosh": np.cosh,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
ARITHMETIC = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}
EXTREMES = {"maximum": np.maximum, "minimum": np.minimum}
DIVISIONS = {"floor_divide": np.floor_divide, "remainder": np.remainder}
SMOOTH_PAIRS = {
    "atan2": np.arctan2,
    "copysign": np.copysign,
    "divide": np.divide,
    "hypot": np.hypot,
    "logaddexp": np.logaddexp,
    "pow": np.power,
}
COMPARISONS = {
    "equal": np.equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "not_equal": np.not_equal,
}
BITS = {"bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor}
SHIFTS = {"bitwise_left_shift": np.left_shift, "bitwise_right_shift": np.right_shift}
LOGIC = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}
NUMERIC = [*INTEGERS, *FLOATS]


def _one_over(x: Array) -> Array:
    return 1 / x


UNARY = [
    *((name, f, NUMERIC) for name, f in (ANY | ROUNDINGS).items()),
    *((name, f, NUMERIC) for name, f in TRUTHS.items()),
    *((name, f, FLOATS) for name, f in SMOOTH.items()),
    ("reciprocal", _one_over, FLOATS),
    ("bitwise_invert", np.invert, [*INTEGERS, *BOOLS]),
    ("logical_not", np.logical_not, BOOLS),
]
BINARY = [
    *((name, f, NUMERIC) for name, f in (ARITHMETIC | DIVISIONS).items()),
    *((name, f, NUMBERS) for name, f in (EXTREMES | COMPARISONS).items()),
    *((name, f, FLOATS) for name, f in SMOOTH_PAIRS.items()),
    *((name, f, [*INTEGERS, *BOOLS]) for name, f in BITS.items()),
    *((name, f, INTEGERS) for name, f in SHIFTS.items()),
    *((name, f, BOOLS) for name, f in LOGIC.items()),
]
TOLERANCE = {DataType.FLOAT16: 1e-3, DataType.BFLOAT16: 8e-3, DataType.FLOAT: 2e-6, DataType.DOUBLE: 1e-13}
WIDE = {DataType.FLOAT16, DataType.BFLOAT16}


def _expect(function: Callable[..., Any], *operands: Array) -> Array:
    """Compute with NumPy; half precision in float32, and rounded once."""
    kind = DataType.of(operands[0])
    wide = [one.astype(np.float32) if kind in WIDE else one for one in operands]
    with np.errstate(all="ignore"):
        found = np.asarray(function(*wide))
        return found.astype(kind.numpy) if kind in WIDE and found.dtype == np.float32 else found


def _check(found: ta.Tensor, expected: Array) -> None:
    assert found.dtype is DataType.of(expected)
    assert found.shape == expected.shape
    assert found.layout == ta.ROW_MAJOR
    rtol = TOLERANCE.get(found.dtype, 0)
    np.testing.assert_allclose(found.plain().astype(np.float64), expected.astype(np.float64), rtol, rtol)


@given(st.data(), st.sampled_from(UNARY))
@settings(max_examples=150)
def test_functions_of_one_operand(data: st.DataObject, case: tuple[str, Any, list[DataType]]) -> None:
    name, function, dtypes = case
    pair = data.draw(pairs(dtypes))
    found = getattr(ta, name)(pair.tensor)
    expected = pair.array if name in ROUNDINGS and not pair.tensor.dtype.is_float else _expect(function, pair.array)
    _check(found, expected)
    assert not ta.shares_memory(found, pair.tensor)
    pair.check()


@given(st.data(), pairs(FLOATS))
@settings(max_examples=50)
def test_nextafter(data: st.DataObject, x: Pair) -> None:
    """Steps of the type itself, narrow ones too; lazy where an operand is."""
    y = data.draw(pairs([x.tensor.dtype], shape=x.array.shape))
    expected = np.nextafter(x.array, y.array)
    assert_same(ta.nextafter(x.tensor, y.tensor), expected)
    assert_same(ta.nextafter(ta.lazy(x.tensor), y.tensor).evaluate(), expected)
    assert_same(ta.nextafter(x.tensor, 0), np.nextafter(x.array, np.zeros((), x.array.dtype)))


@given(st.data(), st.sampled_from(BINARY))
@settings(max_examples=200)
def test_functions_of_two_operands(data: st.DataObject, case: tuple[str, Any, list[DataType]]) -> None:
    name, function, dtypes = case
    x = data.draw(pairs(dtypes))
    how = data.draw(st.sampled_from(["another", "itself", "a part of itself", "stretched"]))
    if how == "another":
        y = data.draw(pairs([x.tensor.dtype], shape=x.array.shape))
    elif how == "itself":
        y = x
    else:
        index = (slice(0, 1) if how == "stretched" else slice(None, None, -1),) if x.array.ndim else ()
        y = Pair(x.tensor[index], x.array[index] if index else x.array, how)
        if y.array.shape and y.array.shape[0] not in (1, x.array.shape[0]):
            return
    if name in SHIFTS:
        y = Pair(ta.remainder(y.tensor, 7), np.remainder(y.array, np.asarray(7, y.array.dtype)), "counts")
    _check(getattr(ta, name)(x.tensor, y.tensor), _expect(function, x.array, y.array))
    x.check()


ON_NUMBERS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "gt", "ge", "eq", "ne")
ON_BITS = ("and_", "or_", "xor", "lshift")


@pytest.mark.parametrize("name", [*ON_NUMBERS, *ON_BITS])
def test_operators_with_tensors_numbers_and_arrays(name: str) -> None:
    act: Any = getattr(operator, name)
    array = np.array([[1, 2, 3], [4, 5, 6]], np.int32 if name in ON_BITS else np.float32)
    x = ta.array(array)
    row = array[1] - 3
    for found, expected in [
        (act(x, ta.array(row)), act(array, row)),
        (act(x, row), act(array, row)),
        (act(row, x), act(row, array)),
        (act(x, 2), act(array, 2)),
        (act(2, x), act(2, array)),
    ]:
        assert type(found) is ta.Array
        _check(found, expected)


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"])
def test_operators_in_place(name: str) -> None:
    act: Any = getattr(operator, name)
    base = np.arange(1, 31, dtype=np.float64).reshape(5, 6)
    x, a = ta.array(base), base.copy()
    view, expected = x[1:, ::2], a[1:, ::2]
    version, address = x.storage.version, x.address
    assert act(view, x[:-1, ::2]) is view  # its source is partly itself
    expected[...] = act(expected.copy(), base[:-1, ::2])
    np.testing.assert_allclose(x.plain(), a, 1e-14)
    assert x.storage.version > version
    assert x.address == address


def test_in_place_keeps_type_and_shape() -> None:
    x = ta.arange(3)
    with pytest.raises(DTypeError):
        x += ta.ones(3)
    with pytest.raises(DTypeError):
        x /= 2
    with pytest.raises(ShapeError):
        x += ta.zeros((2, 3), dtype="int64")
    stretched = ta.broadcast_to(ta.ones(1), (3,))
    with pytest.raises(UnsupportedError, match="one element in several places"):
        stretched += 1
    x <<= 2
    x |= 1
    x &= 5
    x ^= 1
    x >>= 1
    assert x.tolist() == [0, 2, 0]


def test_unary_operators() -> None:
    x = ta.asarray([-1.5, 2.0])
    assert ((-x).tolist(), (+x).tolist(), abs(x).tolist()) == ([1.5, -2], [-1.5, 2], [1.5, 2])
    assert not ta.shares_memory(+x, x)
    assert (~ta.asarray([True, False])).tolist() == [False, True]
    assert (ta.asarray([[1.0, 2.0]]) @ ta.asarray([[3.0], [5.0]])).tolist() == [[13.0]]


def test_types_that_are_not_known_get_their_turn() -> None:
    class Other:
        def __radd__(self, other: object) -> str:
            return "other"

        def __rmatmul__(self, other: object) -> str:
            return "product"

    x: Any = ta.ones(2)
    assert x + Other() == "other"
    assert x @ Other() == "product"
    assert (x == None) is False  # noqa: E711 - no element is compared
    with pytest.raises(TypeError):
        _ = x + object()
    assert x in [None, x]
    assert {x: 1}[x] == 1


def test_where_and_clip() -> None:
    x = ta.asarray([[1.0, -2.0], [3.0, -4.0]])
    assert ta.where(x > 0, x, 0.0).tolist() == [[1, 0], [3, 0]]
    assert ta.clip(x, -3, ta.asarray([0.5, 9.0])).tolist() == [[0.5, -2], [0.5, -3]]
    assert ta.clip(x).tolist() == x.tolist()
    with pytest.raises(DTypeError, match="clip of int64"):
        ta.clip(ta.arange(3), ta.asarray(0.5))


def test_text_is_only_compared() -> None:
    x = ta.asarray(["a", "b"])
    assert (x == ta.asarray("a")).tolist() == [True, False]
    assert (x != "b").tolist() == [True, False]
    for wrong in (lambda: x + x, lambda: x == 1, lambda: ta.exp(x)):
        with pytest.raises(DTypeError, match="does not take strings"):
            wrong()


def test_what_no_function_takes() -> None:
    wrong: Any = [1, 2]
    with pytest.raises(DTypeError, match="list is no operand"):
        ta.exp(wrong)
    with pytest.raises(DTypeError):
        ta.exp(ta.asarray([True]))
    with pytest.raises(ShapeError, match="does not broadcast"):
        ta.add(ta.zeros(2), ta.zeros(3))


def test_every_function_is_tested_and_says_what_it_does() -> None:
    tested = {name for name, *_ in (*UNARY, *BINARY)} | {"where", "clip", "nextafter"}
    assert set(elementwise.__all__) == tested
    assert all(inspect.getdoc(getattr(elementwise, name)) for name in elementwise.__all__)


def test_elements_become_python_values() -> None:
    x = ta.asarray([2.5])
    assert (float(x), int(x), bool(x), complex(x), x.item()) == (2.5, 2, True, 2.5, 2.5)
    assert [10, 20, 30][ta.asarray(1)] == 20
    assert f"{x[0]:.2f}" == "2.50"
    assert [row.tolist() for row in ta.asarray([[1], [2]])] == [[1], [2]]
    assert len(ta.zeros((2, 3))) == 2
    with pytest.raises(ValueError, match="3 elements is no single value"):
        bool(ta.zeros(3))
    for wrong in (lambda: len(ta.zeros(())), lambda: operator.index(x), lambda: operator.index(ta.zeros(()))):
        with pytest.raises(TypeError):
            wrong()


def test_same_values() -> None:
    x = ta.asarray([1.0, ta.nan])
    assert ta.array_equal(x, x, equal_nan=True)
    assert not ta.array_equal(x, x)
    assert not ta.array_equal(x, x.astype("float64"), equal_nan=True)
    assert ta.allclose(ta.ones(3), 1 + 1e-6 * ta.ones((2, 1)))
    assert not ta.allclose(ta.ones(3), 1.1 * ta.ones(3))
    assert ta.array_equal(ta.asarray(["a"]), ta.asarray(["a"]))
    assert_same(ta.isnan(x), np.array([False, True]))


def _odd(dtype: ta.DataType) -> Array:
    """Return the values that functions get wrong."""
    if dtype.is_float:
        limits = ta.finfo(dtype)
        return np.array(
            [ta.nan, ta.inf, -ta.inf, -0.0, 0, 1, -2.5, limits.max, limits.min, limits.smallest_normal], dtype.numpy
        )
    limits = ta.iinfo(dtype)
    return np.array([limits.min, 0, 1, 7, limits.max, limits.max - 1], dtype.numpy)


@pytest.mark.parametrize("dtype", NUMERIC)
def test_odd_values(dtype: ta.DataType) -> None:
    array = _odd(dtype)
    column = array[:, None]
    x, y = ta.asarray(array), ta.asarray(column)
    for name, function, dtypes in UNARY:
        if dtype in dtypes and (dtype.is_float or name not in ROUNDINGS):
            _check(getattr(ta, name)(x), _expect(function, array))
    for name, function, dtypes in BINARY:
        if dtype in dtypes and name not in SHIFTS:
            _check(getattr(ta, name)(x, y), _expect(function, array, column))


def test_functions_of_lazy_operands_are_lazy() -> None:
    array = np.array([0.25, 0.5, 0.75])
    for name in elementwise.__all__:
        function = getattr(ta, name)
        count = len([one for one in inspect.signature(function).parameters.values() if one.kind is one.POSITIONAL_ONLY])
        kind = bool if name.startswith("logical") else np.int64 if name.startswith("bitwise") else np.float64
        given = [array.astype(kind)] * count
        if name == "where":
            given[0] = array < 0.5
        for lazy_at in range(count):
            operands = [ta.lazy(one) if k == lazy_at else one for k, one in enumerate(given)]
            found = function(*operands)
            assert isinstance(found, ta.Lazy)
            np.testing.assert_array_equal(found.evaluate().numpy(), function(*given).numpy(), err_msg=name)
    x = ta.Tensor.from_numpy(array)
    clipped = ta.clip(ta.lazy(x) * 2, 0.75, x)
    assert isinstance(clipped, ta.Lazy)
    assert clipped.evaluate().tolist() == [0.25, 0.5, 0.75]
    later = ta.exp(ta.lazy(array)) * ta.maximum(array, ta.lazy(x))
    array[...] = 0
    assert later.evaluate().tolist() == [0.25, 0.5, 0.75]
