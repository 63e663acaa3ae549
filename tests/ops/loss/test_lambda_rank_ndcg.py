"""LambdaRankNdcg and its gradient: one pair of documents after the other; and what is refused."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
NDCG = "LambdaRankNdcg"


def ranks(values: list[float]) -> list[int]:
    """Return how many stand before each, the largest first."""
    keys = [(-value, i) for i, value in enumerate(values)]
    return [sum(other < key for other in keys) for key in keys]


def one_session(y: list[float], r: list[float], ndcg: bool, divided: bool, powers: bool) -> tuple[float, list[float]]:
    """Return the loss of a session, and the lambda of each document."""
    gains = [2**x if powers or not ndcg else x for x in r]
    discount, best = [math.log(2) / math.log(k + 2) for k in ranks(y)], ranks(r)
    ideal = sum(g * math.log(2) / math.log(k + 2) for g, k in zip(gains, best, strict=True))
    scale = 1 / ideal if divided and r else 1.0
    loss, lambdas = 0.0, [0.0] * len(y)
    for i in range(len(y)):
        for j in range(len(y)):
            if r[i] > r[j]:
                weight = scale * abs((gains[i] - gains[j]) * (discount[i] - discount[j]))
                wrong = 1 / (1 + math.exp(y[i] - y[j]))
                loss += -2 * weight * math.log(1 - wrong)
                lambdas[i] -= weight * wrong
                lambdas[j] += weight * wrong
    lost = scale * (ideal - sum(g * d for g, d in zip(gains, discount, strict=True)))
    return lost if ndcg else loss, lambdas


def sessions(
    y: Array, r: Array, lengths: Array, ndcg: bool = False, divided: bool = True, powers: bool = True
) -> tuple[Array, Array]:
    """Return the losses of all sessions, and all lambdas."""
    losses, lambdas, begin = list[float](), [0.0] * y.size, 0
    for count in lengths.ravel().tolist():
        own = slice(begin, begin + count)
        loss, lambdas[own] = one_session(y[own].tolist(), r.ravel()[own].tolist(), ndcg, divided, powers)
        losses.append(loss)
        begin += count
    return np.array(losses), np.array(lambdas)


Y = np.random.default_rng(7).standard_normal(9).astype(np.float32)
R = np.array([2, 0, 1, 1, 3, 0, 2, 4, 4], "f")
LENGTHS = np.array([3, 0, 4], "i")
# Lambdas are half the derivative of the loss where ranks stay, so that the harness cannot check gradients.
CASES = [
    Case(NDCG, [Y, R, LENGTHS], sessions, gradient=False, slack=4),
    Case(NDCG, [Y, R.reshape(3, 3), LENGTHS[:, None]], sessions, gradient=False, slack=4, id="other ranks"),
    Case(NDCG, [Y * 0, R, LENGTHS], sessions, gradient=False, slack=4, id="equal scores"),
    Case(NDCG, [Y[:0], R[:0], LENGTHS[:0]], (np.zeros(0), np.zeros(0)), gradient=False, id="no session"),
    *(
        Case(
            NDCG,
            [Y, R, LENGTHS],
            partial(sessions, ndcg=bool(bits & 1), divided=bool(bits & 2), powers=bool(bits & 4)),
            {
                "use_ndcg_as_loss": bool(bits & 1),
                "use_idcg_normalization": bool(bits & 2),
                "use_exp_gain": bool(bits & 4),
            },
            gradient=False,
            slack=10,
            id=f"arguments {bits}",
        )
        for bits in range(8)
    ),
    Case(
        f"{NDCG}Gradient",
        [Y[:5], np.array([2, 1], "i"), np.array([1, 2, 3, 4, 5], "f"), np.array([[6], [7]], "f")],
        np.array([6, 12, 21, 0, 0]),
    ),
]


@on_all_engines(CASES)
def test_lambda_rank_ndcg(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_lambdas_are_half_the_slope() -> None:
    """The loss counts each pair twice, its gradient once, as in Caffe2."""
    lengths, step = np.array([7], "i"), np.zeros(7)
    step[4] = 1e-3
    (high, _), (low, _) = (sessions(Y[:7].astype(np.float64) + s * step, R[:7], lengths) for s in (1, -1))
    _, lambdas = run_op(NDCG, Y[:7], R[:7], lengths)
    assert (high - low).item() / 2e-3 == pytest.approx(2 * lambdas[4], rel=1e-4)


def test_far_scores_stay_finite() -> None:
    """In Caffe2 the loss is infinite where scores are more than 100 apart."""
    loss, _ = run_op(NDCG, np.array([200.0, 0.0], "f"), np.array([1.0, 2.0], "f"), np.array([2], "i"))
    assert loss.item() == pytest.approx(56.1125, rel=1e-5)


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    (NDCG, [Y[:, None], R, LENGTHS], ShapeError, "y has"),
    (NDCG, [Y, R[:4], LENGTHS], ShapeError, r"r has the shape \(4\), y \(9\)"),
    (NDCG, [Y, R, LENGTHS * 2], NumericError, "session 2 has 8 documents and ends at 14, there are 9"),
    (NDCG, [Y, R, np.array([3, -1], "i")], NumericError, "session 1 has -1 documents"),
    (NDCG, [Y, R.astype("i"), LENGTHS], DTypeError, "r is int32"),
    (f"{NDCG}Gradient", [Y, LENGTHS, R, Y[:2]], ShapeError, r"dloss has the shape \(2\) for 3 sessions"),
    (f"{NDCG}Gradient", [Y, LENGTHS, R[:4], Y[:3]], ShapeError, r"lambdas has the shape \(4\)"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)
