"""Percentile and BisectPercentile: against NumPy's lines through points; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, NumericError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
SAMPLES = np.array([[10, 0], [20, 0.5], [40, 1], [1, 0.2], [3, 0.8]], "f")
LENGTHS = np.array([3, 2], "i")
X = np.array([[15, 2], [10, 1], [40, 3], [5, 0], [50, 9], [20, 1.5]], "f")
TABLE: dict[str, Any] = {
    "percentile_raw": [10.0, 20.0, 40.0, 1.0, 3.0],
    "percentile_mapping": [0.0, 0.5, 1.0, 0.2, 0.8],
    "percentile_lower": [0.0, 0.4, 0.9, 0.1, 0.7],
    "percentile_upper": [0.1, 0.6, 1.0, 0.3, 0.9],
    "lengths": [3, 2],
}
ONE: dict[str, Any] = {
    "percentile_raw": [1.0],
    "percentile_mapping": [0.5],
    "percentile_lower": [0.25],
    "percentile_upper": [0.75],
    "lengths": [1],
}


def lines(X: Array, samples: Array, lengths: Array) -> Array:
    """Return percentiles as NumPy interpolates."""
    Y, start = np.zeros(X.shape), 0
    for d, n in enumerate(lengths.ravel().tolist()):
        values, percentiles = samples[start : start + n].T
        Y[:, d] = np.interp(X[:, d], values, percentiles, left=0, right=1)
        start += n
    return Y


def column(*values: float) -> Array:
    """Return values of one feature."""
    return np.array(values, "f")[:, np.newaxis]


TIES = np.array([[1, 0.1], [1, 0.2], [2, 0.3], [2, 0.4]], "f")
CASES = [
    Case("Percentile", [X, SAMPLES, LENGTHS], lines),
    Case("Percentile", [X, SAMPLES, LENGTHS[:, np.newaxis]], lines, id="lengths of another rank"),
    Case("Percentile", [X[:0], SAMPLES, LENGTHS], np.zeros((0, 2)), id="no rows"),
    Case("Percentile", [column(1, 1.5, 2), TIES, np.array([4], "i")], column(0.1, 0.25, 0.3), id="ties: the first"),
    Case("Percentile", [column(1, 2, 0), TIES[:1], np.array([1], "i")], column(0.1, 1, 0), id="one sample"),
    Case("Percentile", [X[:1], SAMPLES[:3], np.array([3, 0], "i")], np.array([[0.25, 1]]), id="no samples"),
    Case("Percentile", [column(np.nan, np.inf, -np.inf), TIES, np.array([4], "i")], column(0, 1, 0), id="odd numbers"),
    Case(
        "BisectPercentile",
        [X],
        np.array([[0.25, 0.5], [0, 0.2], [1, 0.8], [0, 0], [1, 1], [0.5, 0.4]]),
        TABLE,
    ),
    Case("BisectPercentile", [column(0, 1, 2, np.nan)], column(0, 0.5, 1, np.nan), ONE, id="one sample"),
    Case("BisectPercentile", [X[:0]], np.zeros((0, 2)), TABLE, id="no rows"),
    Case(
        "BisectPercentile",
        [column(1, 2)],
        column(0.2, 0.5),
        {
            "percentile_raw": [1.0, 1.0, 3.0],
            "percentile_mapping": [0.1, 0.2, 0.9],
            "percentile_lower": [0.0, 0.0, 0.6],
            "percentile_upper": [0.3, 0.4, 1.0],
            "lengths": [3],
        },
        id="ties: the last",
    ),
]


@on_all_engines(CASES)
def test_percentile(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("Percentile", [X, SAMPLES, LENGTHS[:1]], {}, ShapeError, r"lengths has the shape \(1\), X has 2 features"),
    ("Percentile", [X, SAMPLES, LENGTHS + 1], {}, ShapeError, "the sum of lengths is 7, there are 5 samples"),
    ("Percentile", [X, SAMPLES, np.array([6, -1], "i")], {}, NumericError, r"lengths\[1\] is -1"),
    ("Percentile", [X[0], SAMPLES, LENGTHS], {}, ShapeError, "X has rank 1"),
    ("Percentile", [X, SAMPLES.T, LENGTHS], {}, ShapeError, "samples"),
    ("Percentile", [X, SAMPLES, LENGTHS.astype("q")], {}, DTypeError, "lengths is int64, it must be int32"),
    ("BisectPercentile", [X[:, :1]], TABLE, ShapeError, "X has 1 features, lengths has 2 elements"),
    ("BisectPercentile", [X], {**TABLE, "lengths": [3, 1]}, ArgumentError, "the sum of lengths is 4, .* has 5"),
    # Caffe2 reads the samples of another feature.
    ("BisectPercentile", [X], {**TABLE, "lengths": [5, 0]}, ArgumentError, r"lengths = \[5, 0\]"),
    (
        "BisectPercentile",
        [X],
        {**TABLE, "percentile_lower": [0.5]},
        ArgumentError,
        "percentile_lower has 1 elements, percentile_raw has 5",
    ),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
