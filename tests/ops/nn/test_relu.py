"""Relu, LeakyRelu, ReluN, ThresholdedRelu and their gradients."""

from __future__ import annotations

import numpy as np
import pytest

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, engines_of, on_all_engines, run

X = np.array([[-1.5, 0.25, 3.0], [2.0, -0.5, -4.0]], np.float32)

ODD = np.array([-np.inf, np.nan, np.inf], np.float32)

CASES = [
    Case("Relu", [X], np.where(X > 0, X, 0), batched=(0,)),
    Case("Relu", [X[0, 0]], np.float32(0), id="rank 0"),
    Case("ReluGradient", [np.maximum(X, 0), X + 10], np.where(X > 0, X + 10, 0), batched=(0, 1)),
    Case("LeakyRelu", [X], np.maximum(X, X / 100), batched=(0,)),
    Case("LeakyRelu", [X], np.maximum(X, X / 4), {"alpha": 0.25}, id="alpha"),
    Case("LeakyRelu", [ODD], ODD, gradient=False, id="odd"),  # no slope there
    Case("LeakyReluGradient", [X, X + 10], (X + 10) * np.where(X < 0, 0.25, 1), {"alpha": 0.25}),
    Case("ReluN", [X * 2.5], np.sort([X * 2.5, X * 0, X * 0 + 6], axis=0)[1], batched=(0,)),  # the middle one
    Case("ReluN", [X], np.array([[0, 0.25, 2.5], [2, 0, 0]]), {"n": 2.5}, id="n"),
    Case("ReluN", [ODD], np.array([0, np.nan, 6]), gradient=False, id="odd"),
    Case("ReluNGradient", [X, X + 10], np.array([[0, 10.25, 0], [12, 0, 0]]), {"n": 3.0}, batched=(0, 1)),
    Case("ThresholdedRelu", [X], np.array([[0, 0, 3], [2, 0, 0]]), batched=(0,)),
    Case("ThresholdedRelu", [X], np.array([[0, 0, 3], [0, 0, 0]]), {"alpha": 2.5}, id="alpha"),
    # Caffe2's gradient is not the derivative of what lies between a negative alpha and 0.
    Case(
        "ThresholdedRelu", [X], np.array([[-1.5, 0.25, 3], [2, -0.5, 0]]), {"alpha": -2.0}, gradient=False, id="below 0"
    ),
    Case("ThresholdedRelu", [ODD], np.array([0, 0, np.inf]), gradient=False, id="odd"),
    Case("ThresholdedReluGradient", [np.maximum(X, 0), X + 10], np.where(X > 0, X + 10, 0), batched=(0, 1)),
    Case("ThresholdedReluGradient", [X, X + 10], np.array([[-8.5, 10.25, 13], [12, -9.5, -6]]), id="turned around"),
]


@on_all_engines(CASES)
def test_relu(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("engine", engines_of("Relu"))
def test_relu_of_odd_numbers(engine: str) -> None:
    """NaN stays."""
    (Y,), _ = run(operator_def("Relu", ["X"], ["Y"]), [ODD], engine)
    np.testing.assert_array_equal(Y, [0, np.nan, np.inf])


def test_float64_is_refused() -> None:
    with pytest.raises(DTypeError, match="X is float64, it must be float32"):
        run_op("Relu", np.zeros(2))


@pytest.mark.parametrize("n", [0.0, -1.0, float("nan")])
@pytest.mark.parametrize(("type", "inputs"), [("ReluN", 1), ("ReluNGradient", 2)])
def test_a_ceiling_is_above_0(type: str, inputs: int, n: float) -> None:
    with pytest.raises(ArgumentError, match=f"{type}: n = {n}, it must be above 0"):
        run_op(type, *[X] * inputs, n=n)


def test_shapes_must_agree() -> None:
    with pytest.raises(ShapeError, match=r"dY has 4 elements \(2, 2\), Y has 6 \(2, 3\)"):
        run_op("LeakyReluGradient", X, X[:, :2])
