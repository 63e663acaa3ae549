"""Softplus, Softsign and their gradients: against plain formulas in float64."""

from __future__ import annotations

import numpy as np

from tests.check import Case, check_op, on_all_engines

X = np.array([[-1.5, 0.25, 3.0], [2.25, -0.5, -4.0]], np.float32)
WIDE = X.astype(np.float64)
DY = X + 10
FAR = np.array([-np.inf, -200, 200, np.inf, np.nan], np.float32)

CASES = [
    Case("Softplus", [X], np.log(1 + np.exp(WIDE)), batched=(0,)),
    # Caffe2 gives infinity from 89 on, where exp(X) overflows in float32. There is no slope at infinity.
    Case("Softplus", [FAR], np.array([0, 0, 200, np.inf, np.nan]), gradient=False, id="far"),
    Case("Softplus", [np.array([-20, -50], "f")], np.exp([-20.0, -50.0]), id="small"),
    Case(
        "SoftplusGradient",
        [np.log(1 + np.exp(WIDE)).astype("f"), DY],
        DY / (1 + np.exp(-WIDE)),
        batched=(0, 1),
        slack=2,
    ),
    Case("Softsign", [X], np.sign(WIDE) - 1 / (WIDE + np.sign(WIDE)), batched=(0,)),
    Case("SoftsignGradient", [X, DY], DY / (1 + 2 * np.abs(WIDE) + WIDE * WIDE), batched=(0, 1)),
]


@on_all_engines(CASES)
def test_softplus(case: Case, engine: str) -> None:
    check_op(case, engine)
