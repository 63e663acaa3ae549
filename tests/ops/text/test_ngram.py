"""NGramFromCategorical: by counting through all combinations; what is refused."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.array([[1, 2, 3], [4, 6, 9], [1.75, 2, 7], [4, 2, 3], [-4.5, 0, 9]], np.float32)
COLUMNS: dict[str, Any] = {"col_ids": [0, 2], "categorical_limits": [2, 3], "vals": [1, 4, 3, 7, 9]}


def counted(X: Array) -> Array:
    """Return where the combination of columns 0 and 2 stands among all, the second category slowest."""
    every = [(first, second) for second, first in product((3, 7, 9), (1, 4))]
    rows = [(int(row[0]) if int(row[0]) in (1, 4) else 1, int(row[2])) for row in X]
    return np.array([every.index(row) for row in rows])


def one(*vals: int) -> dict[str, Any]:
    """Return the arguments for column 0 alone."""
    return {"col_ids": [0], "categorical_limits": [len(vals)], "vals": list(vals)}


ODD = np.array([[1.9], [-1.9], [np.nan], [np.inf], [3e9], [5]], np.float32)
MANY = {"col_ids": [0, 1, 0], "categorical_limits": [2**15] * 3, "vals": list(range(2**15)) * 3}
CASES = [
    Case("NGramFromCategorical", [X], counted, COLUMNS),
    Case("NGramFromCategorical", [X[:, :1, None]], np.array([1, 2, 1, 2, 0]), one(3, 1, 4), id="rank 3"),
    Case("NGramFromCategorical", [X[:, 0]], np.array([0, 2, 0, 2, 0]), one(1, 3, 4), id="rank 1"),
    Case("NGramFromCategorical", [ODD], np.array([1, 2, 3, 3, 3, 0]), one(3, 1, -1, -(2**31)), id="no whole numbers"),
    Case("NGramFromCategorical", [X], np.array([0, 1, 2, 0, 1]), {**one(3, 9, 7), "col_ids": [2]}, id="last column"),
    Case("NGramFromCategorical", [X[:1]], np.array([2]), {**one(3, 7, 3), "col_ids": [2]}, id="equal categories"),
    Case(
        "NGramFromCategorical",
        [np.array([[2, 32767]], np.float32)],
        np.array([2 + 32767 * 2**15 + 2 * 2**30]),
        MANY,
        id="beyond 31 bits",
    ),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[Array, dict[str, Any], type[TazzaError], str]] = [
    (X, {}, ArgumentError, "col_ids is empty"),
    (X, {**COLUMNS, "col_ids": [0, 3]}, ShapeError, "col_ids names column 3, rows of X have 3"),
    (X[:, 0], {**COLUMNS}, ShapeError, "col_ids names column 2, rows of X have 1"),
    (X, {**COLUMNS, "col_ids": [0, -1]}, ArgumentError, "columns are counted from 0"),
    (X, {**COLUMNS, "col_ids": [0]}, ArgumentError, "2 categorical_limits for 1 col_ids"),
    (X, {**COLUMNS, "categorical_limits": [5, 0]}, ArgumentError, "a column has at least one category"),
    (X, {**COLUMNS, "categorical_limits": [2, 2]}, ArgumentError, "5 vals, .* add up to 4"),
    (
        X,
        {**MANY, "col_ids": [0] * 5, "categorical_limits": [2**15] * 5, "vals": list(range(2**15)) * 5},
        ArgumentError,
        "more combinations than a number of 63 bits",
    ),
    (X.astype(np.float64), COLUMNS, DTypeError, "float64"),
    (X[0, 0], COLUMNS, ShapeError, "X"),
]


@pytest.mark.parametrize(("X", "arguments", "error", "text"), REFUSED)
def test_refused(X: Array, arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("NGramFromCategorical", X, **arguments)
