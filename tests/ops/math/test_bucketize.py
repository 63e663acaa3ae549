"""Bucketize and BatchBucketize: by counting; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

NAN = float("nan")
X = np.array([[0.5, 7, 1], [2, NAN, 9], [5, 6, 2]], np.float32)
AT, BOUNDS, LENGTHS = (
    np.array([2, 0, 2], np.int32),
    np.array([1, 2, 5, 0, 9], np.float32),
    np.array([3, 0, 2], np.int32),
)


def counted(X: Array, at: Array, bounds: Array, lengths: Array) -> Array:
    """Return how many boundaries lie below each element."""
    parts = np.split(bounds, np.cumsum(lengths)[:-1])
    return np.array([[sum(bound < row[d] for bound in part) for d, part in zip(at, parts, strict=True)] for row in X])


CASES = [
    Case("Bucketize", [X], np.array([[0, 2, 0], [1, 0, 2], [1, 2, 1]]), {"boundaries": [1.0, 5.0]}),
    Case("Bucketize", [X], np.zeros((3, 3)), id="one bucket"),
    Case("Bucketize", [X[0]], np.array([0, 3, 0]), {"boundaries": [1.0, 1.0, 2.0]}, id="equal boundaries"),
    Case("BatchBucketize", [X, AT, BOUNDS, LENGTHS], counted),
    Case("BatchBucketize", [X, AT[:0], BOUNDS[:0], LENGTHS[:0]], np.zeros((3, 0)), id="no feature"),
    Case("BatchBucketize", [X, AT[:1] - 1, BOUNDS[:3], LENGTHS[:1]], np.array([[3], [3], [3]]), id="NaN"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("count", [0, 1, 20, 256, 257, 511, 512, 1000])
def test_few_and_many_boundaries(count: int) -> None:
    draw = np.random.default_rng(count)
    X = np.round(draw.standard_normal(3001) * 3, 1).astype(np.float32)
    X[:6] = NAN, np.inf, -np.inf, 0, -0.0, 1e30
    bounds = np.sort(np.round(draw.standard_normal(count) * 3, 1)).astype(np.float32)
    bounds[:1], bounds[-1:] = -np.inf, np.inf
    found = [run_op("Bucketize", X, engine=engine, boundaries=bounds.tolist()) for engine in ("native", "reference")]
    np.testing.assert_array_equal(*found)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("Bucketize", [X], {"boundaries": [2.0, 1.0]}, ArgumentError, "are not sorted"),
    ("Bucketize", [X[0, 0]], {}, ShapeError, "X"),
    ("BatchBucketize", [X, AT + 1, BOUNDS, LENGTHS], {}, NumericError, r"indices\[0\] is 3, not in \[0, 3\)"),
    ("BatchBucketize", [X, AT, BOUNDS[1:], LENGTHS], {}, NumericError, r"lengths\[2\] = 2 ends at 5"),
    ("BatchBucketize", [X, AT, BOUNDS, np.array([6, -1, 0], "i")], {}, NumericError, r"lengths\[1\] is -1"),
    ("BatchBucketize", [X, AT[:2], BOUNDS, LENGTHS], {}, ShapeError, "lengths"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
