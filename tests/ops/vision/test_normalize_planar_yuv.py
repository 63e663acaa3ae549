"""NormalizePlanarYUV: one number after the other; in place; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.random.default_rng(8).standard_normal((2, 3, 4, 5)).astype(np.float32)
MEAN = np.array([[0.5, -2, 3], [9, 9, 9]], np.float32)
DEVIATION = np.array([[0.25, 4, 1.5]], np.float32)


def by_hand(X: Array, mean: Array, deviation: Array) -> Array:
    """Return Y, element by element."""
    Y = np.zeros(X.shape)
    for place in np.ndindex(*X.shape):
        Y[place] = (float(X[place]) - float(mean[0, place[1]])) / float(deviation[0, place[1]])
    return Y


TYPE = "NormalizePlanarYUV"
CASES = [
    Case(TYPE, [X, MEAN, DEVIATION], by_hand, batched=(0,)),
    Case(TYPE, [X[:, :2], MEAN[:1, :2], DEVIATION[:, :2]], by_hand, batched=(0,), id="two channels"),
    Case(TYPE, [X[:, :0], MEAN[:, :0], DEVIATION[:, :0]], X[:, :0], id="no channel"),
]


@on_all_engines(CASES)
def test_element_by_element(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_no_deviation_is_no_error() -> None:
    assert np.isinf(run_op(TYPE, X, MEAN, 0 * DEVIATION)).all()


REFUSED: list[tuple[list[Any], type[TazzaError], str]] = [
    ([X[0], MEAN, DEVIATION], ShapeError, "X has rank 3"),
    ([X, MEAN[0], DEVIATION], ShapeError, "mean has rank 1"),
    ([X, MEAN[:, :2], DEVIATION], ShapeError, "C is"),
    ([X, MEAN, DEVIATION[:, :2]], ShapeError, "C is"),
    ([X, MEAN[:0], DEVIATION], ShapeError, "mean has no row"),
    ([X.astype("d"), MEAN, DEVIATION], DTypeError, "X is float64, it must be float32"),
]


@pytest.mark.parametrize(("inputs", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(TYPE, *inputs)
