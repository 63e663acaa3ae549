"""Cross entropy of logits: element after element in float64, with the tricks and with weights; and what is refused."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, engines_of, on_all_engines

Array = NDArray[Any]
PLAIN, WEIGHTED = "SigmoidCrossEntropyWithLogits", "WeightedSigmoidCrossEntropyWithLogits"


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers, the same in every run."""
    return np.random.default_rng([sum(shape), seed]).standard_normal(shape).astype(np.float32)


def term(x: float, t: float, trick: str) -> float:
    """Return the negative loss of one element, by the logarithms of probabilities."""
    yes, no = -math.log1p(math.exp(-x)), -math.log1p(math.exp(x))
    if trick == "log_D_trick":
        return (2 * t - 1) * yes
    return t * x + (1 - t) * no if trick else t * yes + (1 - t) * no


def losses(X: Array, T: Array, *W: Array, trick: str = "") -> Array:
    """Return the mean of each row."""
    weights = W[0] if W else np.ones(X.shape)
    terms = [w * term(float(x), float(t), trick) for x, t, w in zip(X.flat, T.flat, weights.flat, strict=True)]
    return -np.reshape(terms, X.shape).mean(axis=-1)


X, T, W = 3 * values(2, 3, 5), np.random.default_rng(1).random((2, 3, 5), np.float32), np.abs(values(2, 3, 5, seed=2))
CASES = [
    Case(PLAIN, [X, T], losses, slack=4),
    Case(PLAIN, [X[0, 0], T[0, 0]], losses, slack=4, id="rank 1"),
    Case(PLAIN, [X[:0], T[:0]], np.zeros((0, 3), "f"), id="no rows"),
    *(
        Case(PLAIN, [X, T], partial(losses, trick=trick), {trick: 1}, slack=4, id=trick)
        for trick in ("log_D_trick", "unjoined_lr_loss")
    ),
    Case(WEIGHTED, [X, T, W], losses, slack=4),
]


@on_all_engines(CASES)
def test_sigmoid_cross_entropy(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize(
    ("type", "trick"),
    [(PLAIN, ""), (PLAIN, "log_D_trick"), (PLAIN, "unjoined_lr_loss"), (WEIGHTED, ""), ("SigmoidCrossEntropyLoss", "")],
)
@pytest.mark.parametrize("right", [True, False])
def test_losses_of_sure_answers_keep_their_digits(right: bool, type: str, trick: str) -> None:
    """What is left of a logit of 9, or of 60, when its label is taken from it is small, not what rounding leaves."""
    X = np.array([-60, -30.5, -15, -9, -1.25, -0.5, 0, 0.5, 3.75, 9, 15, 30.5, 60], np.float32)
    T = ((X > 0) == right).astype(np.float32)
    expected = [-term(float(x), float(t), trick) for x, t in zip(X, T, strict=True)]
    arguments: dict[str, Any] = {trick: 1} if trick else {}
    weights = [np.ones((1, 1), np.float32)] if type == WEIGHTED else []
    for engine in engines_of(type):
        for x, t, wanted in zip(X.reshape(-1, 1, 1), T.reshape(-1, 1, 1), expected, strict=True):
            label = t.astype(np.int32) if type == "SigmoidCrossEntropyLoss" else t
            found: Array = run_op(type, x, label, *weights, engine=engine, **arguments)
            np.testing.assert_allclose(found.ravel(), wanted, rtol=2e-6, err_msg=f"{engine}, {x}")


def test_large_logits_stay_finite() -> None:
    far = np.array([[500.0, -500.0]], np.float32)
    np.testing.assert_allclose(run_op(PLAIN, far, np.array([[0.0, 1.0]], np.float32)), [500.0])
    np.testing.assert_allclose(run_op(PLAIN, far, np.array([[1.0, 0.0]], np.float32)), [0.0])


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    (PLAIN, [X, T], {"log_D_trick": 1, "unjoined_lr_loss": 1}, ArgumentError, "both set"),
    (PLAIN, [X, T[0]], {}, ShapeError, "T has the shape"),
    (WEIGHTED, [X, T, W[0]], {}, ShapeError, "W has the shape"),
    (PLAIN, [X[..., :0], T[..., :0]], {}, ShapeError, "mean of nothing"),
    (PLAIN, [X[0, 0, 0], T[0, 0, 0]], {}, ShapeError, "rank 0"),
    (f"{PLAIN}Gradient", [X[:, 0, 0], X, T], {}, ShapeError, "dY has 2 elements, Y has 6"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
