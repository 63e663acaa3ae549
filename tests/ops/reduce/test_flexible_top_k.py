"""FlexibleTopK and its gradient: against sorting each row; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
X = np.random.default_rng(0).permutation(30).reshape(2, 3, 5).astype("f")
K = np.array([1, 5, 2, 3, 1, 4])
DV = np.arange(16, dtype="f") + 1
TIES = np.array([[2, 7, 2, 7], [0, 0, 0, 0]], "f")


def by_sorting(X: Array, K: Array) -> tuple[Array, Array]:
    """Return V and P by Python's own sort, row by row."""
    values: list[float] = []
    taken: list[int] = []
    for row, k in zip(X.reshape(-1, X.shape[-1]).tolist(), K.ravel().tolist(), strict=True):
        places = sorted(range(len(row)), key=lambda j: (-row[j], j))[:k]
        values += [row[j] for j in places]
        taken += places
    return np.array(values), np.array(taken, np.int64)


def spread(X: Array, K: Array, dV: Array, P: Array) -> Array:
    """Return dX, element by element."""
    dX, t = np.zeros(X.shape), 0
    for row, k in zip(dX.reshape(-1, X.shape[-1]), K.ravel().tolist(), strict=True):
        for _ in range(k):
            row[P[t]] = dV[t]
            t += 1
    return dX


P = by_sorting(X, K)[1]
CASES = [
    Case("FlexibleTopK", [X, K], by_sorting),
    Case("FlexibleTopK", [X, K.reshape(2, 3)], by_sorting, id="K as the rows lie"),
    Case("FlexibleTopK", [X[0, 0], np.array(2)], by_sorting, id="one row"),
    Case("FlexibleTopK", [TIES, np.array([3, 2])], by_sorting, gradient=False, id="ties"),
    Case("FlexibleTopK", [X[:0], K[:0]], (np.zeros(0), np.zeros(0, np.int64)), id="no rows"),
    Case("FlexibleTopKGradient", [X, K, DV, P], spread),
    Case("FlexibleTopKGradient", [X, K, np.append(DV, DV[:1]), np.append(P, 9)], spread, id="more than K says"),
]


@on_all_engines(CASES)
def test_flexible_top_k(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    ("FlexibleTopK", [X[0], K[:2]], ShapeError, r"K has the shape \(2\), the rows of X \(3\)"),
    ("FlexibleTopK", [X[0], np.array([1, 6, 2])], NumericError, r"K\[1\] is 6, not in \[1, 6\)"),
    ("FlexibleTopK", [X[0], np.array([1, 2, 0])], NumericError, r"K\[2\] is 0, not in \[1, 6\)"),
    ("FlexibleTopK", [np.array(1, "f"), K[0]], ShapeError, "X has rank 0"),
    ("FlexibleTopK", [X, K.astype("i")], DTypeError, "K is int32, it must be int64"),
    # Caffe2 reads or writes foreign memory.
    ("FlexibleTopKGradient", [X, K, DV[:15], P[:15]], ShapeError, "dV has 15 elements, the sum of K is 16"),
    ("FlexibleTopKGradient", [X, K, DV, P + 1], NumericError, r"P\[\d+\] is 5, not in \[0, 5\)"),
    ("FlexibleTopKGradient", [X, K + 1, DV, P], NumericError, r"K\[1\] is 6, not in \[1, 6\)"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)
