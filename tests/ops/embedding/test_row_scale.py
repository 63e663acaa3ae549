"""Rows of bytes beside their scales and biases."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

X = np.array([[0, 1, 255], [-10, 0, 500]], np.float32)
CODES = np.array([[0, 1, 255], [0, 5, 255]], np.uint8)
PAIRS = np.array([[1, 0], [2, -10]], np.float32)
CASES = [
    Case("FloatToRowwiseQuantized8Bits", [X], (CODES, PAIRS)),
    Case("FloatToRowwiseQuantized8Bits", [X.reshape(2, 3, 1)], (CODES.reshape(2, 3, 1), PAIRS), id="rank 3"),
    Case("FloatToRowwiseQuantized8Bits", [X[:0]], (CODES[:0], PAIRS[:0]), id="no rows"),
    Case("Rowwise8BitQuantizedToFloat", [CODES, PAIRS], X),
    Case("Rowwise8BitQuantizedToFloat", [CODES.reshape(2, 1, 3), PAIRS], X.reshape(2, 1, 3), id="rank 3"),
    Case("Rowwise8BitQuantizedToFloat", [CODES[:, :0], PAIRS], X[:, :0], id="no numbers"),
]


@on_all_engines(CASES)
def test_rows_beside_scales(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_halves_go_up_and_nan_is_0() -> None:
    codes, _ = run_op("FloatToRowwiseQuantized8Bits", [[0, 0.5, 2.5, 255], [float("nan"), 0, 1.5, 255]], outputs=2)
    assert codes.tolist() == [[0, 1, 3, 255], [0, 0, 2, 255]]


@pytest.mark.parametrize(("apart", "scale"), [(1e-8, 1e-8 / 255), (1e-11, 1.0), (0.0, 1.0)])
def test_rows_that_hardly_differ_have_the_scale_1(apart: float, scale: float) -> None:
    _, pairs = run_op("FloatToRowwiseQuantized8Bits", [[0, apart]], outputs=2)
    assert pairs[0, 0] == np.float32(scale)


def test_wrong_extents() -> None:
    with pytest.raises(ShapeError, match="no numbers"):
        run_op("FloatToRowwiseQuantized8Bits", np.zeros((2, 0), np.float32), outputs=2)
    with pytest.raises(ShapeError, match="3 numbers"):
        run_op("Rowwise8BitQuantizedToFloat", CODES, np.ones((2, 3), np.float32))
    with pytest.raises(ShapeError):
        run_op("Rowwise8BitQuantizedToFloat", CODES, PAIRS[:1])
