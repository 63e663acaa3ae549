"""Erf and its gradient: against the power series in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.array([[-1.5, 0.25, 2.0], [1.25, -0.5, -2.5]], np.float32)
DY = X + 10


def series(x: Array) -> Array:
    """Return 2 / sqrt(pi) * sum of (-1)^n x^(2n+1) / (n! (2n+1))."""
    wide = x.astype(np.float64)
    terms = [(-1) ** n * wide ** (2 * n + 1) / (math.factorial(n) * (2 * n + 1)) for n in range(60)]
    return np.sum(terms, axis=0) * 2 / math.sqrt(math.pi)


CASES = [
    Case("Erf", [X], series, batched=(0,)),
    Case("Erf", [X[0, 0]], series, id="rank 0"),
    # There is no slope at infinity.
    Case("Erf", [np.array([-np.inf, 9, np.nan], "f")], np.array([-1, 1, np.nan]), gradient=False, id="far"),
    Case("ErfGradient", [X, DY], DY * (series(X + 1e-4) - series(X - 1e-4)) / 2e-4, batched=(0, 1), slack=1000),
]


@on_all_engines(CASES)
def test_erf(case: Case, engine: str) -> None:
    check_op(case, engine)
