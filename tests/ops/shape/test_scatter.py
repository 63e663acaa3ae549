"""Scatter and ScatterAssign: by loops; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError, TazzaError
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, engines_of, on_all_engines, run

Array = NDArray[Any]

X = np.random.default_rng(3).standard_normal((3, 4, 2)).astype(np.float32)
AT = np.array([[[3, 0], [1, 1], [3, 2]], [[0, 0], [0, 0], [1, 3]]])
U = np.random.default_rng(4).standard_normal((2, 3, 2)).astype(np.float32)
ROWS = np.array([2, 0, 2], np.int32)


def by_element(X: Array, indices: Array, updates: Array) -> Array:
    """Return X with updates along axis 1, one after the other."""
    Y = X.copy()
    for b, i, s in np.ndindex(*indices.shape):
        Y[b, indices[b, i, s], s] = updates[b, i, s]
    return Y


CASES = [
    Case("Scatter", [X, AT, U], by_element, gradient=False),
    Case("Scatter", [X, AT.astype(np.int32), U], by_element, {"axis": -2}, gradient=False, id="an axis from the end"),
    Case(
        "Scatter",
        [X, AT[:1, :, :1].copy(), U.ravel()],
        by_element(X, AT[:1, :, :1], U.ravel()[:3].reshape(1, 3, 1)),
        gradient=False,
        id="fewer, and more updates",
    ),
    Case("Scatter", [X, AT[:0], U[:0]], X, gradient=False, id="nothing"),
    Case(
        "Scatter",
        [X[:, 0, 0].copy(), ROWS, U[0, :, 0].copy()],
        np.array([U[0, 1, 0], X[1, 0, 0], U[0, 2, 0]]),
        {"axis": 0},
        gradient=False,
        id="a list",
    ),
]


@pytest.mark.parametrize("rows", [ROWS, ROWS.astype(np.int64).reshape(3, 1)])
@pytest.mark.parametrize("engine", engines_of("ScatterAssign"))
def test_rows_are_assigned_in_turn(rows: Array, engine: str) -> None:
    given = np.arange(24, dtype="f").reshape(3, 4, 2)
    (Y,), _ = run(operator_def("ScatterAssign", ["X", "i", "U"], ["X"]), [X.copy(), rows, given], engine)
    np.testing.assert_array_equal(Y, np.stack([given[1], X[1], given[2]]))


def test_no_rows_are_assigned() -> None:
    none = np.zeros(0, np.int32)
    for x in (X, X[:0]):
        (Y,), _ = run(operator_def("ScatterAssign", ["X", "i", "U"], ["X"]), [x.copy(), none, X[:0]])
        np.testing.assert_array_equal(Y, x)


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("Scatter", [X, AT + 1, U], {}, NumericError, r"indices\[0, 0, 0\] is 4, not in \[0, 4\)"),
    ("Scatter", [X, AT - 1, U], {}, NumericError, r"indices\[0, 0, 1\] is -1"),
    ("Scatter", [X, AT, U[:1]], {}, ShapeError, "one update for each index"),
    ("Scatter", [X[:1], AT, U], {}, ShapeError, "it cannot have more than X"),
    ("Scatter", [X[..., :1], AT, U], {}, ShapeError, "it cannot have more than X"),
    ("Scatter", [X, AT[0, 0], U], {}, ShapeError, "it has no axis 1"),
    ("Scatter", [X, AT, U], {"axis": 3}, ShapeError, "axis = 3"),
    ("Scatter", [X, AT, U.astype("d")], {}, DTypeError, "updates"),
    ("ScatterAssign", [X, ROWS + 1, X], {}, NumericError, r"indices\[0\] is 3"),
    ("ScatterAssign", [X, ROWS, X[:2]], {}, ShapeError, "one row for each index"),
    ("ScatterAssign", [X[0, 0, 0], ROWS[:0], X[:0]], {}, ShapeError, "X has rank 0"),
    ("ScatterAssign", [X.astype(bool), ROWS, X.astype(bool)], {}, DTypeError, "X is bool"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
