"""Mish and its gradient: against exponentials of float64, far from 0 against the limits; and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
X = np.random.default_rng(0).standard_normal((2, 3, 5)).astype("f") * 4
DY = np.random.default_rng(1).standard_normal((2, 3, 5)).astype("f")
FAR = np.array([-1000, -100, 0, 100, 1000], "f")


def rational(X: Array) -> Array:
    """Return Y = X * (e * e + 2 * e) / (e * e + 2 * e + 2), with e = exp(X): no tanh, no logarithm."""
    e = np.exp(X.astype("d"))
    return X * (e * e + 2 * e) / (e * e + 2 * e + 2)


def slope(X: Array, Y: Array, dY: Array) -> Array:
    """Return the derivative of that quotient, times dY."""
    x = X.astype("d")
    e = np.exp(x)
    top = 4 * (x + 1) + 4 * e * e + e**3 + e * (4 * x + 6)
    return dY.reshape(X.shape) * e * top / (2 * e + e * e + 2) ** 2


CASES = [
    Case("Mish", [X], rational),
    Case("Mish", [X.astype("d")], rational, id="float64"),
    Case("Mish", [FAR], np.array([0, -100 * math.exp(-100), 0, 100, 1000]), gradient=False, id="far from 0"),
    Case("Mish", [X[:, :0]], rational, id="nothing"),
    Case("MishGradient", [X, X, DY], slope),
    Case("MishGradient", [X.astype("d"), X.astype("d"), DY.astype("d")], slope, id="float64"),
    Case("MishGradient", [X, X.ravel(), DY.reshape(5, 6)], slope, id="as many elements"),
    Case("MishGradient", [FAR, FAR, np.full(5, 2, "f")], np.array([0, 0, 1.2, 2, 2]), id="far from 0"),
]


@on_all_engines(CASES)
def test_mish(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    ("Mish", [X.astype("i")], DTypeError, "X is int32"),
    ("MishGradient", [X, X[0], DY], ShapeError, "Y"),
    ("MishGradient", [X, X, DY[0]], ShapeError, "dY"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)
