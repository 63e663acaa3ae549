"""Gelu and its gradient, exact and fast: against the normal distribution of the standard library."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import SchemaError
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]

X = np.array([[-1.5, 0.25, 3.0], [2.25, -0.5, -4.0]], np.float32)
DY = X + 10
NORMAL = NormalDist()


def exact(x: Array) -> Array:
    """Return x times the share of a normal distribution below x."""
    return np.array([v * NORMAL.cdf(v) for v in x.reshape(-1).tolist()]).reshape(x.shape)


def exact_slope(x: Array) -> Array:
    """Return the derivative of `exact`."""
    return np.array([NORMAL.cdf(v) + v * NORMAL.pdf(v) for v in x.reshape(-1).tolist()]).reshape(x.shape)


def fast(x: Array) -> Array:
    """Return the same approximated: x / (1 + exp(-2 u)), which is x (1 + tanh(u)) / 2."""
    wide = x.astype(np.float64)
    return wide / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))


CASES = [
    # Far below 0 the share is a small difference from 1.
    Case("Gelu", [X], exact, batched=(0,), slack=20),
    Case("Gelu", [X], fast, {"fast_gelu": 1}, batched=(0,), slack=20, id="fast"),
    Case("Gelu", [X[0, 1]], exact, id="rank 0"),
    Case("GeluGradient", [DY, X], DY * exact_slope(X), batched=(0, 1), slack=20),
    Case(
        "GeluGradient",
        [DY, X],
        DY * (fast(X.astype("d") + 1e-5) - fast(X.astype("d") - 1e-5)) / 2e-5,
        {"fast_gelu": 1},
        slack=20,
        id="fast",
    ),
]


@on_all_engines(CASES)
def test_gelu(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_the_fast_form_is_near() -> None:
    x = np.linspace(-6, 6, 101, dtype=np.float32)
    assert np.abs(run_op("Gelu", x) - run_op("Gelu", x, fast_gelu=1)).max() < 5e-4


def test_not_in_place() -> None:
    with pytest.raises(SchemaError, match="Gelu cannot write Y in place of X"):
        run(operator_def("Gelu", ["x"], ["x"]), [X])
