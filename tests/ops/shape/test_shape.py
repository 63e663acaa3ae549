"""Shapes and sizes of blobs: by hand; all axes or some; what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

X = np.zeros((3, 2, 5), np.float32)
CASES = [
    Case("Shape", [X], np.array([3, 2, 5])),
    Case("Shape", [X], np.array([5, 3]), {"axes": [2, 0]}, id="axes"),
    Case("Shape", [X.astype(np.int32)], np.array([2, 2]), {"axes": [1, 1]}, id="one twice"),
    Case("Shape", [np.zeros((0, 4), bool)], np.array([0, 4]), id="nothing"),
    Case("Shape", [np.array(3.0)], np.zeros(0, np.int64), id="a number"),
    Case("Size", [X], np.array(30), gradient=False),
    Case("Size", [np.array([b"a", b"b"], object)], np.array(2), gradient=False, id="text"),
    Case("HasElements", [X[:0], X], np.array(True), gradient=False),
    Case("HasElements", [X[:0], np.zeros((2, 0), np.int32)], np.array(False), gradient=False, id="nothing"),
    Case("IsEmpty", [X], np.array(False)),
    Case("IsEmpty", [np.zeros((3, 0, 2), np.int64)], np.array(True), id="nothing"),
    Case("IsEmpty", [np.array([b""], object)], np.array(False), id="text"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("axis", [3, -1])
def test_refused(axis: int) -> None:
    with pytest.raises(ShapeError, match=rf"axes = \[0, {axis}\] are not all axes of X"):
        run_op("Shape", X, axes=[0, axis])
