"""RowwiseMax, ColwiseMax and their gradients: against sorting; ties, NaN, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
NAN = float("nan")

X = np.random.default_rng(0).permutation(30).reshape(2, 3, 5).astype(np.float32)
ROWS, COLUMNS = np.sort(X, axis=2)[..., -1], np.sort(X, axis=1)[:, -1]
D_ROWS, D_COLUMNS = np.arange(6, dtype="f").reshape(2, 3) + 1, np.arange(10, dtype="f").reshape(2, 5) + 1
ODD = np.array([[[NAN, 1, 2], [1, NAN, 3], [3, 1, NAN], [NAN, NAN, NAN]]], "f")
TIE = np.array([[[2, 1, 2], [0, 1, 3]]], "f")


def spread(axis: int) -> Any:
    """Return a gradient that looks at each element."""

    def function(X: Array, Y: Array, dY: Array) -> Array:
        dX = np.zeros_like(X)
        for b, m, n in np.ndindex(*X.shape):
            line = (b, m) if axis == 2 else (b, n)
            if X[b, m, n] == Y[line]:
                dX[b, m, n] = dY[line]
        return dX

    return function


def dx_of_rows() -> Array:
    """Return the gradient of X by D_ROWS."""
    return spread(2)(X, ROWS, D_ROWS)


CASES = [
    Case("RowwiseMax", [X], ROWS, batched=(0,)),
    Case("RowwiseMax", [ODD], np.array([[NAN, 3, 3, NAN]]), gradient=False, id="NaN"),  # no slope beside NaN
    Case("RowwiseMax", [X[:, :0]], np.zeros((2, 0)), id="no rows"),
    Case("ColwiseMax", [X], COLUMNS, batched=(0,)),
    Case("ColwiseMax", [ODD.transpose(0, 2, 1)], np.array([[NAN, 3, 3, NAN]]), gradient=False, id="NaN"),
    Case("RowwiseMaxGradient", [X, ROWS, D_ROWS], spread(2), batched=(0, 1, 2)),
    Case(
        "RowwiseMaxGradient", [TIE, TIE.max(2), np.array([[5, 7]], "f")], np.array([[[5, 0, 5], [0, 0, 7]]]), id="ties"
    ),
    Case("RowwiseMaxGradient", [X, ROWS.ravel(), D_ROWS.ravel()], dx_of_rows(), id="flat"),
    Case("ColwiseMaxGradient", [X, COLUMNS, D_COLUMNS], spread(1), batched=(0, 1, 2)),
]


@on_all_engines(CASES)
def test_row_max(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    ("RowwiseMax", [X[0]], ShapeError, "X"),
    ("RowwiseMax", [X.astype("d")], DTypeError, "X is float64, it must be float32"),
    # Caffe2 ends the process.
    ("RowwiseMax", [X[:, :, :0]], ShapeError, r"X has the shape \(2, 3, 0\)"),
    ("ColwiseMax", [X[:, :0]], ShapeError, r"X has the shape \(2, 0, 5\)"),
    # Caffe2 reads behind the end of the smaller one.
    (
        "RowwiseMaxGradient",
        [X, ROWS[:1], D_ROWS],
        ShapeError,
        r"Y has the shape \(1, 3\), the largest of X \(2, 3\)",
    ),
    ("ColwiseMaxGradient", [X, COLUMNS, D_ROWS], ShapeError, r"dY has the shape \(2, 3\), the largest of X \(2, 5\)"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)
