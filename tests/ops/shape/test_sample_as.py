"""SampleAs and its gradient: row by row; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.random.default_rng(0).standard_normal((5, 2, 3)).astype(np.float32)
LABELS = np.array([2, 0, -1, 1, 7], "i")
D_Y = np.arange(18, dtype="f").reshape(3, 2, 3) + 1


def spread(X: Array, labels: Array, dY: Array) -> Array:
    """Return dY where rows were taken."""
    dX, left = np.zeros(X.shape), list(dY)
    for n, label in enumerate(labels.flat):
        if label > 0:
            dX[n] = left.pop(0)
    return dX


CASES = [
    Case("SampleAs", [X, LABELS], X[[0, 3, 4]], batched=(0, 1)),
    Case("SampleAs", [X, LABELS.reshape(5, 1)], X[[0, 3, 4]], id="column"),
    Case("SampleAs", [X[:, 0, 0], LABELS], X[[0, 3, 4], 0, 0], id="list"),
    Case("SampleAs", [X, 0 * LABELS], X[:0], id="no objects"),
    Case("SampleAsGradient", [X, LABELS, D_Y], spread),
    Case("SampleAsGradient", [X, LABELS, np.concatenate([D_Y, D_Y])], spread, id="more than is read"),
    Case("SampleAsGradient", [X[:0], LABELS[:0], D_Y[:0]], X[:0], id="no rows"),
]


@on_all_engines(CASES)
def test_sample_as(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    ("SampleAs", [X, LABELS[:4]], ShapeError, "N is"),
    ("SampleAs", [X, LABELS.astype("q")], DTypeError, "labels is int64, it must be int32"),
    ("SampleAsGradient", [X, LABELS, D_Y[:2]], NumericError, "3 labels are above 0, and dY has 2 rows"),
    ("SampleAsGradient", [X, LABELS, D_Y[:, :1]], ShapeError, "S is"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)


def test_emitted_gradient() -> None:
    (step,), _ = backward_pass([operator_def("SampleAs", ["x", "l"], ["y"])], {"y": "y_grad"})
    assert (step.type, list(step.input)) == ("SampleAsGradient", ["x", "l", "y_grad"])
