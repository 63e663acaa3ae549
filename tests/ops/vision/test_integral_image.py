"""IntegralImage and its gradient: against sums over rectangles; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
X = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype("f")
DY = np.random.default_rng(1).standard_normal((2, 3, 5, 6)).astype("f")


def rectangles(X: Array) -> Array:
    """Return the sum over each rectangle at the upper left."""
    N, C, H, W = X.shape
    Y = np.zeros((N, C, H + 1, W + 1))
    for h, w in np.ndindex(H + 1, W + 1):
        Y[:, :, h, w] = X[:, :, :h, :w].astype("d").sum((2, 3))
    return Y


def up_to_each(X: Array, dY: Array) -> Array:
    """Return the sum of dY over each rectangle that ends with the pixel."""
    dX = np.zeros(X.shape)
    for h, w in np.ndindex(*X.shape[2:]):
        dX[:, :, h, w] = dY[:, :, : h + 1, : w + 1].astype("d").sum((2, 3))
    return dX


CASES = [
    # The gradient operator of Caffe2 is no derivative: docs/differences.md.
    Case("IntegralImage", [X], rectangles, gradient=False, batched=(0,)),
    Case("IntegralImage", [X[:, :, :0]], rectangles, gradient=False, id="no rows"),
    Case("IntegralImageGradient", [X, DY], up_to_each, batched=(0, 1)),
    Case("IntegralImageGradient", [X.astype("i"), DY], up_to_each, id="only the shape of X counts"),
]


@on_all_engines(CASES)
def test_integral_image(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    ("IntegralImage", [X[0]], ShapeError, "X has rank 3"),
    ("IntegralImage", [X.astype("d")], DTypeError, "X is float64, it must be float32"),
    # Caffe2 takes what lies there for a dY of the right shape.
    ("IntegralImageGradient", [X, X], ShapeError, r"dY has the shape \(2, 3, 4, 5\), Y \(2, 3, 5, 6\)"),
    ("IntegralImageGradient", [X[0], DY], ShapeError, "X has 3 dimensions, it must have 4"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)
