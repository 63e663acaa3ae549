"""ConvRelu: a convolution, then what is above 0; NaN gives 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import GradientError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def rectified(X: Array, W: Array, b: Array | float = 0.0) -> Array:
    """Return a 2-D convolution as a sum over kernel places, cut off at 0."""
    height, width = X.shape[2] - W.shape[2] + 1, X.shape[3] - W.shape[3] + 1
    total = np.zeros((X.shape[0], W.shape[0], height, width))
    for i, j in np.ndindex(*W.shape[2:]):
        part = X[:, :, i : i + height, j : j + width].astype(np.float64)
        total += np.einsum("nchw,mc->nmhw", part, W[:, :, i, j])
    return np.maximum(total + np.reshape(b, (-1, 1, 1)), 0)


X, W, B = values(2, 3, 7, 6), values(5, 3, 3, 2), values(5)

CASES = [
    Case("ConvRelu", [X, W, B], rectified, {"kernels": [3, 2]}, batched=(0,)),
    Case("ConvRelu", [X, W], rectified, {"kernels": [3, 2]}, id="no bias"),
    Case(
        "ConvRelu",
        [np.moveaxis(X, 1, -1).copy(), np.moveaxis(W, 1, -1).copy()],
        np.moveaxis(rectified(X, W), 1, -1),
        {"kernels": [3, 2], "order": "NHWC"},
        id="nhwc",
    ),
]


@on_all_engines(CASES)
def test_conv_relu(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_what_is_no_number_gives_0() -> None:
    one = np.ones((1, 1, 1), "f")
    assert run_op("ConvRelu", np.array([[[1, -2, np.nan]]], "f"), one, kernels=[1]).tolist() == [[[1, 0, 0]]]


def test_it_is_checked_as_a_convolution_is() -> None:
    with pytest.raises(ShapeError, match=r"b has the shape \(4\), W has 5 output channels"):
        run_op("ConvRelu", X, W, B[:4], kernels=[3, 2])


def test_it_has_no_gradient() -> None:
    op = find_schema("ConvRelu").view(operator_def("ConvRelu", ["x", "w"], ["y"], kernel=2))
    with pytest.raises(GradientError, match="made when a net is trained"):
        gradient_for_op(op, ["y_grad"])
