"""CTC: against the sum over all paths, and central differences of it; and what is refused."""

from __future__ import annotations

import math
from itertools import groupby, product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, GradientError, NumericError, SchemaError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def cost_of_all_paths(x: Array, labels: list[int]) -> float:
    """Return -log of the sum of all paths that come to the labels, 0 where there is none; x (T, C) in float64."""
    powers = np.exp(x)
    y = powers / powers.sum(axis=1, keepdims=True)
    total = 0.0
    for path in product(range(x.shape[1]), repeat=len(x)):
        if [symbol for symbol, _ in groupby(path) if symbol] == labels:
            total += math.prod(float(y[t, c]) for t, c in enumerate(path))
    return -math.log(total) if total > 0 else 0.0


def costs(X: Array, labels: Array, counts: Array, lengths: Array | None = None) -> Array:
    """Return the cost of each sequence."""
    T, N, _ = X.shape
    ends = np.cumsum(counts).tolist()
    own = [labels[end - count : end].tolist() for count, end in zip(counts.tolist(), ends, strict=True)]
    steps = [T] * N if lengths is None else lengths.tolist()
    return np.array([cost_of_all_paths(X[: steps[n], n].astype(np.float64), own[n]) for n in range(N)])


def trained(X: Array, *rest: Array) -> tuple[Array, Array, Array]:
    """Return slopes by central differences, costs, and what is left empty."""
    slopes = np.zeros(X.shape)
    for place in np.ndindex(*X.shape):
        step = np.zeros(X.shape)
        step[place] = 1e-5
        high, low = (costs(X.astype(np.float64) + s * step, *rest) for s in (1, -1))
        slopes[place] = float((high - low).sum()) / 2e-5
    return slopes, costs(X, *rest), np.zeros(0, np.uint8)


def without_slopes(X: Array, *rest: Array) -> tuple[Array, Array]:
    """Return costs, and what is left empty."""
    return costs(X, *rest), np.zeros(0, np.uint8)


X = np.random.default_rng(3).standard_normal((4, 3, 3)).astype(np.float32)
LABELS, COUNTS = np.array([1, 2, 1, 2, 2], "i"), np.array([2, 1, 2], "i")
LENGTHS = np.array([3, 1, 4], "i")
# The gradient copies the slopes, whatever that of the costs is, so that the harness cannot check it.
CASES = [
    Case("CTC", [X, LABELS, COUNTS], trained, outputs=3, gradient=False, slack=10),
    Case("CTC", [X, LABELS, COUNTS, LENGTHS], trained, outputs=3, gradient=False, slack=10, id="lengths"),
    Case(
        "CTC", [X, LABELS[:2], np.array([0, 2, 0], "i")], trained, outputs=3, gradient=False, slack=10, id="no labels"
    ),
    Case("CTC", [X[:2], LABELS, COUNTS], trained, outputs=3, gradient=False, slack=10, id="too short"),
    Case(
        "CTC",
        [X, LABELS, COUNTS, LENGTHS],
        without_slopes,
        {"is_test": 1},
        outputs=2,
        gradient=False,
        slack=10,
        id="is_test",
    ),
    Case(
        "CTC",
        [X[:0], LABELS[:0], COUNTS * 0],
        (np.zeros((0, 3, 3)), np.zeros(3), np.zeros(0, np.uint8)),
        outputs=3,
        gradient=False,
        id="no steps",
    ),
]


@on_all_engines(CASES)
def test_ctc(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_far_scores_and_long_sequences_stay_finite() -> None:
    long = np.random.default_rng(5).standard_normal((300, 1, 7)).astype(np.float32) * 30
    slopes, cost, _ = run_op("CTC", long, np.tile(np.arange(1, 7, dtype=np.int32), 10), np.array([60], "i"), outputs=3)
    assert np.isfinite(slopes).all()
    assert cost[0] > 1000
    np.testing.assert_allclose(slopes.sum(axis=2), 0, atol=1e-3)


def test_the_gradient_copies_the_slopes() -> None:
    definition = operator_def("CTC", ["x", "l", "n", "t"], ["dx", "cost", "space"])
    made, names = gradient_for_op(find_schema("CTC").view(definition), [None, "g", None])
    assert [(op.type, *op.input, *op.output) for op in made] == [("Copy", "dx", "x_grad")]
    assert names == ["x_grad", None, None, None]
    tested = find_schema("CTC").view(operator_def("CTC", ["x", "l", "n"], ["cost", "space"], is_test=1))
    with pytest.raises(GradientError, match="CTC with is_test makes no slopes"):
        gradient_for_op(tested, ["g", None])


REFUSED: list[tuple[list[Any], dict[str, Any], type[Exception], str]] = [
    ([X, LABELS, COUNTS], {"outputs": 2}, SchemaError, "2 outputs with is_test = 0"),
    ([X, LABELS, COUNTS], {"outputs": 3, "is_test": 1}, SchemaError, "3 outputs with is_test = 1"),
    ([X[0], LABELS, COUNTS], {"outputs": 3}, ShapeError, "X has"),
    ([X, LABELS, COUNTS[:2]], {"outputs": 3}, ShapeError, "N is"),
    ([X, LABELS + 1, COUNTS], {"outputs": 3}, NumericError, r"labels\[1\] is 3, not in \[0, 3\)"),
    ([X, LABELS, COUNTS - 1], {"outputs": 3}, NumericError, "the 3 label_lengths add up to 2, and there are 5 labels"),
    ([X, LABELS, COUNTS, LENGTHS + 1], {"outputs": 3}, NumericError, r"lengths\[2\] is 5, not in \[0, 5\)"),
    ([X, LABELS.astype(np.int64), COUNTS], {"outputs": 3}, DTypeError, "labels is int64"),
]


@pytest.mark.parametrize(("inputs", "arguments", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("CTC", *inputs, **arguments)
