"""Abs, Sign, Negative, Reciprocal, Floor, Ceil and their gradients."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, GradientError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.array([[-1.5, 0.25, 3.0], [2.25, -0.5, -4.0]], np.float32)
DY = X + 10
ODD = np.array([-np.inf, -0.0, 0, np.inf, np.nan], "f")
N = np.array([-(2**40), 0, 7])


def whole(x: Array, up: int) -> Array:
    """Return whole numbers, rounded down or up."""
    return np.array([math.ceil(v) if up else math.floor(v) for v in x.reshape(-1).tolist()]).reshape(x.shape)


CASES = [
    Case("Abs", [X], np.maximum(X, -X), batched=(0,)),
    Case("Abs", [ODD], np.array([np.inf, 0, 0, np.inf, np.nan]), gradient=False, id="odd"),  # no slope at infinity
    Case("AbsGradient", [X, DY], np.where(X < 0, -DY, DY), batched=(0, 1)),
    Case("AbsGradient", [np.zeros(2, "f"), np.ones(2, "f")], np.zeros(2), id="at 0"),
    Case("Sign", [X], np.where(X < 0, -1, 1), batched=(0,)),
    Case("Sign", [ODD], np.array([-1, 0, 0, 1, np.nan]), id="odd"),
    Case("Sign", [N], np.array([-1, 0, 1]), id="int64"),
    Case("Sign", [N.astype("i") * 3], np.array([0, 0, 1]), id="int32"),
    Case("Sign", [X.astype("d")], np.where(X < 0, -1, 1), id="float64"),
    Case("Negative", [X], 0 - X, batched=(0,)),
    # Integers have no derivative.
    Case("Negative", [N], 0 - N, gradient=False, id="int64"),
    Case("Reciprocal", [X], np.exp(-np.log(np.abs(X))) * np.sign(X), batched=(0,)),
    Case("Reciprocal", [ODD], np.array([0, -np.inf, np.inf, 0, np.nan]), gradient=False, id="odd"),
    Case("ReciprocalGradient", [1 / X, DY], -DY / X / X, batched=(0, 1)),
    Case("Floor", [X], whole(X, 0), batched=(0,)),
    Case("Ceil", [X], whole(X, 1), batched=(0,)),
    Case("Floor", [ODD], ODD, id="odd"),
    Case("Ceil", [ODD], ODD, id="odd"),
]


@on_all_engines(CASES)
def test_absolute(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("Sign", "Sign must not be asked for its gradient"),
        ("Floor", "Floor has no gradient yet"),
        ("Ceil", "no gradient"),
    ],
)
def test_steps_have_no_gradient(type: str, text: str) -> None:
    with pytest.raises(GradientError, match=text):
        gradient_for_op(find_schema(type).view(operator_def(type, ["x"], ["y"])), ["dy"])


@pytest.mark.parametrize("type", ["Abs", "Reciprocal", "Floor"])
def test_integers_are_refused(type: str) -> None:
    with pytest.raises(DTypeError, match=f"{type}: X is int64, it must be float32"):
        run_op(type, N)
