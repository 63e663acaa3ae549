"""UpsampleNearest and its gradient: pixel by pixel; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def repeated(s: int) -> Any:
    """Return images in which each pixel is repeated."""

    def function(X: Array) -> Array:
        return np.kron(X, np.ones((s, s)))

    return function


def summed(X: Array, dY: Array) -> Array:
    """Return the sum over the pixels that each pixel became."""
    dX, s = np.zeros(X.shape), dY.shape[-1] // X.shape[-1]
    for *n, h, w in np.ndindex(*dY.shape):
        dX[(*n, h // s, w // s)] += dY[(*n, h, w)]
    return dX


X = values(2, 3, 4, 5)
CASES = [
    Case("UpsampleNearest", [X], repeated(2), batched=(0,)),
    Case("UpsampleNearest", [X], repeated(3), {"scale": 3}, batched=(0,)),
    Case("UpsampleNearest", [X[0]], repeated(1), {"scale": 1}, id="one image"),
    Case("UpsampleNearest", [X[0, 0]], repeated(2), id="a plane"),
    Case("UpsampleNearestGradient", [X, values(2, 3, 8, 10)], summed, batched=(0, 1)),
    Case("UpsampleNearestGradient", [X, values(2, 3, 12, 15)], summed, {"scale": 3}, batched=(0, 1)),
]


@on_all_engines(CASES)
def test_upsample_nearest(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("UpsampleNearest", [X[0, 0, 0]], {}, ShapeError, r"X has 1 dimensions \(5\)"),
    ("UpsampleNearest", [X], {"scale": 0}, ArgumentError, "'scale' = 0 is below its minimum 1"),
    ("UpsampleNearest", [X.astype("d")], {}, DTypeError, "X is float64, it must be float32"),
    ("UpsampleNearestGradient", [X, X], {}, ShapeError, r"dY has the shape \(2, 3, 4, 5\), Y has \(2, 3, 8, 10\)"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


def test_emitted_gradient() -> None:
    (step,), _ = backward_pass([operator_def("UpsampleNearest", ["x"], ["y"], scale=3)], {"y": "y_grad"})
    assert (step.type, list(step.input)) == ("UpsampleNearestGradient", ["x", "y_grad"])
