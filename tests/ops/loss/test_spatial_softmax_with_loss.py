"""SpatialSoftmaxWithLoss and its gradient: against one place after the other; and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, NumericError, ShapeError
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, evaluate, on_all_engines, run

Array = NDArray[Any]
SPATIAL = "SpatialSoftmaxWithLoss"


def values(*shape: int) -> Array:
    """Return float32 numbers, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def by_place(X: Array, label: Array, weights: Array | None = None) -> tuple[Array, Array]:
    """Return P and loss of one place after the other, in float64."""
    P, total, divisor = np.zeros(X.shape), 0.0, 0.0
    for number, (n, h, w) in enumerate(np.ndindex(*label.shape)):
        powers = np.e ** X[n, :, h, w].astype(np.float64)
        P[n, :, h, w] = powers / powers.sum()
        if label[n, h, w] >= 0:
            weight = 1.0 if weights is None else float(weights.ravel()[number])
            total -= weight * math.log(P[n, label[n, h, w], h, w])
            divisor += weight
    return P, np.array(total / divisor if divisor else 0.0)


X = values(2, 3, 4, 5)
LABEL = (np.arange(40).reshape(2, 4, 5) % 4 - 1).astype(np.int32)
W = np.random.default_rng(5).uniform(0.5, 2, 40).astype(np.float32)
ONE = np.float32(1)
# The gradient of P is not passed on, so the harness cannot check gradients here; `test_gradient` does.
CASES = [
    Case(SPATIAL, [X, LABEL], by_place, batched=(0, 1), gradient=False),
    Case(SPATIAL, [X, LABEL, W.reshape(2, 4, 5)], by_place, {"scale": 2.5}, gradient=False, id="weights"),
    Case(SPATIAL, [X, LABEL, W], by_place, {"order": "nchw"}, gradient=False, id="weights in a row"),
    Case(SPATIAL, [X, np.full_like(LABEL, -1)], by_place, gradient=False, id="all left out"),
    Case(
        f"{SPATIAL}Gradient",
        [X[:1, :2, :1, :2], np.array([[[1, -1]]], "i"), np.array([[[[0.25, 0.5]], [[0.75, 0.5]]]], "f"), 2 * ONE],
        np.array([[[[1.5, 0]], [[-1.5, 0]]]]),
        {"scale": 3.0},
    ),
]


@on_all_engines(CASES)
def test_spatial_softmax_with_loss(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("weights", [[], [W]], ids=["", "weights"])
def test_gradient(weights: list[Array]) -> None:
    """That of the loss is a central difference, times `scale`, which the loss itself has not."""
    names = ["x", "label", "w"][: 2 + len(weights)]
    (P, _), operator = run(operator_def(SPATIAL, names, ["p", "loss"]), [X, LABEL, *weights])
    dX = run_op(f"{SPATIAL}Gradient", X, LABEL, *weights, P, 3 * ONE, scale=0.5)
    direction = values(*X.shape)
    high, low = (evaluate(operator.op, [X + s * 1e-4 * direction, LABEL, *weights])[1] for s in (1.0, -1.0))
    assert float((dX * direction).sum()) == pytest.approx(1.5 * float(high - low) / 2e-4, rel=1e-4, abs=1e-5)


def test_weights_of_another_sign() -> None:
    """Where they sum up to less than 0, the loss divides by that and the gradient by nothing, as in Caffe2."""
    assert run_op(SPATIAL, X, LABEL, -W)[1] == run_op(SPATIAL, X, LABEL, W)[1]
    two, label, P = X[:1, :2, :1, :1], np.zeros((1, 1, 1), "i"), np.full((1, 2, 1, 1), 0.5, "f")
    dX = run_op(f"{SPATIAL}Gradient", two, label, np.array([-4], "f"), P, ONE)
    np.testing.assert_array_equal(dX.ravel(), [2, -2])


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("", [X, LABEL[:1]], {}, ShapeError, r"N is \(1\) in label and \(2\) in X"),
    ("", [X, LABEL.reshape(2, 5, 4)], {}, ShapeError, r"H is \(5\) in label and \(4\) in X"),
    ("", [X[0], LABEL], {}, ShapeError, "X has"),
    ("", [X, LABEL, W[:7]], {}, ShapeError, r"weights has the shape \(7\), label \(2, 4, 5\)"),
    ("", [X, LABEL + 1], {}, NumericError, r"label 3 at \(0, 0, 3\) is not in \[0, 3\)"),
    ("", [X, LABEL - 1], {}, NumericError, r"label -2 at \(0, 0, 0\) is not in \[0, 3\)"),
    ("", [X, LABEL.astype(np.int64)], {}, DTypeError, "label is int64"),
    ("", [X, LABEL], {"scale": -1.0}, ArgumentError, "'scale' = -1.0 is below its minimum 0"),
    ("", [X, LABEL], {"order": "NHWC"}, ArgumentError, "'order' = 'NHWC' is not one of"),
    ("Gradient", [X, LABEL, X, W[:2]], {}, ShapeError, r"dloss has the shape \(2\), it must have 1 element"),
    ("Gradient", [X, LABEL, X[:1], ONE], {}, ShapeError, "N is"),
    ("Gradient", [X, LABEL + 1, X, ONE], {}, NumericError, r"label 3 at \(0, 0, 3\)"),
]


@pytest.mark.parametrize(("suffix", "inputs", "args", "error", "text"), REFUSED)
def test_refused(suffix: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(f"{SPATIAL}{suffix}", *inputs, **args)
