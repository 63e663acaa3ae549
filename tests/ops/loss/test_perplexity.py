"""Perplexity: against the mean of logarithms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

P = np.random.default_rng(3).uniform(0.1, 1, (7, 1)).astype(np.float32)


def by_logarithms(P: NDArray[Any]) -> NDArray[Any]:
    """Return exp of the mean surprise, in nats."""
    return np.array(math.exp(-sum(math.log(p) for p in P.flat) / P.size))


CASES = [
    Case("Perplexity", [P], by_logarithms, slack=4),
    Case("Perplexity", [P[:5, 0]], by_logarithms, slack=4, id="rank 1"),
    Case("Perplexity", [P[:0]], np.array(1.0), id="nothing"),
    Case("Perplexity", [np.array([[0.5, 0.25, 0.1], [0.1, 0.1, 0.1]], "f")], np.array(8**0.5), id="long rows"),
]


@on_all_engines(CASES)
def test_perplexity(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_what_cannot_come() -> None:
    assert run_op("Perplexity", np.array([0.0, 0.5], "f")) == np.inf
    assert np.isnan(run_op("Perplexity", np.array([-1.0, 0.5], "f")))


@pytest.mark.parametrize(
    ("P", "error", "text"),
    [
        (np.array(0.5, "f"), ShapeError, "P has rank 0"),
        (np.zeros((2, 0), "f"), ShapeError, "P has 2 rows of no elements"),
        (np.ones(2), DTypeError, "P is float64"),
    ],
)
def test_refused(P: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Perplexity", P)
