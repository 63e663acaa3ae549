"""RowMul and ReduceTailSum: against loops over rows; what RowMul emits, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
X = np.random.default_rng(0).standard_normal((3, 2, 5)).astype("f")
W = np.array([2, -1, 0.5], "f")


def by_rows(X: Array, w: Array) -> Array:
    """Return Y, row by row."""
    return np.array([row * number for row, number in zip(X, w.ravel(), strict=True)]).reshape(X.shape)


def sums(X: Array) -> Array:
    """Return the sum of each row."""
    return np.array([sum(row.ravel().tolist()) for row in X])


CASES = [
    Case("RowMul", [X, W], by_rows),
    Case("RowMul", [X[:, :, 0], W[:, np.newaxis]], by_rows, gradient=False, id="w of another rank"),
    Case("RowMul", [W, W], by_rows, id="rank 1"),
    Case("RowMul", [X[:0], W[:0]], by_rows, id="no rows"),
    Case("RowMul", [X[:, :0], W], by_rows, id="rows without elements"),
    Case("ReduceTailSum", [X], sums),
    Case("ReduceTailSum", [W], sums, id="rank 1"),
    Case("ReduceTailSum", [X[:, :0]], np.zeros(3), id="rows without elements"),
]


@on_all_engines(CASES)
def test_row_mul(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_emitted() -> None:
    """A product with dY for the numbers, which is summed over each row."""
    op = find_schema("RowMul").view(operator_def("RowMul", ["x", "w"], ["y"]))
    emitted, inputs = gradient_for_op(op, ["dy"])
    assert [(op.type, list(op.input), list(op.output)) for op in emitted] == [
        ("RowMul", ["dy", "w"], ["x_grad"]),
        ("Mul", ["dy", "x"], ["w_gradbefore_aggregate"]),
        ("ReduceTailSum", ["w_gradbefore_aggregate"], ["w_grad"]),
    ]
    assert inputs == ["x_grad", "w_grad"]


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    ("RowMul", [X, W[:2]], ShapeError, r"w has the shape \(2\), X has 3 rows"),
    ("RowMul", [X, W[:1]], ShapeError, r"w has the shape \(1\), X has 3 rows"),
    ("RowMul", [np.array(2, "f"), W[:1]], ShapeError, "X"),
    ("RowMul", [X, W.astype("d")], DTypeError, "w is float64, it must be float32"),
    ("ReduceTailSum", [np.array(2, "f")], ShapeError, "X"),
    ("ReduceTailSum", [X.astype("i")], DTypeError, "X is int32, it must be float32"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)
