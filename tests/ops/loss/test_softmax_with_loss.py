"""SoftmaxWithLoss and its gradient: against one row after the other, differences of the loss; and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, GradientError, NumericError, SchemaError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tazza.tensor import DataType, TensorSpec
from tests.check import Case, check_op, evaluate, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def labels(*numbers: Any) -> Array:
    """Return int32 labels."""
    return np.array(numbers, np.int32)


def distributions(*shape: int) -> Array:
    """Return probabilities: the last dimension sums up to 1."""
    powers = np.exp(values(*shape))
    return powers / powers.sum(axis=-1, keepdims=True)


def by_row(lead: int, scale: float = 1.0, by_size: bool = False) -> Any:
    """Return P and loss of one row after the other, in float64; `lead` dimensions are rows."""

    def function(X: Array, label: Array, weights: Array | None = None) -> tuple[Array, Array]:
        P, total, divisor = np.zeros(X.shape), 0.0, 0.0
        for n, place in enumerate(np.ndindex(*X.shape[:lead])):
            powers = np.e ** X[place].astype(np.float64)
            P[place] = powers / powers.sum()
            p, t = P[place].ravel(), label[place].ravel()
            numbers = label.dtype == np.int32
            loss = -math.log(p[t[0]]) if numbers else -sum(a * math.log(b) for a, b in zip(t, p, strict=True))
            weight = 1.0 if weights is None else float(weights.ravel()[n])
            total += weight * loss
            divisor += 1.0 if by_size else weight
        return P, np.array(scale * total / divisor)

    return function


WEIGHTS = np.array([0.5, 2.0, 1.5], "f")
# The gradient of P is not passed on, so the harness cannot check gradients here; `test_gradient` does.
CASES = [
    Case("SoftmaxWithLoss", [values(3, 5), labels(4, 0, 2)], by_row(1), batched=(0, 1), gradient=False),
    Case("SoftmaxWithLoss", [values(3, 5), labels([4], [0], [2])], by_row(1), gradient=False, id="labels (N, 1)"),
    Case(
        "SoftmaxWithLoss",
        [values(3, 5), labels(4, 0, 2), WEIGHTS],
        by_row(1),
        batched=(0, 1, 2),
        gradient=False,
        id="weights",
    ),
    Case(
        "SoftmaxWithLoss",
        [values(3, 5), labels(4, 0, 2), WEIGHTS[:, np.newaxis]],
        by_row(1, 2.5, by_size=True),
        {"scale": 2.5, "average_by_batch_size": 1},
        gradient=False,
        id="average_by_batch_size",
    ),
    Case(
        "SoftmaxWithLoss",
        [values(2, 3, 5), labels([4, 0, 2], [1, 1, 3]), values(2, 3)],
        by_row(2),
        {"axis": -1, "order": "nchw"},
        gradient=False,
        slack=4,
        id="axis -1",
    ),
    Case("SoftmaxWithLoss", [values(2, 3), np.array(5, "i")], by_row(0), {"axis": 0}, gradient=False, id="axis 0"),
    Case(
        "SoftmaxWithLoss",
        [values(3, 5), distributions(3, 5), WEIGHTS],
        by_row(1),
        {"label_prob": 1},
        batched=(0, 1, 2),
        gradient=False,
        id="label_prob",
    ),
    Case(
        "SoftmaxWithLoss",
        [values(2, 3, 5), distributions(2, 3, 5)],
        by_row(2, 0.5),
        {"label_prob": 1, "axis": 2, "scale": 0.5},
        gradient=False,
        id="label_prob axis 2",
    ),
    Case(
        "SoftmaxWithLossGradient",
        [values(2, 3), labels(2, 0), distributions(2, 3), np.float32(3)],
        1.5 * (distributions(2, 3) - np.array([[0, 0, 1], [1, 0, 0]])),
        batched=(0, 1, 2),
    ),
    Case(
        "SoftmaxWithLossGradient",
        [values(2, 3), distributions(3, 2).T.copy(), WEIGHTS[:2], distributions(2, 3), np.ones((1, 1), "f")],
        (distributions(2, 3) - distributions(3, 2).T) * np.array([[0.5 / 2], [2 / 2]]),
        {"label_prob": 1, "average_by_batch_size": 1},
        batched=(0, 1, 2, 3),
        id="label_prob",
    ),
    Case("SoftmaxWithLossGradient", [values(0, 3), labels(), values(0, 3), np.float32(3)], values(0, 3), id="no row"),
]


@on_all_engines(CASES)
def test_softmax_with_loss(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("case", [case for case in CASES if case.type == "SoftmaxWithLoss"], ids=lambda c: c.id)
def test_gradient(case: Case) -> None:
    """The gradient of the loss is a float64 central difference of the reference kernel."""
    inputs, definition = case.arrays(), case.definition()
    (P, loss), operator = run(definition, inputs)
    (step,), gradients = gradient_for_op(operator.op, [None, "dloss"])
    assert gradients == ["in0_grad", *[None] * (len(inputs) - 1)]
    blobs = dict(zip((*definition.input, *definition.output), (*inputs, P, loss), strict=True)) | {
        "dloss": np.float32(3)
    }
    (dX,), _ = run(step, [np.asarray(blobs[name]) for name in step.input])
    direction = np.random.default_rng(7).standard_normal(inputs[0].shape)
    X = inputs[0].astype(np.float64)
    high, low = (evaluate(operator.op, [X + s * 1e-4 * direction, *inputs[1:]])[1] for s in (1, -1))
    assert float((dX * direction).sum()) == pytest.approx(3 * float(high - low) / 2e-4, rel=1e-4, abs=1e-5)


def test_unlikely_labels_stay_finite() -> None:
    """With numbers the loss comes from X, with probabilities from P clipped at 1e-20, as in Caffe2."""
    X = np.array([[1000, 0], [100, 0]], "f")
    assert run_op("SoftmaxWithLoss", X, labels(1, 1))[1] == 550
    loss = run_op("SoftmaxWithLoss", X, np.array([[0, 1], [0, 1]], "f"), label_prob=1)[1]
    np.testing.assert_allclose(loss, 46.0517, rtol=1e-6)


def test_negative_weights() -> None:
    """Loss and gradient divide by the same sum of weights, whatever its sign; a sum of 0 gives 0."""
    X, P = values(2, 3), distributions(2, 3)
    for w, parts in (([-3.0, 1.0], [1.5, -0.5]), ([-1.0, 1.0], [0, 0]), ([0.0, 0.0], [0, 0])):
        weights = np.array(w, "f")
        rows = [float(run_op("SoftmaxWithLoss", X[n : n + 1], labels(n))[1]) for n in range(2)]
        loss = run_op("SoftmaxWithLoss", X, labels(0, 1), weights)[1]
        np.testing.assert_allclose(loss, np.dot(parts, rows), rtol=1e-5)
        dX = run_op("SoftmaxWithLossGradient", X, labels(0, 1), weights, P, np.float32(1))
        np.testing.assert_allclose(dX, np.array(parts)[:, None] * (P - np.eye(2, 3)), rtol=1e-5, atol=1e-7)


def test_the_third_output_of_old_nets_is_empty() -> None:
    assert run_op("SoftmaxWithLoss", values(2, 3), labels(0, 1), outputs=3)[2].size == 0


def test_the_gradient_needs_that_of_the_loss() -> None:
    op = find_schema("SoftmaxWithLoss").view(operator_def("SoftmaxWithLoss", ["x", "l"], ["p", "loss"]))
    with pytest.raises(GradientError, match="SoftmaxWithLoss needs the gradient of its output 'loss'"):
        gradient_for_op(op, ["p_grad", None])


X, P, ONE = values(2, 3), distributions(2, 3), np.float32(1)
LABEL, SOFT, W = labels(2, 0), distributions(2, 3), WEIGHTS[:2]

REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("", [X, np.array([2, 0])], {}, DTypeError, "label is int64, with label_prob = 0 it must be int32"),
    (
        "",
        [X, labels([1, 0, 0], [0, 1, 0])],
        {"label_prob": 1},
        DTypeError,
        "label is int32, with label_prob = 1 it must",
    ),
    ("", [X.astype("d"), LABEL], {}, DTypeError, "X is float64, it must be float32"),
    (
        "",
        [X, labels([2, 0])],
        {},
        ShapeError,
        r"label has the shape \(1, 2\), X \(2, 3\) with axis 1 needs \(2\) or \(2, 1\)",
    ),
    ("", [X, labels([2, 0], [0, 0])], {}, ShapeError, r"label has the shape \(2, 2\), X"),
    ("", [X, np.array(1, "i")], {}, ShapeError, r"label has the shape \(\), X"),
    ("", [values(2, 3, 5), labels(*range(5), 0)], {"axis": 2}, ShapeError, r"needs \(2, 3\) or \(2, 3, 1\)"),
    (
        "",
        [X, SOFT[:, :2]],
        {"label_prob": 1},
        ShapeError,
        r"label has the shape \(2, 2\), X \(2, 3\) with axis 1 needs",
    ),
    ("", [X, SOFT.ravel()], {"label_prob": 1}, ShapeError, r"label has the shape \(6\), X .* needs \(2, 3\)"),
    ("", [X, LABEL, WEIGHTS], {}, ShapeError, r"weights \(3\) are not one for each of 2 rows of X"),
    ("", [X[0], LABEL], {}, ShapeError, "axis = 1 is not an axis of X"),
    ("", [X, LABEL], {"axis": 2}, ShapeError, "axis = 2 is not an axis of X"),
    ("", [X, labels(0, 3)], {}, NumericError, r"label 3 of row 1 is not in \[0, 3\)"),
    ("", [X, labels(-1, 0)], {}, NumericError, r"label -1 of row 0 is not in \[0, 3\)"),
    (
        "",
        [X, np.array([[0, 1, 0], [0.5, 0.5, 0.5]], "f")],
        {"label_prob": 1},
        NumericError,
        "row 1 sums up to 1.5, not 1",
    ),
    (
        "",
        [X, np.array([[0.5, -0.5, 1], [0, 0, 1]], "f")],
        {"label_prob": 1},
        NumericError,
        "row 0 has the probability -0.5",
    ),
    ("", [X, np.full((2, 3), np.nan, "f")], {"label_prob": 1}, NumericError, "row 0 sums up to nan, not 1"),
    ("", [X, LABEL], {"scale": -2.0}, ArgumentError, "'scale' = -2.0 is below its minimum 0"),
    ("", [X, LABEL], {"scale": 2}, ArgumentError, "'scale' wants float"),
    ("", [X, LABEL], {"order": "NHWC"}, ArgumentError, "'order' = 'NHWC' is not one of 'NCHW', 'nchw'"),
    ("", [X, LABEL], {"outputs": 1}, SchemaError, "SoftmaxWithLoss has 1 outputs, it takes 2 to 3"),
    ("Gradient", [X, LABEL, P], {}, SchemaError, "SoftmaxWithLossGradient has 3 inputs, it takes 4 to 5"),
    ("Gradient", [X, LABEL, P[:1], ONE], {}, ShapeError, r"S is \(1, 3\) in P and \(2, 3\) in X"),
    ("Gradient", [X, LABEL, P, W], {}, ShapeError, r"dloss has the shape \(2\), it must have 1 element"),
    ("Gradient", [X, labels(0), P, ONE], {}, ShapeError, r"label has the shape \(1\), X"),
    ("Gradient", [X, labels(0, 3), P, ONE], {}, NumericError, r"label 3 of row 1 is not in \[0, 3\)"),
    ("Gradient", [X, LABEL, WEIGHTS, P, ONE], {}, ShapeError, r"weights \(3\) are not one for each of 2 rows of X"),
]


@pytest.mark.parametrize(("suffix", "inputs", "args", "error", "text"), REFUSED)
def test_refused(suffix: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(f"SoftmaxWithLoss{suffix}", *inputs, **args)


def test_never_in_place() -> None:
    with pytest.raises(SchemaError, match="cannot write P in place of X"):
        run(operator_def("SoftmaxWithLoss", ["x", "l"], ["x", "loss"]), [X, LABEL])


def test_an_empty_batch_has_no_loss() -> None:
    """behaviours.md row 24; the loss has rank 0."""
    loss = run_op("SoftmaxWithLoss", X[:0], labels())[1]
    assert (loss.shape, float(loss)) == ((), 0.0)


def test_unknown_dimensions() -> None:
    schema = find_schema("SoftmaxWithLoss")
    op = schema.view(operator_def("SoftmaxWithLoss", ["x", "l"], ["p", "loss"]))
    for dims in ((None, 3), None):
        specs = [TensorSpec(dims, DataType.FLOAT), TensorSpec((2,), DataType.INT32)]
        assert schema.infer_specs(op, specs).specs == (specs[0], TensorSpec((), DataType.FLOAT))
