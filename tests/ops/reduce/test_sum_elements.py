"""SumElements, SumElementsInt, SumSqrElements: against Python's sums; and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, GradientError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
X = np.random.default_rng(1).standard_normal((2, 3, 5)).astype(np.float32)


def total(X: Array) -> Any:
    """Return the sum, in Python's float."""
    return np.array(math.fsum(X.ravel().tolist()), X.dtype)


def squares(X: Array) -> Any:
    """Return the sum of squares, in Python's float."""
    return np.array(math.fsum(x * x for x in X.ravel().tolist()), X.dtype)


def mean(X: Array) -> Any:
    """Return the mean."""
    return total(X) / X.size


def mean_square(X: Array) -> Any:
    """Return the mean of squares."""
    return squares(X) / X.size


def shared(X: Array, dY: Array) -> Array:
    """Return an equal share of dY for every element of X."""
    return np.full(X.shape, dY.item() / X.size)


AVERAGE = {"average": True}

CASES = [
    Case("SumElements", [X], total, batched=(0,), slack=4),
    Case("SumElements", [X], mean, AVERAGE, slack=4, id="average"),
    Case("SumElements", [X[0, 0, 0]], total, id="rank 0"),
    Case("SumElementsGradient", [X, X[0, 0, :1]], shared, AVERAGE, batched=(0,)),
    Case("SumElementsInt", [np.arange(-2, 10, dtype="i").reshape(3, 4)], np.array(42, "i"), batched=(0,)),
    Case("SumElementsInt", [np.array([2**31 - 1, 1], "i")], np.array(-(2**31), "i"), id="wraps around"),
    Case("SumSqrElements", [X], squares, batched=(0,), slack=4),
    Case("SumSqrElements", [X.astype("d")], mean_square, AVERAGE, id="average of float64"),
]


@on_all_engines(CASES)
def test_sum_elements(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_the_average_of_nothing_is_0() -> None:
    assert run_op("SumElements", np.zeros((0, 3), "f"), average=True) == 0


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    ("SumElements", [X.astype("d")], DTypeError, "X is float64, it must be float32"),
    ("SumElementsInt", [X], DTypeError, "X is float32, it must be int32"),
    ("SumSqrElements", [X.astype("i")], DTypeError, "X is int32, it must be float32 or float64"),
    ("SumElementsGradient", [X, X[0, 0, :2]], ShapeError, r"dY has the shape \(2\), it must have 1 element"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)


@pytest.mark.parametrize("type", ["SumElementsInt", "SumSqrElements"])
def test_no_gradient(type: str) -> None:
    with pytest.raises(GradientError, match=type):
        gradient_for_op(find_schema(type).view(operator_def(type, ["x"], ["y"])), ["dy"])
