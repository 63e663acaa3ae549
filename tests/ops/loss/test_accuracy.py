"""Accuracy against sorting each row, MultiClassAccuracy against counting; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, GradientError, NumericError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def labels(*numbers: Any) -> Array:
    """Return int32 labels."""
    return np.array(numbers, np.int32)


def by_sorting(X: Array, label: Array, top_k: int = 1) -> Array:
    """Return the accuracy by a stable sort of each row."""
    best = np.argsort(-X, axis=1, kind="stable")[:, :top_k]
    return np.array(np.mean([n in row for n, row in zip(label.tolist(), best.tolist(), strict=True)]))


X = np.array([[0.2, 0.3, 0.5], [0.1, 0.8, 0.1], [0.4, 0.4, 0.2], [0.1, 0.2, 0.3], [0.3, 0.2, 0.1]], "f")

CASES = [
    Case("Accuracy", [X, labels(2, 0, 1, 2, 0)], by_sorting, batched=(0, 1)),
    Case("Accuracy", [X, labels(1, 0, 1, 0, 2)], by_sorting(X, labels(1, 0, 1, 0, 2), 2), {"top_k": 2}, id="top 2"),
    Case("Accuracy", [X, labels(0, 1, 2, 0, 1)], np.float32(1), {"top_k": 4}, id="more than there are"),
    Case("Accuracy", [np.ones((4, 3), "f"), labels(0, 1, 2, 0)], np.float32(0.5), id="equal scores rank by index"),
    Case("Accuracy", [X, labels(5, -1, 3, 2, 0)], np.float32(0.4), {"top_k": 3}, id="labels that are no class"),
    Case("Accuracy", [X[:2, :0], labels(0, 0)], np.float32(0), id="no classes"),
]


@on_all_engines(CASES)
def test_accuracy(case: Case, engine: str) -> None:
    check_op(case, engine)


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(-2, 2), min_size=4, max_size=4), min_size=1, max_size=5), st.integers(1, 5))
def test_ties(rows: list[list[int]], top_k: int) -> None:
    scores, label = np.array(rows, np.float32), labels(*[row[0] % 4 for row in rows])
    np.testing.assert_allclose(
        run_op("Accuracy", scores, label, top_k=top_k), by_sorting(scores, label, top_k), rtol=1e-6
    )


def test_empty_batch() -> None:
    """behaviours.md row 24."""
    result = run_op("Accuracy", X[:0], labels())
    assert result.shape == ()
    assert np.isnan(result)


def test_nan_is_never_right() -> None:
    """Caffe2 counts every row as a hit whose label has the score NaN: a net that diverged seems perfect."""
    scores = np.full((2, 3), np.nan, "f")
    assert run_op("Accuracy", scores, labels(0, 2)) == 0
    scores[1] = [np.nan, 2, 1]
    assert run_op("Accuracy", scores, labels(0, 1)) == 0.5


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X, np.zeros(5, "i8")], {}, DTypeError, "label is int64, it must be int32"),
    ([X.astype("d"), labels(*range(5))], {}, DTypeError, "X is float64, it must be float32"),
    ([X, labels([0], [1], [2], [0], [1])], {}, ShapeError, r"label has rank 2 \(5, 1\), it must have 1 dimension"),
    ([X, labels(0, 1, 2)], {}, ShapeError, r"N is \(3\) in label and \(5\) in X"),
    ([X[0], labels(0)], {}, ShapeError, r"X has rank 1 \(3\), it must have 2 dimensions"),
    ([X, labels(*range(5))], {"top_k": 0}, ArgumentError, "'top_k' = 0 is below its minimum 1"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("Accuracy", *inputs, **args)


def test_its_gradient_is_forbidden() -> None:
    op = find_schema("Accuracy").view(operator_def("Accuracy", ["x", "l"], ["a"]))
    with pytest.raises(GradientError, match="Accuracy must not be asked for its gradient"):
        gradient_for_op(op, ["a_grad"])


def by_counting(X: Array, label: Array) -> tuple[Array, Array]:
    """Return the accuracy of each class and its rows, one row after the other."""
    hits, amounts = [0] * X.shape[1], [0] * X.shape[1]
    for row, own in zip(X.tolist(), label.ravel().tolist(), strict=False):
        amounts[own] += 1
        hits[own] += row.index(max(row)) == own
    parts = [hit / count if count else 0.0 for hit, count in zip(hits, amounts, strict=True)]
    return np.array(parts), np.array(amounts, np.int32)


OF_CLASSES = [
    Case("MultiClassAccuracy", [X, labels(2, 0, 1, 2, 0)], by_counting, batched=(0, 1)),
    Case("MultiClassAccuracy", [X, labels([0], [0], [2], [2], [2])], by_counting, id="a class without rows"),
    Case("MultiClassAccuracy", [X, labels(2, 1, 0, 2, 0, 7)], by_counting, id="more labels"),
    Case("MultiClassAccuracy", [X[:0], labels()], (np.zeros(3), np.zeros(3, "i")), id="no rows"),
]


@on_all_engines(OF_CLASSES)
def test_multi_class_accuracy(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_scores_that_are_no_numbers() -> None:
    """They are passed over; of rows of higher rank the first D scores are looked at: numbers of Caffe2."""
    scores = np.array([[np.nan, np.nan], [0.8, 0.2], [0.5, np.nan], [np.nan, 0.1]], "f")
    assert [x.tolist() for x in run_op("MultiClassAccuracy", scores, labels(0, 1, 0, 1))] == [[1, 0.5], [2, 2]]
    deep = np.arange(1, 9, dtype="f").reshape(2, 2, 2)
    assert [x.tolist() for x in run_op("MultiClassAccuracy", deep, labels(1, 1))] == [[0, 1], [0, 2]]


@pytest.mark.parametrize(
    ("inputs", "error", "text"),
    [
        ([X[0], labels(0)], ShapeError, "X has the rank 1"),
        ([X[:, :0], labels(0, 0, 0, 0, 0)], ShapeError, "X has 5 rows without scores"),
        ([X, labels(0, 1)], ShapeError, "2 labels for 5 rows of X"),
        ([X, labels(0, 3, 1, 0, 0)], NumericError, r"label 3 of row 1 is not in \[0, 3\)"),
        ([X, labels(0, 1, -1, 0, 0)], NumericError, "label -1 of row 2"),
        ([X, np.zeros(5, np.int64)], DTypeError, "label is int64"),
    ],
)
def test_classes_refused(inputs: list[Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("MultiClassAccuracy", *inputs)
