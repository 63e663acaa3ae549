"""SmoothL1Loss, SelectSmoothL1Loss and their gradients: number by number; boxes that lie outside; what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, NumericError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]


def values(*shape: int, seed: int = 0) -> Array:
    """Return float32 numbers of that shape, the same in every run."""
    return (1.5 * np.random.default_rng([sum(shape), seed]).standard_normal(shape)).astype(np.float32)


def curve(v: float, beta: float) -> float:
    """Return the loss of one difference."""
    return v * v / 2 / beta if -beta < v < beta else abs(v) - beta / 2


def slope(v: float, beta: float) -> float:
    """Return its derivative."""
    return max(-1.0, min(1.0, v / beta))


def lost(beta: float, scale: float) -> Any:
    """Return the loss of rows."""

    def function(Y_hat: Array, Y: Array, inner: Array, outer: Array) -> Array:
        each = zip(Y_hat.flat, Y.flat, inner.flat, outer.flat, strict=True)
        return np.array(sum(b * curve(a * (p - y), beta) for p, y, a, b in each) * scale / len(Y))

    return function


def pulled(beta: float, scale: float) -> Any:
    """Return the gradient of rows."""

    def function(Y_hat: Array, Y: Array, inner: Array, outer: Array, dloss: Array) -> Array:
        each = zip(Y_hat.flat, Y.flat, inner.flat, outer.flat, strict=True)
        slopes = [a * b * slope(a * (p - y), beta) for p, y, a, b in each]
        return np.reshape(slopes, Y_hat.shape) * scale / len(Y) * dloss

    return function


def found(beta: float, scale: float) -> Any:
    """Return the loss of boxes that are looked up one after the other."""

    def function(Y_hat: Array, Y: Array, locations: Array, normalizer: Array) -> Array:
        total = 0.0
        for box, (n, c, y, x) in zip(Y, locations.astype(int), strict=True):
            total += sum(curve(Y_hat[n, c + j, y, x] - box[j], beta) for j in range(4))
        return np.array(total * scale / max(float(normalizer.item()), 1.0))

    return function


def put(beta: float, scale: float) -> Any:
    """Return the gradient of boxes."""

    def function(Y_hat: Array, Y: Array, locations: Array, normalizer: Array, dloss: Array) -> Array:
        dY_hat = np.zeros(Y_hat.shape)
        for box, (n, c, y, x) in zip(Y, locations.astype(int), strict=True):
            for j in range(4):
                share = slope(Y_hat[n, c + j, y, x] - box[j], beta) * float(dloss.item())
                dY_hat[n, c + j, y, x] = share * scale / max(float(normalizer.item()), 1.0)
        return dY_hat

    return function


ROWS = [values(3, 5), values(3, 5, seed=1), np.abs(values(3, 5, seed=2)), np.abs(values(3, 5, seed=3))]
DEEP = [values(2, 3, 4), values(2, 12, seed=1), values(24), values(4, 6)]
Y_HAT = values(2, 9, 3, 7)
PLACES = np.array([[0, 0, 2, 6], [1, 5, 0, 3], [1, 2, 2, 0], [0, 4, 1, 1], [1, 1.5, 1, 4]], "f")
BOXES = [Y_HAT, values(5, 4), PLACES, np.array([3], "f")]
SMALL: dict[str, Any] = {"beta": 0.5, "scale": 2.0}
D_LOSS = np.array(1.5, "f")

CASES = [
    Case("SmoothL1Loss", ROWS, lost(1, 1), slack=4),
    Case("SmoothL1Loss", DEEP, lost(0.5, 2), SMALL, slack=4, id="other shapes"),
    Case("SmoothL1LossGradient", [*ROWS, D_LOSS], pulled(1, 1), batched=(0, 1, 2, 3)),
    Case("SmoothL1LossGradient", [*DEEP, D_LOSS.reshape(1, 1)], pulled(0.5, 2), SMALL, slack=4, id="other shapes"),
    Case("SelectSmoothL1Loss", BOXES, found(1, 1), slack=4),
    Case("SelectSmoothL1Loss", [*BOXES[:3], np.array(0, "f")], found(0.5, 2), SMALL, slack=4, id="few objects"),
    Case("SelectSmoothL1Loss", [Y_HAT, *(x[:0] for x in BOXES[1:3]), BOXES[3]], np.array(0), id="no boxes"),
    Case("SelectSmoothL1LossGradient", [*BOXES, D_LOSS], put(1, 1), batched=(1, 2)),
    Case("SelectSmoothL1LossGradient", [*BOXES, D_LOSS], put(0.5, 2), SMALL, slack=4, id="small"),
]


@on_all_engines(CASES)
def test_smooth_l1(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_without_rows_there_is_no_mean() -> None:
    assert math.isnan(run_op("SmoothL1Loss", *(x[:0] for x in ROWS)))


def test_what_is_no_number_has_no_slope() -> None:
    ones = np.ones((1, 2), "f")
    dY_hat = run_op("SmoothL1LossGradient", np.array([[np.nan, 0.5]], "f"), 0 * ones, ones, ones, D_LOSS)
    assert dY_hat.tolist() == [[0, 0.75]]


def test_of_two_boxes_at_one_place_the_last_one_counts() -> None:
    boxes = [Y_HAT, values(2, 4), PLACES[[1, 1]], np.array([1], "f")]
    last = [Y_HAT, boxes[1][1:], PLACES[1:2], boxes[3]]
    assert run_op("SelectSmoothL1Loss", *boxes) == run_op("SelectSmoothL1Loss", *last)
    twice, once = (run_op("SelectSmoothL1LossGradient", *given, D_LOSS) for given in (boxes, last))
    np.testing.assert_array_equal(twice, once)


def moved(k: int, axis: int, to: float) -> list[Any]:
    """Return boxes of which one lies elsewhere."""
    elsewhere = PLACES.copy()
    elsewhere[k, axis] = to
    return [Y_HAT, BOXES[1], elsewhere, BOXES[3]]


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("SmoothL1Loss", ROWS, {"beta": 0.0}, ArgumentError, "beta = 0.0, it must be above 0"),
    ("SmoothL1Loss", ROWS, {"scale": -1.0}, ArgumentError, "'scale' = -1.0 is below its minimum 0"),
    (
        "SmoothL1Loss",
        [ROWS[0], ROWS[1].reshape(5, 3), *ROWS[2:]],
        {},
        ShapeError,
        r"Y_hat has .*3, 5\), Y has \(5, 3\)",
    ),
    ("SmoothL1Loss", [*ROWS[:3], ROWS[3][:2]], {}, ShapeError, r"alpha_out has the shape \(2, 5\), Y_hat \(3, 5\)"),
    ("SmoothL1LossGradient", [*ROWS, ROWS[0]], {}, ShapeError, r"dloss has the shape \(3, 5\), it must have 1 element"),
    ("SelectSmoothL1Loss", BOXES, {"beta": -1.0}, ArgumentError, "it must be above 0"),
    ("SelectSmoothL1Loss", moved(1, 0, 2), {}, NumericError, r"locations\[1\] is \[2.0, 5.0, 0.0, 3.0\], Y_hat has"),
    ("SelectSmoothL1Loss", moved(2, 1, 6), {}, NumericError, r"locations\[2\]"),
    ("SelectSmoothL1Loss", moved(3, 2, -1), {}, NumericError, r"locations\[3\]"),
    ("SelectSmoothL1LossGradient", [*moved(4, 3, np.nan), D_LOSS], {}, NumericError, r"locations\[4\]"),
    ("SelectSmoothL1Loss", [*BOXES[:3], values(2)], {}, ShapeError, r"normalizer has the shape \(2\)"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


@pytest.mark.parametrize("type", ["SmoothL1Loss", "SelectSmoothL1Loss"])
def test_emitted_gradient(type: str) -> None:
    (step,), gradients = backward_pass([operator_def(type, list("abcd"), ["loss"], beta=0.5)], {"loss": "loss_grad"})
    assert (step.type, list(step.input)) == (f"{type}Gradient", [*"abcd", "loss_grad"])
    assert {name for name in gradients if name in "abcd"} == {"a"}
