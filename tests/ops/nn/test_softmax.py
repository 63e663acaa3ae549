"""Softmax and its gradient: against one row after the other; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.errors import DTypeError, SchemaError, ShapeError
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def by_row(lead: int) -> Any:
    """Return softmax of one row after the other, in float64; `lead` dimensions are rows."""

    def function(X: Array) -> Array:
        Y = np.zeros(X.shape)
        for place in np.ndindex(*X.shape[:lead]):
            powers = np.e ** X[place].astype(np.float64)
            Y[place] = powers / powers.sum()
        return Y

    return function


def through_jacobian(lead: int) -> Any:
    """Return dX by the full matrix of derivatives of each row."""

    def function(Y: Array, dY: Array) -> Array:
        dX = np.zeros(Y.shape)
        for place in np.ndindex(*Y.shape[:lead]):
            y = Y[place].ravel().astype(np.float64)
            dX[place] = ((np.diag(y) - np.outer(y, y)) @ dY[place].ravel()).reshape(Y.shape[lead:])
        return dX

    return function


P = by_row(1)(values(3, 5)).astype(np.float32)
P4 = by_row(2)(values(2, 3, 4, 5)).astype(np.float32)

CASES = [
    Case("Softmax", [values(3, 5)], by_row(1), batched=(0,)),
    Case("Softmax", [values(2, 3, 4, 5)], by_row(1), batched=(0,), id="over C, H and W"),
    Case("Softmax", [values(2, 3, 4, 5)], by_row(2), {"axis": 2}, id="axis 2"),
    Case("Softmax", [values(2, 3, 5)], by_row(2), {"axis": -1}, id="axis -1"),
    Case("Softmax", [values(2, 3)], by_row(0), {"axis": 0}, id="axis 0"),
    Case("Softmax", [values(3)], by_row(0), {"axis": 0}, id="rank 1"),
    Case("Softmax", [values(3, 0)], by_row(1), id="no classes"),
    Case("SoftmaxGradient", [P, values(3, 5)], through_jacobian(1), batched=(0, 1)),
    Case("SoftmaxGradient", [P4, values(2, 3, 4, 5)], through_jacobian(2), {"axis": -2}, id="axis -2"),
]


@on_all_engines(CASES)
def test_softmax(case: Case, engine: str) -> None:
    check_op(case, engine)


@settings(max_examples=30)
@given(st.lists(st.floats(-(2.0**100), 2.0**100, width=32), min_size=1, max_size=7))
def test_every_row_is_a_distribution(row: list[float]) -> None:
    Y = run_op("Softmax", np.array([row], np.float32))
    assert (Y >= 0).all()
    assert np.isclose(Y.sum(), 1, atol=1e-6)
    assert Y[0, np.argmax(row)] == Y.max()


def test_infinities_and_nan() -> None:
    """A score of minus infinity has no chance; nothing is left of a row with infinity or NaN in it, as in Caffe2."""
    np.testing.assert_array_equal(run_op("Softmax", np.array([[-np.inf, 0]], "f")), [[0, 1]])
    Y = run_op("Softmax", np.array([[np.nan, 0], [-np.inf, -np.inf]], "f"))
    assert np.isnan(Y).all()
    assert np.isnan(run_op("Softmax", np.array([[np.inf, 0]], "f"))[0, 0])


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("Softmax", [values(3)], {}, ShapeError, r"axis = 1 is not an axis of X, which has 1 dimensions \(3\)"),
    ("Softmax", [values(2, 3)], {"axis": 2}, ShapeError, "axis = 2 is not an axis of X"),
    ("Softmax", [values(2, 3)], {"axis": -3}, ShapeError, "axis = -3 is not an axis of X"),
    ("Softmax", [np.array(1.0, "f")], {"axis": 0}, ShapeError, "X must have at least one dimension"),
    ("Softmax", [np.zeros((2, 3))], {}, DTypeError, "X is float64, it must be float32"),
    ("Softmax", [np.zeros((2, 3), "e")], {}, DTypeError, "X is float16, it must be float32"),
    ("SoftmaxGradient", [P, values(5, 2)], {}, ShapeError, r"dY has 10 elements \(5, 2\), Y has 15 \(3, 5\)"),
    ("SoftmaxGradient", [P, values(3, 5)], {"axis": 5}, ShapeError, "axis = 5 is not an axis of Y"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


@pytest.mark.parametrize(("type", "inputs"), [("Softmax", "x"), ("SoftmaxGradient", "xy")])
def test_never_in_place(type: str, inputs: str) -> None:
    """behaviours.md row 25."""
    with pytest.raises(SchemaError, match="in place of"):
        run(operator_def(type, list(inputs), [inputs[-1]]), [P] * len(inputs))


def test_images_are_normalised_as_a_whole() -> None:
    """behaviours.md row 24."""
    X = np.arange(24, dtype="f").reshape(2, 3, 2, 2)
    np.testing.assert_allclose(run_op("Softmax", X).reshape(2, -1).sum(1), [1, 1], rtol=1e-6)
