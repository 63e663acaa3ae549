"""RMSNorm and its gradient: against a loop over rows; and what is refused."""

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


def values(*shape: int, seed: int = 0, dtype: str = "f") -> Array:
    """Return numbers of that shape."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def by_rows(axis: int, eps: float = 0.0) -> Any:
    """Return Y and rrms by a loop over the rows."""

    def function(X: Array, gamma: Array, beta: Array) -> tuple[Array, Array]:
        Y, rrms = np.zeros(X.shape), np.zeros(X.shape[:axis])
        for row in np.ndindex(*X.shape[:axis]):
            squares = [float(one) ** 2 for one in X[row].ravel()]
            rrms[row] = 1 / math.sqrt(sum(squares) / len(squares) + eps)
            Y[row] = (X[row].ravel() * rrms[row] * gamma.ravel() + beta.ravel()).reshape(X[row].shape)
        return Y, rrms

    return function


def by_matrix(dY: Array, X: Array, gamma: Array, rrms: Array) -> tuple[Array, Array, Array]:
    """Return the gradients by the whole matrix of derivatives of each row."""
    dX, z, n = np.zeros(X.shape), X * rrms[:, np.newaxis].astype("d"), X.shape[1]
    for row in range(len(X)):
        matrix = rrms[row] * (np.eye(n) - np.outer(z[row], z[row]) / n)
        dX[row] = matrix @ (dY[row] * gamma)
    return dX, (dY * z).sum(0), dY.sum(0)


X, GAMMA, BETA = values(3, 5), values(5, seed=1), values(5, seed=2)
RRMS = by_rows(1)(X, GAMMA, BETA)[1].astype("f")
# Nothing goes back through rrms: the gradient is checked by itself.
CASES = [
    Case("RMSNorm", [X, GAMMA, BETA], by_rows(1), gradient=False, batched=(0,)),
    Case("RMSNorm", [X.astype("d"), GAMMA.astype("d"), BETA.astype("d")], by_rows(1), gradient=False, id="float64"),
    Case("RMSNorm", [X, GAMMA, BETA], by_rows(1, 0.5), {"eps": 0.5}, gradient=False, id="eps"),
    Case(
        "RMSNorm",
        [values(2, 3, 4), values(3, 4, seed=1), values(12, seed=2)],
        by_rows(1),
        gradient=False,
        id="shapes of gamma",
    ),
    Case("RMSNorm", [values(2, 3, 5), GAMMA, BETA], by_rows(2), {"axis": -1}, gradient=False, id="axis -1"),
    Case(
        "RMSNorm",
        [values(2, 3), values(6, seed=1), values(6, seed=2)],
        by_rows(0),
        {"axis": 0},
        gradient=False,
        id="axis 0",
    ),
    Case("RMSNorm", [X[:0], GAMMA, BETA], (np.zeros((0, 5)), np.zeros(0)), id="no rows"),
    Case("RMSNormGradient", [values(3, 5, seed=3), X, GAMMA, RRMS], by_matrix),
    Case(
        "RMSNormGradient",
        [values(3, 5, seed=3).ravel(), X, GAMMA, RRMS[:, np.newaxis]],
        by_matrix(values(3, 5, seed=3), X, GAMMA, RRMS),
        id="as many elements",
    ),
    Case(
        "RMSNormGradient", [X[:0], X[:0], GAMMA, RRMS[:0]], (np.zeros((0, 5)), np.zeros(5), np.zeros(5)), id="no rows"
    ),
]


@on_all_engines(CASES)
def test_rms_norm(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("RMSNorm", [X[0], GAMMA[:1], BETA[:1]], {"axis": 0}, ShapeError, "needs at least 2"),
    ("RMSNorm", [X, GAMMA[:3], BETA], {}, ShapeError, r"gamma has the shape \(3\), a row of X from axis 1 on has 5"),
    ("RMSNorm", [X, GAMMA, BETA], {"axis": 2}, ShapeError, "axis = 2 is not an axis of X"),
    ("RMSNorm", [X.astype("d"), GAMMA, BETA], {}, DTypeError, "gamma is float32, it must be float64"),
    ("RMSNorm", [X.astype("i")] * 3, {}, DTypeError, "X is int32"),
    # Caffe2 reads behind the end of the smaller one.
    ("RMSNormGradient", [X[:, :3], X, GAMMA, RRMS], {}, ShapeError, r"dY has the shape \(3, 3\), X \(3, 5\)"),
    ("RMSNormGradient", [X, X, GAMMA, RRMS[:2]], {}, ShapeError, r"rrms has the shape \(2\), the rows of X \(3\)"),
    ("RMSNormGradient", [X, X, GAMMA[:3], RRMS], {}, ShapeError, r"gamma has the shape \(3\)"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
