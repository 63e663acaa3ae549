"""Lazy expressions against NumPy: types, ranks, strides, broadcasting, casts, reductions, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.array.deferred import Lazy, apply, assign, lazy
from tazza.array.evaluator import EVALUATORS
from tazza.errors import ArgumentError, DTypeError, NotFoundError, ShapeError, UnsupportedError
from tazza.tensor import DataType, Tensor
from tazza.tensor.function import FUNCTIONS, STANDARD, signature
from tazza.tensor.promotion import kind_of

TYPES = [dtype for dtype in DataType if dtype is not DataType.STRING]
ROUNDING = {DataType.DOUBLE: 1e-13, DataType.FLOAT: 2e-7, DataType.FLOAT16: 1e-3, DataType.BFLOAT16: 8e-3}
"""What a result may be off, relative to itself: it is computed in float64 and rounded once."""
BINARY = {"add": np.add, "mul": np.multiply, "maximum": np.maximum, "less": np.less, "not_equal": np.not_equal}
Array = NDArray[Any]


def values(dtype: DataType, shape: tuple[int, ...], seed: int) -> Array:
    """Return small numbers, which every type holds and adds without rounding."""
    low = 0 if dtype in (DataType.BOOL, DataType.UINT8, DataType.UINT16) else -4
    return np.random.default_rng(seed).integers(low, 2 if dtype is DataType.BOOL else 5, shape).astype(dtype.numpy)


@st.composite
def arrays(draw: st.DrawFn, shape: tuple[int, ...]) -> Array:
    """Make an array that broadcasts to a shape, of any type, in any order of its axes, with gaps or without."""
    dtype = draw(st.sampled_from(TYPES))
    own = [extent if draw(st.booleans()) else 1 for extent in shape][draw(st.integers(0, len(shape))) :]
    order = draw(st.permutations(range(len(own))))
    step = draw(st.sampled_from([1, 2])) if own else 1
    wide = [own[axis] * (step if k == 0 else 1) for k, axis in enumerate(order)]
    laid = values(dtype, tuple(wide), draw(st.integers(0, 99)))
    return (laid[::step] if own else laid).transpose(np.argsort(order))


SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 5]), max_size=4).map(tuple) | st.just((2, 1, 2, 1, 3, 1, 2, 1, 2))


@given(SHAPES.flatmap(lambda shape: st.tuples(arrays(shape), arrays(shape))), st.sampled_from(sorted(BINARY)))
@settings(max_examples=120)
def test_functions_are_numpys(pair: tuple[Array, Array], name: str) -> None:
    a, b = pair
    wanted, dtype = signature(STANDARD[name], (DataType.of(a), DataType.of(b)))
    expected = BINARY[name](a.astype(wanted[0].numpy), b.astype(wanted[1].numpy))
    for evaluator in (None, "numpy"):
        found = apply(name, a, b).evaluate(evaluator=evaluator)
        assert found.dtype is dtype
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found.array, expected)


def test_all_functions_have_a_meaning_for_the_types_that_they_take() -> None:
    """The names of the standard are NumPy's too, or those of another library of its own."""
    compared = 0
    for standard, name in STANDARD.items():
        numpy: Any = getattr(np, standard, None)
        if not isinstance(numpy, np.ufunc) or numpy.nin != FUNCTIONS[name].arity:
            continue
        for dtype in (DataType.FLOAT, DataType.DOUBLE, DataType.INT32, DataType.BOOL):
            operands = [values(dtype, (2, 3), 5 + k) for k in range(FUNCTIONS[name].arity)]
            if name == "pow" or "shift" in name:
                operands[1] = abs(operands[1])
            try:
                result = apply(standard, *operands)
            except DTypeError:
                continue
            with np.errstate(all="ignore"):
                expected = numpy(*operands)
                np.testing.assert_array_equal(result.evaluate().array, expected, err_msg=f"{name} of {dtype}")
            compared += 1
    assert compared > 100


@pytest.mark.parametrize("dtype", [DataType.FLOAT16, DataType.BFLOAT16])
def test_half_precision_is_rounded_at_the_end_and_where_it_is_cast(dtype: DataType) -> None:
    x = np.array([1.0, 2049.0, 3.0]).astype(dtype.numpy)
    once = (lazy(x) * 3 + 1).evaluate().array
    np.testing.assert_array_equal(once, (x.astype(np.float32) * 3 + 1).astype(dtype.numpy))
    cast = (lazy(x) * 3).cast("float32") + 1
    np.testing.assert_array_equal(cast.evaluate().array, (x * dtype.numpy.type(3)).astype(np.float32) + 1)


@given(
    st.sampled_from(["sum", "mean", "max", "min", "prod", "any", "all"]),
    st.sampled_from([(5,), (3, 4), (2, 3, 5), (3, 0, 2)]),
    st.sampled_from(TYPES),
    st.data(),
)
@settings(max_examples=60)
def test_reductions_are_numpys(name: str, shape: tuple[int, ...], dtype: DataType, data: st.DataObject) -> None:
    axes = data.draw(st.none() | st.sets(st.integers(0, len(shape) - 1), min_size=1).map(tuple))
    keepdims = data.draw(st.booleans())
    x = values(dtype, shape, 3)
    whole = tuple(range(len(shape))) if axes is None else axes
    if name in ("max", "min") and any(shape[axis] == 0 for axis in whole):
        with pytest.raises(ShapeError, match="no element to choose from"):
            getattr(lazy(x), name)(axes)
        return
    found = getattr(lazy(x), name)(axes, keepdims=keepdims).evaluate()
    exact = x.astype(np.float64) if dtype.is_float else x
    with np.errstate(all="ignore"):
        if name == "mean" and math.prod(shape) == 0:
            expected: Any = np.asarray(np.sum(exact, axes, keepdims=keepdims)) * np.nan
        else:
            expected = getattr(np, name)(exact, axis=axes, keepdims=keepdims)
    rtol = ROUNDING.get(found.dtype, 0.0)
    np.testing.assert_allclose(found.array.astype(np.float64), np.asarray(expected).astype(np.float64), rtol=rtol)
    assert found.shape == np.shape(expected)
    assert kind_of(found.dtype) >= kind_of(dtype) or name in ("any", "all")


def test_what_follows_a_reduction_starts_from_its_result() -> None:
    x = np.random.default_rng(1).standard_normal((3, 7)).astype(np.float32)
    e = lazy(x)
    power = apply("exp", e - e.max(axis=1, keepdims=True))
    softmax = power / power.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(softmax.evaluate().array.sum(axis=1), np.ones(3), rtol=1e-6)
    assert softmax.explain().count("first, as others start from it") == 2


def test_an_expression_sees_the_values_at_its_evaluation() -> None:
    x = Tensor.from_numpy(np.array([1.0, 2.0]))
    later = lazy(x) + 1
    x.numpy()[0] = 10
    assert later.evaluate().array.tolist() == [11, 3]


def test_operators_from_both_sides() -> None:
    x, n = lazy(np.array([2.0, 5.0])), lazy(np.array([6, 3]))
    results: list[Lazy] = [1 - x, 1 / x, 2**x, 7 % x, 7 // x, -x, abs(-x), +x, x**2, x**3]
    expected = [[-1, -4], [0.5, 0.2], [4, 32], [1, 2], [3, 1], [-2, -5], [2, 5], [2, 5], [4, 25], [8, 125]]
    assert [one.evaluate().array.tolist() for one in results] == expected
    whole: list[Lazy] = [n & 2, 1 | n, n ^ 1, ~n, n << 1, n >> 1, 7 & n, n | 8, 1 ^ n]
    expected = [[2, 2], [7, 3], [7, 2], [-7, -4], [12, 6], [3, 1], [6, 3], [14, 11], [7, 2]]
    assert [one.evaluate().array.tolist() for one in whole] == expected
    array = np.array([1.0, 9.0]) * x
    assert isinstance(array, Lazy)
    assert np.asarray(array).tolist() == [2, 45]
    assert [(n < 5).evaluate().array.tolist(), (n == 6).evaluate().array.tolist()] == [[False, True], [True, False]]


@pytest.mark.slow
def test_a_long_expression_needs_no_deep_stack() -> None:
    x = lazy(np.zeros(3, np.int32))
    for _ in range(3000):
        x = x + 1
    assert x.evaluate().array.tolist() == [3000] * 3
    assert x.evaluate(evaluator="numpy").array.tolist() == [3000] * 3


ERRORS: list[tuple[Callable[[Any], Any], type[Exception], str]] = [
    (lambda x: apply("tanhh", x), NotFoundError, "no function is called 'tanhh'"),
    (lambda x: apply("add", x), ArgumentError, "add takes 2 operands, it got 1"),
    (lambda x: x + "a", DTypeError, "str is neither an array"),
    (lambda x: lazy(np.array(["a"])) == x, DTypeError, "strings are not computed with"),
    (lambda x: x & 1, DTypeError, "bit_and takes integers or bools, not float32"),
    (lambda x: lazy(np.array([True])) - False, DTypeError, "sub takes numbers, not bool"),
    (lambda x: apply("where", x, x, x), DTypeError, "its condition is float32, not bool"),
    (lambda x: lazy(np.zeros(2, np.int8)) + 300, DTypeError, "300 is no int8"),
    (lambda x: lazy(np.zeros(2, np.int8)) * 0.5, DTypeError, "0.5 is of the kind floating point"),
    (lambda x: x + np.zeros(3, np.float32), ShapeError, "does not broadcast"),
    (lambda x: x.sum(1), ShapeError, "axis 1 is outside"),
    (lambda x: x.sum((0, -1)), ShapeError, "name one axis twice"),
    (lambda x: bool(x), ArgumentError, "not true or false before it is computed"),
]


@pytest.mark.parametrize(("make", "error", "message"), ERRORS)
def test_errors(make: Callable[[Any], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(lazy(np.zeros(2, np.float32)))


def test_assignment_checks_its_target() -> None:
    x = Tensor.from_numpy(np.zeros((2, 3), np.int32))
    with pytest.raises(DTypeError, match="not written to the target int32"):
        assign(x, lazy(x) / 2)
    with pytest.raises(ShapeError, match="does not fit the target"):
        assign(x, np.zeros(2, np.int32))
    with pytest.raises(UnsupportedError, match="one element in several places"):
        assign(x.view((2, 3), strides=(0, 1)), 1)
    assign(x, np.arange(3, dtype=np.int16))
    assert x.array.tolist() == [[0, 1, 2]] * 2


def test_an_evaluator_must_exist() -> None:
    assert "numpy" in EVALUATORS
    with pytest.raises(NotFoundError, match="unknown evaluator 'abacus'"):
        lazy(np.zeros(2)).evaluate(evaluator="abacus")
