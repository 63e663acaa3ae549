"""Elu, Selu and their gradients: against exponentials in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.array([[-1.5, 0.25, 3.0], [2.25, -0.5, -4.0]], np.float32)
DY = X + 10
FAR = np.array([-np.inf, -200, np.inf, np.nan], np.float32)


def elu(x: Array, alpha: float = 1.0, scale: float = 1.0) -> Array:
    """Return scale * x above 0 and an exponential below."""
    low = np.exp(np.minimum(x, 0).astype(np.float64)) - 1
    return scale * (np.maximum(x, 0) + alpha * low)


def slopes(x: Array, alpha: float = 1.0, scale: float = 1.0) -> Array:
    """Return the derivative of `elu`."""
    return scale * np.where(x > 0, 1, alpha * np.exp(x.astype(np.float64)))


def selu(x: Array) -> Array:
    """Return Selu with its default constants, to ten digits."""
    return elu(x, 1.6732632424, 1.0507009874)


CASES = [
    Case("Elu", [X], elu, batched=(0,)),
    Case("Elu", [X], elu(X, 0.25), {"alpha": 0.25}, id="alpha"),
    Case("Elu", [np.array([-1e-7, -1e-30], "f")], np.array([-1e-7, -1e-30]), id="near 0"),
    Case("Elu", [FAR], np.array([-1, -1, np.inf, np.nan]), gradient=False, id="far"),  # no slope at infinity
    Case("EluGradient", [elu(X).astype("f"), DY], DY * slopes(X), batched=(0, 1), slack=2),
    Case("EluGradient", [elu(X, 0.25).astype("f"), DY], DY * slopes(X, 0.25), {"alpha": 0.25}, slack=2, id="alpha"),
    Case("Selu", [X], selu, batched=(0,)),
    Case("Selu", [X], elu(X, 0.25, 2.0), {"alpha": 0.25, "scale": 2.0}, id="constants"),
    Case(
        "SeluGradient", [selu(X).astype("f"), DY], DY * slopes(X, 1.6732632424, 1.0507009874), batched=(0, 1), slack=2
    ),
    Case(
        "SeluGradient",
        [elu(X, 0.25, 2.0).astype("f"), DY],
        DY * slopes(X, 0.25, 2.0),
        {"alpha": 0.25, "scale": 2.0},
        slack=2,
        id="constants",
    ),
]


@on_all_engines(CASES)
def test_elu(case: Case, engine: str) -> None:
    check_op(case, engine)
