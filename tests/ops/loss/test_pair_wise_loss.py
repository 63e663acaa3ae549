"""PairWiseLoss and its gradient: one pair after the other; and what is refused."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
LOSS = "PairWiseLoss"


def pair_losses(X: Array, label: Array, lengths: Array | None = None) -> Array:
    """Return the mean cost of each session's pairs."""
    found, rest = list[float](), list(zip(X.ravel().tolist(), label.ravel().tolist(), strict=True))
    for count in [len(rest)] if lengths is None else lengths.tolist():
        own, rest = rest[:count], rest[count:]
        ordered = [(a, b) if a[1] > b[1] else (b, a) for a, b in combinations(own, 2) if a[1] != b[1]]
        costs = [-math.log(1 / (1 + math.exp(low[0] - high[0]))) for high, low in ordered]
        found.append(sum(costs) / max(len(costs), 1))
    return np.array(found)


X = np.random.default_rng(7).standard_normal((7, 1)).astype(np.float32)
LABEL = np.array([2, 0, 1, 1, 3, 0, 3], "f")
LENGTHS = np.array([3, 0, 4], "i")
CASES = [
    Case(LOSS, [X, LABEL, LENGTHS], pair_losses, slack=4),
    Case(LOSS, [X[:, 0], LABEL[:, None]], pair_losses, slack=4, id="one session"),
    Case(LOSS, [X[:, None], LABEL], pair_losses, slack=4, id="more ones"),
    Case(LOSS, [X, np.ones(7, "f")], np.zeros(1), id="no pairs"),
    Case(LOSS, [X[:0], LABEL[:0], LENGTHS * 0], np.zeros(0), id="no scores"),
    Case(f"{LOSS}Gradient", [X[:2] * 0, LABEL[:2], np.array([8], "f")], np.array([[-4], [4]])),
    Case(f"{LOSS}Gradient", [X[:0], LABEL[:0], np.zeros(0, "f")], np.zeros((0, 1)), id="no scores"),
]


@on_all_engines(CASES)
def test_pair_wise_loss(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_far_scores_stay_finite() -> None:
    Y = run_op(LOSS, np.array([-300.0, 300.0], "f"), np.array([1.0, 0.0], "f"))
    np.testing.assert_array_equal(Y, [600])


def test_a_score_of_rank_0_is_none() -> None:
    """As in Caffe2, which looks at no label either."""
    assert run_op(LOSS, np.array(0.5, "f"), np.array(1.0, "f")).shape == (0,)


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    (LOSS, [X.reshape(1, 7), LABEL], ShapeError, r"X has the shape \(1, 7\), its rows must have one element"),
    (LOSS, [X, LABEL.reshape(1, 7)], ShapeError, r"label has the shape \(1, 7\), it must be \(N\) or \(N, 1\)"),
    (LOSS, [X, LABEL[:5]], ShapeError, "5 labels for 7 scores"),
    (LOSS, [X, LABEL, LENGTHS[:2]], NumericError, "the 2 lengths add up to 3, and there are 7 scores"),
    (LOSS, [X, LABEL, np.array([8, -1], "i")], NumericError, r"lengths\[1\] is -1"),
    (LOSS, [X, LABEL.astype("i")], DTypeError, "label is int32"),
    (f"{LOSS}Gradient", [X, LABEL, np.ones(2, "f"), LENGTHS], ShapeError, r"dY has the shape \(2\) for 3 sessions"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)
