"""PRelu and its gradient: against one channel after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

NHWC = {"order": "NHWC"}
X = np.random.default_rng(0).standard_normal((2, 3, 5, 7)).astype(np.float32)
DY = np.random.default_rng(1).standard_normal((2, 3, 5, 7)).astype(np.float32)
W = np.array([0.25, -0.5, 2.0], np.float32)
ONE = np.array([0.25], np.float32)


def last(X: Array) -> Array:
    """Return (N, C, S...) as (N, S..., C)."""
    return np.ascontiguousarray(np.moveaxis(X, 1, -1))


def by_channel(X: Array, W: Array) -> Array:
    """Return Y of NCHW."""
    Y = X.copy()
    for c in range(X.shape[1]):
        below = X[:, c] < 0
        Y[:, c][below] *= W.ravel()[c if W.size > 1 else 0]
    return Y


def backward(Y: Array, dY: Array, X: Array, W: Array) -> tuple[Array, Array]:
    """Return dX and dW of NCHW."""
    dX, parts = dY.copy(), np.zeros(X.shape[1])
    for c in range(X.shape[1]):
        below = X[:, c] < 0
        dX[:, c][below] *= W.ravel()[c if W.size > 1 else 0]
        parts[c] = (dY[:, c][below] * X[:, c][below]).sum()
    return dX, (parts if W.size > 1 else parts.sum()).reshape(W.shape)


NCHW = X, DY, X, W
CASES = [
    Case("PRelu", [X, W], by_channel, batched=(0,)),
    Case("PRelu", [X, ONE], by_channel, slack=2, id="one slope"),
    Case("PRelu", [X, W.reshape(3, 1)], by_channel, id="slopes of another shape"),
    Case("PRelu", [last(X), W], last(by_channel(X, W)), NHWC, id="NHWC"),
    Case("PRelu", [last(X), ONE], by_channel, NHWC, slack=2, id="NHWC, one slope"),
    Case("PRelu", [X[:, :, 0, 0], W], by_channel, id="rank 2"),
    Case("PReluGradient", [X, DY, X, W], backward, batched=(0, 1, 2), slack=2),
    Case("PReluGradient", [X, DY, X, ONE], backward, slack=4, id="one slope"),
    Case("PReluGradient", [X, DY, X, W.reshape(1, 3)], backward, slack=2, id="slopes of another shape"),
    Case(
        "PReluGradient",
        [last(X), last(DY), last(X), W],
        (last(backward(*NCHW)[0]), backward(*NCHW)[1]),
        NHWC,
        slack=2,
        id="NHWC",
    ),
]


@on_all_engines(CASES)
def test_prelu(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_zero_counts_as_below() -> None:
    """As in Caffe2: the slope at 0 is W; the values are the same either way."""
    zero = np.zeros((1, 1), np.float32)
    dX, dW = run_op("PReluGradient", zero, zero + 4, zero, ONE)
    assert (dX.item(), dW.item()) == (1.0, 0.0)
    assert np.isnan(run_op("PRelu", zero + np.nan, ONE)).all()


def test_the_gradient_takes_input_and_output() -> None:
    emitted, gradients = gradient_for_op(find_schema("PRelu").view(operator_def("PRelu", ["X", "W"], ["Y"])), ["dY"])
    assert list(emitted[0].input) == ["Y", "dY", "X", "W"]
    assert gradients == ["X_grad", "W_grad"]


REFUSED: list[tuple[str, list[Array], type[TazzaError], str]] = [
    ("PRelu", [X, W[:2]], ShapeError, r"W has the shape \(2\), X has 3 channels"),
    ("PRelu", [W, W], ShapeError, "X has 1 dimensions"),
    ("PRelu", [X, W.astype("d")], DTypeError, "W is float64"),
    ("PReluGradient", [X, DY[:1], X, W], ShapeError, "S is"),
    ("PReluGradient", [X, DY, X, W[:2]], ShapeError, r"W has the shape \(2\)"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Array], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)
