"""SigmoidCrossEntropyLoss and its gradient: by logarithms; labels that are ignored; what is refused."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
TYPE = "SigmoidCrossEntropyLoss"

X = (3 * np.random.default_rng(0).standard_normal((3, 2, 5))).astype(np.float32)
T = np.random.default_rng(1).integers(-1, 2, (3, 2, 5)).astype(np.int32)


def lost(X: Array, T: Array, scale: float = 1.0, *, whole: bool = False) -> Array:
    """Return the mean loss of what is not ignored, or the sum."""
    terms = [math.log1p(math.exp(-x if t else x)) for x, t in zip(X.flat, T.flat, strict=True) if t >= 0]
    return np.array(scale * sum(terms) / (1 if whole else len(terms)))


def pulled(X: Array, T: Array, dloss: Array, scale: float = 1.0, *, whole: bool = False) -> Array:
    """Return its gradient."""
    slopes = [(1 / (1 + math.exp(-x)) - t) * (t >= 0) for x, t in zip(X.flat, T.flat, strict=True)]
    return np.reshape(slopes, X.shape) * scale * dloss / (1 if whole else (T >= 0).sum())


WHOLE: dict[str, Any] = {"scale": 0.5, "normalize": 0}
D_LOSS = np.array(1.5, "f")
CASES = [
    Case(TYPE, [X, T], lost, slack=4),
    Case(TYPE, [X, T.reshape(5, 6)], lost, slack=4, id="labels of another shape"),
    Case(TYPE, [X, T], partial(lost, scale=0.5, whole=True), WHOLE, slack=4, id="sum"),
    Case(TYPE, [X, 0 * T - 1], np.array(0), id="all ignored"),
    Case(f"{TYPE}Gradient", [X, T, D_LOSS], pulled, batched=(0, 1)),
    Case(f"{TYPE}Gradient", [X, T, D_LOSS], partial(pulled, scale=0.5, whole=True), WHOLE, slack=4, id="sum"),
    Case(f"{TYPE}Gradient", [X, 0 * T - 1, D_LOSS], np.zeros(X.shape), id="all ignored"),
]


@on_all_engines(CASES)
def test_sigmoid_cross_entropy_loss(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_large_logits_stay_finite() -> None:
    far = np.array([500, -500], "f")
    assert run_op(TYPE, far, np.array([0, 1], "i")) == 500
    assert run_op(TYPE, far, np.array([1, 0], "i")) == 0


def test_of_nothing_it_is_0() -> None:
    assert run_op(TYPE, X[:0], T[:0]) == 0


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X, T[:2]], {}, ShapeError, r"targets has the shape \(2, 2, 5\), X \(3, 2, 5\)"),
    ([X, T.astype("q")], {}, DTypeError, "targets is int64, it must be int32"),
    ([X, T], {"scale": -1.0}, ArgumentError, "'scale' = -1.0 is below its minimum 0"),
    ([X, T], {"normalize": 2}, ArgumentError, "'normalize'"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(TYPE, *inputs, **args)


def test_emitted_gradient() -> None:
    (step,), _ = backward_pass([operator_def(TYPE, ["x", "t"], ["loss"])], {"loss": "loss_grad"})
    assert (step.type, list(step.input)) == (f"{TYPE}Gradient", ["x", "t", "loss_grad"])
