"""GroupSpatialSoftmax and its gradient: group by group, place by place; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]
TYPE = "GroupSpatialSoftmax"


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def grouped(K: int) -> Any:
    """Return the softmax of each group of K channels at each place."""

    def function(X: Array) -> Array:
        Y = np.zeros(X.shape)
        for n, a, h, w in np.ndindex(X.shape[0], X.shape[1] // K, *X.shape[2:]):
            where = (n, slice(a * K, a * K + K), h, w)
            Y[where] = np.exp(X[where].astype(np.float64))
            Y[where] /= Y[where].sum()
        return Y

    return function


X = values(2, 6, 4, 5)
CASES = [
    Case(TYPE, [X], grouped(3), {"num_classes": 3}, batched=(0,)),
    Case(TYPE, [X], grouped(2), {"num_classes": 2, "order": "NCHW"}, batched=(0,)),
    Case(TYPE, [X], np.ones(X.shape), {"num_classes": 1}, id="one class"),
    Case(TYPE, [values(1, 81, 2, 1)], grouped(81), id="default"),
    Case(TYPE, [X[:, :0]], np.zeros((2, 0, 4, 5)), {"num_classes": 3}, id="no groups"),
    Case(
        f"{TYPE}Gradient",
        [np.array([0.25, 0.75, 0.5, 0.5], "f").reshape(1, 4, 1, 1), np.array([4, 0, 1, 3], "f").reshape(1, 4, 1, 1)],
        np.array([0.75, -0.75, -0.5, 0.5]).reshape(1, 4, 1, 1),
        {"num_classes": 2},
        batched=(0, 1),
    ),
]


@on_all_engines(CASES)
def test_group_spatial_softmax(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_large_numbers_stay_finite() -> None:
    far = np.array([500, 499, -500], "f").reshape(1, 3, 1, 1)
    np.testing.assert_allclose(run_op(TYPE, far, num_classes=3).ravel(), [0.731059, 0.268941, 0], rtol=1e-5)


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X], {"num_classes": 4}, ShapeError, r"X has 6 channels \(2, 6, 4, 5\), num_classes = 4"),
    ([X], {"num_classes": 0}, ArgumentError, "'num_classes' = 0 is below its minimum 1"),
    ([X], {"num_classes": 3, "order": "NHWC"}, ArgumentError, "'order'"),
    ([X[0]], {"num_classes": 3}, ShapeError, "X"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(TYPE, *inputs, **args)


def test_emitted_gradient() -> None:
    (step,), _ = backward_pass([operator_def(TYPE, ["x"], ["y"], num_classes=3)], {"y": "y_grad"})
    assert (step.type, list(step.input)) == (f"{TYPE}Gradient", ["y", "y_grad"])
