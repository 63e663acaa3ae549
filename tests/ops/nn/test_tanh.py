"""Tanh and its gradient: against exponentials in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.array([[-1.5, 0.25, 3.0], [2.25, -0.5, -4.0]], np.float32)


def ratio(x: Array) -> Array:
    """Return (e^2x - 1) / (e^2x + 1)."""
    square = np.exp(2 * x.astype(np.float64))
    return (square - 1) / (square + 1)


CASES = [
    Case("Tanh", [X], ratio, batched=(0,), slack=2),
    Case("Tanh", [X[0, 0]], ratio, id="rank 0"),
    Case("Tanh", [np.array([1e-5, -1e-7, 1e-30], "f")], np.array([1e-5, -1e-7, 1e-30]), id="near 0"),
    # There is no slope at infinity.
    Case("Tanh", [np.array([-np.inf, np.inf, np.nan], "f")], np.array([-1, 1, np.nan]), gradient=False, id="far"),
    Case("TanhGradient", [ratio(X).astype("f"), X + 10], (X + 10) / np.cosh(X) ** 2, batched=(0, 1), slack=10),
]


@on_all_engines(CASES)
def test_tanh(case: Case, engine: str) -> None:
    check_op(case, engine)
