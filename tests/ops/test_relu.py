"""Relu and its gradient."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import DTypeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

X = np.array([[-1.5, 0.25, 3.0], [2.0, -0.5, -4.0]], np.float32)

CASES = [
    Case("Relu", [X], np.where(X > 0, X, 0), batched=(0,)),
    Case("Relu", [X[0, 0]], np.float32(0), id="rank 0"),
    Case("ReluGradient", [np.maximum(X, 0), X + 10], np.where(X > 0, X + 10, 0), batched=(0, 1)),
]


@on_all_engines(CASES)
def test_relu(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_float64_is_refused() -> None:
    with pytest.raises(DTypeError, match="X is float64, it must be float32"):
        run_op("Relu", np.zeros(2))
