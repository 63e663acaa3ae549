"""Expressions: reading, canonical text, substitution, evaluation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.array.deferred import Lazy, apply, lazy
from tazza.errors import ArgumentError, DTypeError
from tazza.tensor.expression import DEEPEST, Expression
from tazza.tensor.function import FUNCTIONS


def texts() -> st.SearchStrategy[str]:
    """Make texts of every form."""
    leaves = st.sampled_from(["x", "y", "alpha", "2", "0.5", "1e30", "-3", "1e999"])

    def extend(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        signs = st.sampled_from(["+", "-", "*", "/", "<", ">=", "!="])
        return st.one_of(
            st.tuples(inner, signs, inner).map(lambda p: f"({p[0]}) {p[1]} ({p[2]})"),
            inner.map(lambda a: f"-({a})"),
            inner.map(lambda a: f"tanh({a})"),
            st.tuples(inner, inner, inner).map(lambda p: f"where({', '.join(p)})"),
        )

    return st.recursive(leaves, extend, max_leaves=8)


@given(texts())
def test_the_canonical_text_reads_back_as_the_same_expression(text: str) -> None:
    found = Expression.parse(text)
    again = Expression.parse(found.text())
    assert again == found
    assert again.text() == found.text()
    assert hash(again) == hash(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x +", "cannot be read"),
        ("__import__('os').system('true')", "is not of this language"),
        ("x.real", "is not of this language"),
        ("f(x)", "is not of this language"),
        ("x ** 2", "is not of this language"),
        ("0 < x < 1", "is not of this language"),
        ("True", "is not of this language"),
        ("'x'", "is not of this language"),
        ("[x]", "is not of this language"),
        ("exp(x, y)", "exp has 2 operands, it takes 1"),
        ("max(x, y, z)", "max has 3 operands, it takes 2"),
        ("add(x, y)", "is not of this language"),
        ("-" * (DEEPEST + 5) + "x", "nests deeper"),
    ],
)
def test_other_texts_are_refused(text: str, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        Expression.parse(text)


def test_a_constant_cannot_be_nan() -> None:
    with pytest.raises(ArgumentError, match="NaN"):
        Expression.parse("x").substitute({"x": math.nan})


def test_names_come_once_and_in_order() -> None:
    assert Expression.parse("b * a + exp(b)").names == ("b", "a")


def test_substitution_is_simultaneous() -> None:
    swapped = Expression.parse("x - y").substitute({"x": Expression.parse("y"), "y": Expression.parse("x")})
    assert swapped.text() == "y - x"


def test_what_occurs_twice_costs_once() -> None:
    once, twice = Expression.parse("exp(x)"), Expression.parse("exp(x) + exp(x)")
    assert twice.flops == once.flops + FUNCTIONS["add"].flops


def test_deep_sharing_stays_small() -> None:
    x, same = Expression.parse("x"), Expression.parse("x")
    for _ in range(100):
        x = Expression.parse("y * y").substitute({"y": x})
        same = Expression.parse("y * y").substitute({"y": same})
    assert x == same
    assert x.flops == 100
    assert x.evaluate({"x": np.ones(2)}).tolist() == [1, 1]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_values_have_the_dtype_of_the_arrays(dtype: str) -> None:
    x = np.array([-2.0, 0.5, 3.0], dtype)
    found = Expression.parse("where(x > 0, x, alpha * x) + (x >= 0.5)").evaluate({"x": x, "alpha": 0.25})
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, np.array([-0.5, 1.5, 4.0], dtype))


AT = (0.5, 1.5, 2.25)
VALUES = {
    "exp": [math.exp(x) for x in AT],
    "log1p": [math.log1p(x) for x in AT],
    "expm1": [math.expm1(x) for x in AT],
    "tanh": [math.tanh(x) for x in AT],
    "erf": [math.erf(x) for x in AT],
    "sigmoid": [1 / (1 + math.exp(-x)) for x in AT],
    "rsqrt": [x**-0.5 for x in AT],
    "cbrt": [math.cbrt(x) for x in AT],
    "floor": [0, 1, 2],
    "ceil": [1, 2, 3],
    "round": [0, 2, 2],
    "cube": [0.125, 3.375, 11.390625],
    "square": [0.25, 2.25, 5.0625],
    "relu": AT,
    "abs": AT,
}


@pytest.mark.parametrize("name", VALUES)
def test_functions(name: str) -> None:
    found = Expression.parse(f"{name}(x)").evaluate({"x": np.array(AT)})
    np.testing.assert_allclose(found, VALUES[name], rtol=1e-14)


def test_sigmoid_of_large_values_raises_no_warning() -> None:
    x = np.array([-1000.0, 1000.0])
    assert Expression.parse("sigmoid(x)").evaluate({"x": x}).tolist() == [0, 1]


def test_a_missing_value_is_named() -> None:
    with pytest.raises(ArgumentError, match="no value for y"):
        Expression.parse("x + y").evaluate({"x": np.zeros(1)})


TEXTS: dict[str, Callable[[Lazy, Lazy], Lazy]] = {
    "a / b": lambda a, b: a / b,
    "a < b": lambda a, b: a < b,
    "(a < b) * a + 2": lambda a, b: apply("lt", a, b).cast(a.dtype) * a + 2,
    "where(a, b, 3)": lambda a, b: apply("where", apply("ne", a, 0), b, 3),
    "exp(a) - b * a": lambda a, b: apply("exp", a) - b * a,
    "where(a < b, 1, 0) * b": lambda a, b: apply("lt", a, b).cast(a.dtype) * b,
    "where(a < b, a >= 2, b < 1)": lambda a, b: apply("where", a < b, a >= 2, b < 1),
}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_a_formula_is_what_the_lazy_expression_is(text: str, dtype: str) -> None:
    a, b = (np.array(one, dtype) for one in ([7, 2, 0, -3], [2, 5, 3, 4]))
    expected = TEXTS[text](lazy(a), lazy(b)).evaluate().numpy()
    found = Expression.parse(text).evaluate({"a": a, "b": b})
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_constants_of_a_formula_keep_the_width_of_the_arrays() -> None:
    x = np.array([1, 2], np.int32)
    assert Expression.parse("x * 2 + (3 - 1)").evaluate({"x": x}).dtype == np.int32
    with pytest.raises(DTypeError, match=r"0\.5 is of the kind floating point"):
        Expression.parse("x * 0.5").evaluate({"x": x})
    assert Expression.parse("alpha / 2").evaluate({"alpha": 3}) == 1.5
    swapped = Expression.parse("x * 0.5").evaluate({"x": np.array([3.0], ">f4")})
    assert (swapped.dtype, swapped.tolist()) == (np.float32, [1.5])
