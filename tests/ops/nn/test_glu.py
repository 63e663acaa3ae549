"""Glu: against the formula for each element; and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
X = np.random.default_rng(0).standard_normal((2, 4, 6)).astype("f")
FAR = np.array([[1, 2, 3, -200, 200, -math.inf]], "f")


def gated(axis: int) -> Any:
    """Return Y element by element."""

    def function(X: Array) -> Array:
        K = X.shape[axis] // 2
        A, B = np.take(X, range(K), axis), np.take(X, range(K, 2 * K), axis)
        found = [a / (1 + math.exp(-b)) for a, b in zip(A.ravel().tolist(), B.ravel().tolist(), strict=True)]
        return np.array(found).reshape(A.shape)

    return function


CASES = [
    Case("Glu", [X], gated(2)),
    Case("Glu", [X], gated(1), {"dim": 1}, batched=(0,)),
    Case("Glu", [X], gated(0), {"dim": 0}),
    Case("Glu", [X[0, 0]], gated(0), id="rank 1"),
    Case("Glu", [FAR], np.array([[0, 2, 0]]), id="far from 0"),
    Case("Glu", [X[:, :, :0]], np.zeros((2, 4, 0)), id="no elements"),
]


@on_all_engines(CASES)
def test_glu(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (X[:, :3], {"dim": 1}, ShapeError, r"X has the shape \(2, 3, 6\), with 3 elements along dim = 1"),
    (X, {"dim": 3}, ShapeError, "dim = 3 is not an axis of X"),
    (X, {"dim": -2}, ArgumentError, "dim"),
    (np.array(1, "f"), {}, ShapeError, "X must have at least one dimension"),  # Caffe2 ends the process
    (X.astype("d"), {}, DTypeError, "X is float64, it must be float32"),
]


@pytest.mark.parametrize(("X", "args", "error", "text"), REFUSED)
def test_refused(X: Any, args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Glu", X, **args)
