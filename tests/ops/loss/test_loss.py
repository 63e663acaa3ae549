"""AveragedLoss and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tazza.errors import DTypeError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

X = np.array([[-1.5, 0.25, 3.0], [2.0, -0.5, -4.0]], np.float32)

CASES = [
    Case("AveragedLoss", [X], np.float64((-1.5 + 0.25 + 3 + 2 - 0.5 - 4) / 6), batched=(0,)),
    Case("AveragedLoss", [X[0, 0]], np.float32(-1.5), id="rank 0"),
    Case("AveragedLoss", [X[:0]], np.float32(0), gradient=False, id="empty"),  # has no direction
    Case("AveragedLossGradient", [X, np.float32(3)], np.full((2, 3), 0.5), batched=(0,)),
    Case("AveragedLossGradient", [X, np.array([[3]], "f")], np.full((2, 3), 0.5), id="loss of rank 2"),
    Case("AveragedLossGradient", [X[0, 0], np.float32(3)], np.float32(3), id="rank 0"),
]


@on_all_engines(CASES)
def test_averaged_loss(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    ("AveragedLoss", [X.astype("d")], DTypeError, "X is float64, it must be float32"),
    ("AveragedLoss", [X.astype("i")], DTypeError, "X is int32, it must be float32"),
    ("AveragedLossGradient", [X, X[:, 0]], ShapeError, r"dloss has the shape \(2\), it must have 1 element"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)
