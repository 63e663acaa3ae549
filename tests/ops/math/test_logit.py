"""Logit: the inverse of the logistic function, within its limits; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.array([[0.3, 0.5, 0.89], [-1, 2, 0.11]], np.float32)
KEPT = np.array([[0.3, 0.5, 0.89], [0.1, 0.9, 0.11]])
SLOPE = np.array([[1, 1, 1], [0, 0, 1]]) / (KEPT * (1 - KEPT))
CASES = [
    Case("Logit", [X], -np.log(1 / KEPT - 1), {"eps": 0.1}),
    Case("Logit", [np.array([0, 1, np.nan], "f")], np.array([-13.81551, 13.802318, np.nan]), gradient=False, id="ends"),
    Case("LogitGradient", [X, X + 1], SLOPE * (X + 1), {"eps": 0.1}),
    Case(
        "LogitGradient", [np.array([0.0], "f"), np.array([1.0], "f")], np.array([np.inf]), {"eps": 0.0}, gradient=False
    ),
]


def test_it_is_the_inverse_of_the_logistic_function() -> None:
    np.testing.assert_allclose(run_op("Sigmoid", run_op("Logit", KEPT.astype("f"))), KEPT, rtol=1e-5)


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    *(("Logit", [X], {"eps": eps}, ArgumentError, "eps = ") for eps in (0.0, 0.5, -0.1)),
    ("Logit", [X.astype("d")], {}, DTypeError, "float64"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
