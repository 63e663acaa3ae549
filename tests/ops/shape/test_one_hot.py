"""OneHot, SegmentOneHot, BatchOneHot and BatchBucketOneHot: by loops and by hand; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

SIZE = np.array([4])
L, VALUES = np.array([2, 0, 3], np.int32), np.array([5, 6, 8, 5, 8], np.int32)
X = np.array([[5, 1, 5], [6, 2, 9]], np.int32)
BOUNDS = np.array([1, 2, 0, 0, 0, 0], np.float32)
BUCKETS = np.array([2, 4], np.int32)
GIVEN = np.array([[0.5, 0], [2, -1], [3, 1], [np.nan, np.nan]], np.float32)


def by_element(X: Array, lengths: Array, values: Array) -> Array:
    """Return a column for each value of each feature."""
    columns = [X[:, d] == value for d, part in enumerate(np.split(values, np.cumsum(lengths)[:-1])) for value in part]
    return np.stack(columns, axis=1).astype(X.dtype)


CASES = [
    Case("OneHot", [np.array([2, 0, 2]), SIZE], np.eye(4)[[2, 0, 2]], gradient=False),
    Case("OneHot", [np.array([2]), np.array(3)], np.eye(3)[[2]], gradient=False, id="rank 0"),
    Case("OneHot", [np.zeros(0, np.int64), SIZE], np.zeros((0, 4)), gradient=False, id="nothing"),
    Case(
        "SegmentOneHot",
        [np.array([2, 0, 1], np.int32), np.array([0, 3, 3, 9]), SIZE],
        np.array([[1, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 1]]),
        gradient=False,
    ),
    Case("BatchOneHot", [X, L, VALUES], by_element, gradient=False),
    Case("BatchOneHot", [X.astype(np.int64)[:0], L, VALUES.astype(np.int64)], np.zeros((0, 5)), gradient=False),
    Case("BatchOneHot", [X[:, 0].copy(), L[:1], VALUES[:2]], np.eye(2), gradient=False, id="one feature"),
    Case(
        "BatchBucketOneHot",
        [GIVEN, BUCKETS, BOUNDS],
        np.concatenate([np.eye(3)[[0, 1, 2, 1]], np.eye(5)[[2, 0, 4, 2]]], axis=1),
        gradient=False,
        id="in the middle of equal boundaries, and of all for NaN",
    ),
    Case("BatchBucketOneHot", [GIVEN[:0], BUCKETS, BOUNDS], np.zeros((0, 8)), gradient=False, id="nothing"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    # Caffe2 writes beside the row.
    ("OneHot", [np.array([0, 4]), SIZE], {}, NumericError, r"X\[1\] is 4, not in \[0, 4\)"),
    ("OneHot", [np.array([-1]), SIZE], {}, NumericError, r"X\[0\] is -1"),
    ("OneHot", [np.array([0]), np.array([1, 2])], {}, ShapeError, "size has the shape"),
    ("SegmentOneHot", [L, np.array([0, 1, 2, 3, 4]), SIZE], {}, NumericError, r"X\[4\] is 4"),
    ("SegmentOneHot", [L, np.array([0, 1]), SIZE], {}, NumericError, "the lengths add up to 5, and X has 2 elements"),
    ("SegmentOneHot", [L[1:2], np.array([0]), np.array([0])], {}, ShapeError, "size = 0"),
    ("BatchOneHot", [X, L[:2], VALUES], {}, ShapeError, "X has 3 features in a row, and there are 2 lengths"),
    ("BatchOneHot", [X, L, VALUES[1:]], {}, NumericError, "the lengths add up to 5, and there are 4 values"),
    ("BatchOneHot", [X, np.array([6, -1, 0], "i"), VALUES], {}, NumericError, r"lengths\[1\] is -1"),
    ("BatchOneHot", [X[0, 0], L[:1], VALUES[:2]], {}, ShapeError, "X has rank 0"),
    ("BatchBucketOneHot", [GIVEN, np.array([6, 0], "i"), BOUNDS], {}, NumericError, r"lengths\[1\] is 0"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
