"""BernoulliJSD and its gradient: against the divergences of Kullback and Leibler from the middle."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
JSD = "BernoulliJSD"


def chances(*shape: int, seed: int = 0) -> Array:
    """Return float32 probabilities, the same in every run."""
    return np.random.default_rng([sum(shape), seed]).uniform(0.05, 0.95, shape).astype(np.float32)


def divergence(p: float, q: float) -> float:
    """Return that of Kullback and Leibler of two Bernoulli distributions, in nats."""
    return sum(a * math.log(a / b) for a, b in ((p, q), (1 - p, 1 - q)) if a > 0)


def middle_divergences(X: Array, T: Array) -> Array:
    """Return the mean divergence of both from their middle."""
    pairs = [(float(x), float(t)) for x, t in zip(X.flat, T.flat, strict=True)]
    return np.reshape([(divergence(x, (x + t) / 2) + divergence(t, (x + t) / 2)) / 2 for x, t in pairs], X.shape)


X, T = chances(2, 3, 5), chances(6, 5, seed=1)
CASES = [
    Case(JSD, [X, T], middle_divergences, slack=10),
    Case(JSD, [X[0, 0, 0], T[0, 0]], middle_divergences, slack=10, id="rank 0"),
    Case(
        JSD, [np.array([0, 1, 0, 1], "f"), np.array([0, 1, 1, 0], "f")], middle_divergences, gradient=False, id="0, 1"
    ),
    Case(JSD, [X[:0], T[:0]], np.zeros((0, 3, 5), "f"), id="empty"),
    Case(
        f"{JSD}Gradient",
        [np.array([2, 4], "f"), np.array([[0.5, 0.25]], "f"), np.array([0.5, 0.75], "f")],
        np.array([[0, -2 * math.log(3)]]),
    ),
]


@on_all_engines(CASES)
def test_bernoulli_jsd(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_beyond_certainty() -> None:
    """What is no probability has no entropy; its slope is that at 1e-20, or infinite at 1, as in Caffe2."""
    L = run_op(JSD, np.array([-0.1, 1.5, np.nan], "f"), np.array([0.3, 0.2, 0.3], "f"))
    np.testing.assert_allclose(L, [0.01965085, 0.17250785, np.nan], rtol=1e-5)
    one = np.ones(3, "f")
    dX = run_op(f"{JSD}Gradient", 2 * one, np.array([0, 1, 1], "f"), np.array([1, 0, 1], "f"))
    np.testing.assert_allclose(dX, [math.log(1e-20), np.inf, np.nan], rtol=1e-6)


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    (JSD, [X, T[:2]], ShapeError, r"T has the shape \(2, 5\), X \(2, 3, 5\)"),
    (JSD, [X.astype("d"), T.astype("d")], DTypeError, "X is float64, it must be float32"),
    (f"{JSD}Gradient", [X[0], X, T], ShapeError, r"dL has the shape \(3, 5\)"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)
