"""Clip and its gradient, with one bound, two or none."""

from __future__ import annotations

import numpy as np

from tests.check import Case, check_op, on_all_engines

X = np.array([[-1.5, 0.25, 3.0], [2.25, -0.5, -4.0]], np.float32)
DY = X + 10
FAR = np.array([-np.inf, 5, np.inf, np.nan], np.float32)
LARGEST = np.finfo(np.float32).max

CASES = [
    Case("Clip", [X], X, batched=(0,)),
    Case("Clip", [X], np.array([[-1, 0.25, 3], [2.25, -0.5, -1]]), {"min": -1.0}, id="min"),
    Case("Clip", [X], np.array([[-1.5, 0.25, 2], [2, -0.5, -4]]), {"max": 2.0}, id="max"),
    Case("Clip", [X], np.array([[-1, 0.25, 2], [2, -0.5, -1]]), {"min": -1.0, "max": 2.0}, id="both"),
    Case("Clip", [X], np.full((2, 3), 1), {"min": 2.0, "max": 1.0}, id="max counts"),
    # There is no slope at infinity.
    Case("Clip", [FAR], np.array([-LARGEST, 5, LARGEST, np.nan], "f"), gradient=False, id="far"),
    Case("ClipGradient", [X, DY], DY, batched=(0, 1)),
    Case(
        "ClipGradient",
        [np.array([[-1, 0.25, 2], [2, -0.5, -1]], "f"), DY],
        np.array([[0, 10.25, 0], [0, 9.5, 0]]),
        {"min": -1.0, "max": 2.0},
        id="both",
    ),
]


@on_all_engines(CASES)
def test_clip(case: Case, engine: str) -> None:
    check_op(case, engine)
