"""BatchBoxCox: by its formula in float64; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.abs(np.random.default_rng(3).standard_normal((4, 3, 2))) + 0.5
POWERS, SHIFTS = np.array([1, 0, 0.5, -2, 0, 3.0]), np.array([0, 1, 0.25, 0.5, -0.25, 1.0])


def formula(X: Array, powers: Array, shifts: Array) -> Array:
    """Return the transformation, column by column."""
    z = (X.reshape(len(X), -1) + shifts.ravel()).astype("d")
    columns = [np.log(z[:, i]) if p == 0 else (z[:, i] ** p - 1) / p for i, p in enumerate(powers.ravel())]
    return np.stack(columns, axis=1).reshape(X.shape)


CASES = [
    Case("BatchBoxCox", [X.astype("f"), POWERS.astype("f"), SHIFTS.astype("f")], formula, gradient=False, slack=10),
    Case(
        "BatchBoxCox", [X, POWERS.reshape(3, 2), SHIFTS], formula, {"min_block_size": 1}, gradient=False, id="float64"
    ),
    Case("BatchBoxCox", [X[:0], POWERS, SHIFTS], X[:0], gradient=False, id="nothing"),
    Case(
        "BatchBoxCox",
        [np.array([[-5.0, -5, np.nan]]), np.array([0, 0.5, 0]), np.zeros(3)],
        np.array([[np.log(1e-6), -1.998, np.nan]]),
        gradient=False,
        id="not below 1e-6",
    ),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("BatchBoxCox", [X, POWERS[:5], SHIFTS], {}, ShapeError, "X has 6 elements in a row, lambda1 has 5"),
    ("BatchBoxCox", [X, POWERS, SHIFTS.astype("f")], {}, DTypeError, "lambda2"),
    ("BatchBoxCox", [X[0, 0, 0], POWERS[:1], SHIFTS[:1]], {}, ShapeError, "X has rank 0"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
