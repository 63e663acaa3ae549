"""SigmoidFocalLoss, SoftmaxFocalLoss and their gradients: label by label; central differences; what is refused."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, NumericError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, evaluate, on_all_engines, run

Array = NDArray[Any]

K, A = 3, 2
X = np.random.default_rng(0).standard_normal((2, A * K, 4, 5)).astype(np.float32)
T = np.random.default_rng(1).integers(-1, K, (2, A, 4, 5)).astype(np.int32)
OBJECTS, D_LOSS = np.array([3], "f"), np.array(1.5, "f")


def sigmoid(X: Array, T: Array, M: Array, *, gamma: float = 1.0, alpha: float = 0.25, scale: float = 1.0) -> Array:
    """Return the loss, channel by channel: every channel is a question of its own."""
    total = 0.0
    for n, c, h, w in np.ndindex(*X.shape):
        label, p = T[n, c // K, h, w], 1 / (1 + math.exp(-X[n, c, h, w]))
        if label == c % K + 1:
            total -= alpha * (1 - p) ** gamma * math.log(p)
        elif label != -1:
            total -= (1 - alpha) * p**gamma * math.log(1 - p)
    return np.array(total * scale / max(M.item(), 1))


def softmax(
    X: Array, T: Array, M: Array, *, gamma: float = 1.0, alpha: float = 0.25, scale: float = 1.0
) -> tuple[Array, Array]:
    """Return the loss, label by label: the channels of an anchor are the answers to one question."""
    total, P = 0.0, np.zeros(X.shape)
    for n, a, h, w in np.ndindex(*T.shape):
        x, label = X[n, a * K : a * K + K, h, w].astype(np.float64), T[n, a, h, w]
        P[n, a * K : a * K + K, h, w] = p = np.exp(x) / np.exp(x).sum()
        if label >= 0:
            total -= (alpha if label > 0 else 1 - alpha) * (1 - p[label]) ** gamma * math.log(p[label])
    return np.array(total * scale / max(M.item(), 1)), P.reshape(-1)


FEW, FEW_LABELS = np.zeros((1, 2, 1, 2), "f"), np.array([1, -1], "i").reshape(1, 1, 1, 2)

FORMS: list[dict[str, Any]] = [{}, {"gamma": 2.0, "alpha": 0.75, "scale": 0.5}, {"gamma": 0.0}]
CASES = [
    *(
        Case("SigmoidFocalLoss", [X, T, OBJECTS], partial(sigmoid, **form), {"num_classes": K, **form}, slack=20)
        for form in FORMS
    ),
    Case("SigmoidFocalLoss", [X, T, 0 * OBJECTS], sigmoid, {"num_classes": K}, slack=20, id="no objects"),
    *(
        Case(
            "SoftmaxFocalLoss",
            [X, T, OBJECTS],
            partial(softmax, **form),
            {"num_classes": K, **form},
            slack=20,
            gradient=False,  # that of P adds nothing: see below
        )
        for form in FORMS
    ),
    Case(
        "SoftmaxFocalLoss",
        [X[:0], T[:0], OBJECTS],
        [np.array(0), np.zeros(0)],
        {"num_classes": K},
        gradient=False,
        id="no images",
    ),
    Case(
        "SigmoidFocalLossGradient",
        [FEW, FEW_LABELS, np.array(0.0, "f"), D_LOSS * 2],
        np.array([[[-0.375, 0]], [[1.125, 0]]]).reshape(1, 2, 1, 2),
        {"num_classes": 2, "gamma": 0.0},
        batched=(0, 1),
    ),
    Case(
        "SoftmaxFocalLossGradient",
        [FEW, FEW_LABELS, np.array(0.0, "f"), np.full(4, 0.5, "f"), D_LOSS * 2],
        np.array([[[0.375, 0]], [[-0.375, 0]]]).reshape(1, 2, 1, 2),
        {"num_classes": 2, "gamma": 0.0},
        batched=(0, 1, 3),
    ),
]


@on_all_engines(CASES)
def test_focal(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_gradient_of_the_softmax(form: dict[str, Any]) -> None:
    """The gradient of the loss is a float64 central difference of the reference kernel."""
    definition = operator_def("SoftmaxFocalLoss", ["x", "t", "m"], ["loss", "p"], num_classes=K, **form)
    (_, P), operator = run(definition, [X, T, OBJECTS])
    (step,), gradients = gradient_for_op(operator.op, ["loss_grad", None])
    assert gradients == ["x_grad", None, None]
    assert list(step.input) == ["x", "t", "m", "p", "loss_grad"]
    (dX,), _ = run(step, [X, T, OBJECTS, P, D_LOSS])
    direction = np.random.default_rng(7).standard_normal(X.shape)
    high, low = (evaluate(operator.op, [X + s * 1e-4 * direction, T, OBJECTS])[0] for s in (1, -1))
    assert float((dX * direction).sum()) == pytest.approx(1.5 * float(high - low) / 2e-4, rel=1e-4)


def test_unlikely_labels_stay_finite() -> None:
    """The logarithm is that of the smallest number of full precision."""
    far = np.array([500, -500], "f").reshape(1, 2, 1, 1)
    label = np.array([[[[1]]]], "i")
    least = 0.25 * math.log(np.finfo("f").tiny)
    np.testing.assert_allclose(run_op("SoftmaxFocalLoss", far, label, OBJECTS / 3, num_classes=2)[0], -least, rtol=1e-6)
    right = run_op("SigmoidFocalLoss", -far, label, OBJECTS / 3, num_classes=2)
    np.testing.assert_allclose(right, -least + 0.75 * 500, rtol=1e-6)


CLASSES = {"num_classes": K}
REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X, T, OBJECTS], {"num_classes": 4}, ShapeError, r"X has 6 channels \(2, 6, 4, 5\), num_classes = 4"),
    ([X, T, OBJECTS], {"num_classes": 0}, ArgumentError, "'num_classes' = 0 is below its minimum 1"),
    ([X, T[:1], OBJECTS], CLASSES, ShapeError, r"T has 40 elements \(1, 2, 4, 5\), X has 80 anchors and places"),
    ([X, T, X], CLASSES, ShapeError, r"normalizer has the shape \(2, 6, 4, 5\), it must have 1 element"),
    ([X, T.astype("q"), OBJECTS], CLASSES, DTypeError, "T is int64, it must be int32"),
    ([X, T, OBJECTS], {**CLASSES, "scale": -1.0}, ArgumentError, "'scale' = -1.0 is below its minimum 0"),
    ([X[0], T, OBJECTS], CLASSES, ShapeError, "X"),
]


@pytest.mark.parametrize("type", ["SigmoidFocalLoss", "SoftmaxFocalLoss"])
@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


def test_a_label_that_is_no_class() -> None:
    wrong = T.copy()
    wrong[1, 0, 2, 3] = K
    with pytest.raises(NumericError, match=r"T\[1, 0, 2, 3\] is 3, not in \[-1, 3\)"):
        run_op("SoftmaxFocalLoss", X, wrong, OBJECTS, num_classes=K)


def test_emitted_gradient() -> None:
    (step,), _ = backward_pass([operator_def("SigmoidFocalLoss", list("xtm"), ["loss"])], {"loss": "loss_grad"})
    assert (step.type, list(step.input)) == ("SigmoidFocalLossGradient", [*"xtm", "loss_grad"])
