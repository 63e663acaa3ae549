"""LabelCrossEntropy, CrossEntropy and gradients: against one row after the other; and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, NumericError, ShapeError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers in [0.1, 1.1), the same in every run."""
    return np.random.default_rng(sum(shape)).random(shape, np.float32) + np.float32(0.1)


def labels(*numbers: Any) -> Array:
    """Return int32 labels."""
    return np.array(numbers, np.int32)


def by_row(X: Array, label: Array) -> list[Array]:
    """Return Y, one row after the other."""
    return [np.array([-math.log(x.ravel()[n]) for x, n in zip(X, label.ravel(), strict=True)])]


def gradient_by_row(X: Array, label: Array, dY: Array) -> list[Array]:
    """Return dX: nothing but one quotient in each row."""
    dX = np.zeros(X.shape)
    for row, n in enumerate(label.ravel()):
        dX[row].flat[n] = -dY[row] / X[row].flat[n]
    return [dX]


CASES = [
    Case("LabelCrossEntropy", [values(3, 5), labels(4, 0, 2)], by_row, batched=(0, 1)),
    Case("LabelCrossEntropy", [values(3, 5), labels([4], [0], [2])], by_row, batched=(0, 1), id="labels (N, 1)"),
    Case("LabelCrossEntropy", [values(2, 3, 5), labels(14, 7)], by_row, id="rank 3"),
    Case("LabelCrossEntropy", [values(5), labels(3)], -np.log(values(5)[[3]]), id="a single row of rank 1"),
    Case("LabelCrossEntropyGradient", [values(3, 5), labels(4, 0, 2), values(3)], gradient_by_row, batched=(0, 1, 2)),
    Case("LabelCrossEntropyGradient", [values(2, 3, 5), labels([14], [7]), values(2)], gradient_by_row, id="rank 3"),
    Case(
        "LabelCrossEntropyGradient",
        [values(3), labels(1), values(1)],
        np.array([0, -values(1)[0] / values(3)[1], 0]),
        id="a single row of rank 1",
    ),
]


@on_all_engines(CASES)
def test_cross_entropy(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_tiny_probabilities() -> None:
    """behaviours.md row 24: Caffe2 clips at 1e-20, and divides by that in the gradient."""
    X = np.array([[0, 1], [-1, 1]], "f")
    np.testing.assert_allclose(run_op("LabelCrossEntropy", X, labels(0, 0)), [46.0517, 46.0517], rtol=1e-6)
    dX = run_op("LabelCrossEntropyGradient", X, labels(0, 0), np.array([2, 3], "f"))
    np.testing.assert_allclose(dX, [[-2e20, 0], [-3e20, 0]], rtol=1e-6)
    assert np.isnan(run_op("LabelCrossEntropy", np.array([[np.nan]], "f"), labels(0)))


X, N2 = values(2, 3), labels(2, 0)

REFUSED: list[tuple[str, list[Any], type[Exception], str]] = [
    ("LabelCrossEntropy", [X, np.array([0, 1])], DTypeError, "label is int64, it must be int32"),
    ("LabelCrossEntropy", [X, np.array([0, 1], "f")], DTypeError, "label is float32, it must be int32"),
    ("LabelCrossEntropy", [X.astype("d"), N2], DTypeError, "X is float64, it must be float32"),
    (
        "LabelCrossEntropy",
        [X, labels([2, 0])],
        ShapeError,
        r"label has the shape \(1, 2\), it must be \(N\) or \(N, 1\)",
    ),
    ("LabelCrossEntropy", [X, labels([2, 0], [1, 1])], ShapeError, r"label has the shape \(2, 2\), it must be"),
    ("LabelCrossEntropy", [X[:1], np.array(0, "i")], ShapeError, r"label has the shape \(\), it must be"),
    ("LabelCrossEntropy", [X, labels(2, 0, 1)], ShapeError, "3 labels for 2 rows of X"),
    ("LabelCrossEntropy", [X[0], labels(2, 0, 1)], ShapeError, "3 labels for 1 rows of X"),
    ("LabelCrossEntropy", [X[0, 0], labels(0)], ShapeError, "X has rank 0, it must have at least 1 dimension"),
    ("LabelCrossEntropy", [X, labels(0, 3)], NumericError, r"label 3 of row 1 is not in \[0, 3\)"),
    ("LabelCrossEntropy", [X, labels(-1, 0)], NumericError, r"label -1 of row 0 is not in \[0, 3\)"),
    ("LabelCrossEntropyGradient", [X, labels(0, 3), X[:, 0]], NumericError, r"label 3 of row 1 is not in \[0, 3\)"),
    ("LabelCrossEntropyGradient", [X, N2, X[0]], ShapeError, "dY has 3 elements, X has 2 rows"),
    ("LabelCrossEntropyGradient", [X, N2, X[:, :1]], ShapeError, r"dY has rank 2 \(2, 1\), it must have 1 dimension"),
    ("LabelCrossEntropyGradient", [X, labels(0), X[:, 0]], ShapeError, "1 labels for 2 rows of X"),
]


@pytest.mark.parametrize(("type", "inputs", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs)


def of_probabilities(X: Array, label: Array) -> Array:
    """Return Y, one row after the other."""
    rows = X.reshape(len(label), -1)
    pairs = [zip(x, t, strict=True) for x, t in zip(rows, label.reshape(rows.shape), strict=True)]
    return np.array([-sum(float(t) * math.log(max(float(x), 1e-20)) for x, t in row) for row in pairs])


SHARES = np.random.default_rng(3).random((3, 5), np.float32)
SOFT = [
    Case("CrossEntropy", [values(3, 5), SHARES], of_probabilities, batched=(0, 1), slack=2),
    Case("CrossEntropy", [values(3, 5, 1), SHARES], of_probabilities, slack=2, id="rank 3"),
    Case("CrossEntropy", [values(3, 1), SHARES[:, 0]], of_probabilities, slack=2, id="labels (N)"),
    Case("CrossEntropy", [values(5), SHARES[:1]], of_probabilities, slack=2, id="a single row of rank 1"),
    Case(
        "CrossEntropy", [np.zeros((2, 3), "f"), SHARES[:2, :3]], of_probabilities, gradient=False, id="nothing likely"
    ),
    Case(
        "CrossEntropyGradient",
        [values(3, 5), SHARES, values(3)],
        -values(3)[:, None] * SHARES / values(3, 5),
        batched=(0, 1, 2),
    ),
]


@on_all_engines(SOFT)
def test_probabilities(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("wrong", [-0.25, 1.5, math.nan])
def test_labels_that_are_no_probabilities_are_refused(wrong: float) -> None:
    label = SHARES.copy()
    label[1, 2] = wrong
    with pytest.raises(NumericError, match=r"label of row 1 is .*not in \[0, 1\]"):
        run_op("CrossEntropy", values(3, 5), label)


@pytest.mark.parametrize("label", [SHARES[:2], SHARES.T, SHARES[:, 0], SHARES[None]])
def test_labels_of_another_shape_are_refused(label: Array) -> None:
    with pytest.raises(ShapeError, match="label has the shape"):
        run_op("CrossEntropy", values(3, 5), label)
