"""Sigmoid, HardSigmoid, Swish and their gradients: against Python's exp in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.array([[-1.5, 0.25, 3.0], [2.25, -0.5, -4.0]], np.float32)
FAR = np.array([-np.inf, -200, 200, np.inf, np.nan], np.float32)
DY = X + 10


def share(x: Array) -> Array:
    """Return e^x / (1 + e^x), number by number."""
    return np.array([math.exp(v) / (1 + math.exp(v)) for v in x.reshape(-1).tolist()]).reshape(x.shape)


def slope(x: Array) -> Array:
    """Return the derivative of `share`: 1 / (e^(x/2) + e^(-x/2))^2."""
    return 1 / (2 * np.cosh(x.astype(np.float64) / 2)) ** 2


CASES = [
    Case("Sigmoid", [X], share, batched=(0,)),
    Case("Sigmoid", [X[0, 0]], share, id="rank 0"),
    Case("Sigmoid", [FAR], np.array([0, 0, 1, 1, np.nan]), gradient=False, id="far"),  # no slope at infinity
    Case("SigmoidGradient", [share(X).astype("f"), DY], DY * slope(X), batched=(0, 1), slack=2),
    Case("HardSigmoid", [X * 2], np.array([[0, 0.6, 1], [1, 0.3, 0]]), batched=(0,)),
    Case("HardSigmoid", [X], np.array([[0, 0.5, 1], [1, 0.125, 0]]), {"alpha": 0.5, "beta": 0.375}, id="line"),
    Case("HardSigmoid", [FAR], np.array([0, 0, 1, 1, np.nan]), gradient=False, id="far"),
    Case(
        "HardSigmoidGradient",
        [np.array([[0, 0.25, 1], [0.5, 1, 0]], "f"), DY],
        np.array([[0, 5.125, 0], [6.125, 0, 0]]),
        {"alpha": 0.5},
        batched=(0, 1),
    ),
    Case("Swish", [X], X * share(X), batched=(0,)),
    # Minus infinity times 0 is NaN, as in Caffe2.
    Case("Swish", [FAR], np.array([np.nan, 0, 200, np.inf, np.nan]), gradient=False, id="far"),
    Case(
        "SwishGradient",
        [X, (X * share(X)).astype("f"), DY],
        DY * (share(X) + X * slope(X)),
        batched=(0, 1, 2),
        slack=2,
    ),
]


@on_all_engines(CASES)
def test_sigmoid(case: Case, engine: str) -> None:
    check_op(case, engine)
