"""MarginRankingCriterion, CosineEmbeddingCriterion and their gradients: against one element after the other."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
MARGIN, COSINE = "MarginRankingCriterion", "CosineEmbeddingCriterion"


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers, the same in every run."""
    return np.random.default_rng([sum(shape), seed]).standard_normal(shape).astype(np.float32)


def rank_losses(X1: Array, X2: Array, Y: Array, margin: float = 1.0) -> Array:
    """Return what each pair costs."""
    triples = zip(X1.flat, X2.flat, Y.flat, strict=True)
    return np.reshape([max(0.0, margin - float(y) * (float(a) - float(b))) for a, b, y in triples], X1.shape)


def rank_slopes(X1: Array, X2: Array, Y: Array, d: Array, margin: float = 1.0) -> tuple[Array, Array]:
    """Return the gradients of both scores."""
    costs = rank_losses(X1, X2, Y, margin).ravel()
    each = [float(y) * float(g) if c > 0 else 0.0 for y, g, c in zip(Y.flat, d.flat, costs, strict=True)]
    return -np.reshape(each, X1.shape), np.reshape(each, X2.shape)


def cosine_losses(S: Array, Y: Array, margin: float = 0.0) -> Array:
    """Return what each similarity costs."""
    pairs = zip(S.flat, Y.flat, strict=True)
    return np.reshape([1 - float(s) if y == 1 else max(0.0, float(s) - margin) for s, y in pairs], S.shape)


X1, X2, Y = values(2, 3, 5), values(6, 5, seed=1), (np.arange(30).reshape(5, 6) % 4 - 1).astype(np.int32)
D = values(30, seed=2)
CASES = [
    Case(MARGIN, [X1, X2, Y], rank_losses),
    Case(MARGIN, [X1, X2, Y], partial(rank_losses, margin=0.25), {"margin": 0.25}, id="margin"),
    Case(MARGIN, [X1[0, 0, 0], X2[0, 0], Y[0, 2]], rank_losses, id="rank 0"),
    Case(MARGIN, [X1[:0], X2[:0], Y[:0]], np.zeros((0, 3, 5), "f"), id="no pairs"),
    Case(f"{MARGIN}Gradient", [X1, X2, Y, D], rank_slopes),
    Case(COSINE, [X1, Y], cosine_losses),
    Case(COSINE, [X1, Y], partial(cosine_losses, margin=0.25), {"margin": 0.25}, id="margin"),
    Case(COSINE, [X1[0, 0, 0], Y[0, 2]], cosine_losses, id="rank 0"),
    Case(
        f"{COSINE}Gradient",
        [np.array([[0.5, 0.5, 0.25, -1.0]], "f"), np.array([1, -1, 0, 2], "i"), np.array([3, 5, 7, 9], "f")],
        np.array([[-3, 5, 7, 0]]),
        {"margin": 0.25},
    ),
]


@on_all_engines(CASES)
def test_criterion(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_a_pair_at_the_margin_has_a_slope() -> None:
    """So it is in Caffe2: only what lies beyond the margin has none."""
    two, label = np.array([1.0, 2.0], "f"), np.array([-1, -1], "i")
    dX1, dX2 = run_op(f"{MARGIN}Gradient", two, two + np.float32(1), label, np.array([3.0, 4.0], "f"), margin=1.0)
    np.testing.assert_array_equal([dX1, dX2], [[3, 4], [-3, -4]])


def test_what_is_no_number() -> None:
    """It costs nothing where rows shall differ, else it is handed on."""
    nan = np.array([np.nan, np.nan], "f")
    np.testing.assert_array_equal(run_op(COSINE, nan, np.array([-1, 1], "i")), [0, np.nan])
    assert np.isnan(run_op(MARGIN, nan, nan, np.array([1, -1], "i"))).all()


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    (MARGIN, [X1, X2[:2], Y], ShapeError, r"X2 has the shape \(2, 5\), X1 \(2, 3, 5\)"),
    (MARGIN, [X1, X2, Y[0]], ShapeError, r"Y has the shape \(6\)"),
    (MARGIN, [X1, X2, Y.astype(np.int64)], DTypeError, "Y is int64, it must be int32"),
    (f"{MARGIN}Gradient", [X1, X2, Y, D[:7]], ShapeError, r"dloss has the shape \(7\)"),
    (COSINE, [X1, Y[0]], ShapeError, r"Y has the shape \(6\), S \(2, 3, 5\)"),
    (COSINE, [X1.astype("d"), Y], DTypeError, "S is float64"),
    (f"{COSINE}Gradient", [X1, Y, D[:7]], ShapeError, r"dloss has the shape \(7\)"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)
