"""RoIPoolF, PSRoIPool and their gradients: bin by bin; regions beyond the image; ties, NaN; what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, NumericError, ShapeError
from tazza.graph import backward_pass
from tazza.operator import gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, evaluate, on_all_engines, run

Array = NDArray[Any]


def values(*shape: int) -> Array:
    """Return float32 numbers of that shape, no two equal, the same in every run."""
    size = math.prod(shape)
    return (np.random.default_rng(size).permutation(size).astype(np.float32).reshape(shape) - size / 3) / 4


def nearest(x: float) -> int:
    """Round to the nearest, halves away from 0."""
    return math.floor(abs(x) + 0.5) * (1 if x >= 0 else -1)


def largest(h: int, w: int, scale: float = 1.0) -> Any:
    """Return the largest of each bin and its place, pixel by pixel."""

    def function(X: Array, R: Array) -> tuple[Array, Array]:
        K, C, H, W = len(R), *X.shape[1:]
        Y, places = np.zeros((K, C, h, w)), np.full((K, C, h, w), -1)
        for k, c, i, j in np.ndindex(*Y.shape):
            x1, y1, x2, y2 = (nearest(corner * scale) for corner in R[k, 1:].tolist())
            tall, wide = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
            rows = range(y1 + i * tall // h, y1 + -(-(i + 1) * tall // h))
            columns = range(x1 + j * wide // w, x1 + -(-(j + 1) * wide // w))
            inside = [(y, x) for y in rows for x in columns if 0 <= y < H and 0 <= x < W]
            if inside:
                best = max(inside, key=lambda place: float(X[int(R[k, 0]), c, place[0], place[1]]))
                Y[k, c, i, j], places[k, c, i, j] = X[int(R[k, 0]), c, *best], best[0] * W + best[1]
        return Y, places

    return function


def means(g: int, outputs: int, scale: float = 1.0) -> Any:
    """Return the mean of each bin in its own channel, pixel by pixel."""

    def function(X: Array, R: Array) -> tuple[Array, Array]:
        K, H, W = len(R), *X.shape[2:]
        Y, channels = np.zeros((K, outputs, g, g)), np.zeros((K, outputs, g, g), int)
        for k, o, i, j in np.ndindex(*Y.shape):
            x1, y1 = (nearest(corner) * scale for corner in R[k, 1:3].tolist())
            x2, y2 = ((nearest(corner) + 1) * scale for corner in R[k, 3:].tolist())
            tall, wide = max(y2 - y1, 0.1) / g, max(x2 - x1, 0.1) / g
            rows = range(math.floor(y1 + i * tall), math.ceil(y1 + (i + 1) * tall))
            columns = range(math.floor(x1 + j * wide), math.ceil(x1 + (j + 1) * wide))
            channels[k, o, i, j] = c = (o * g + i) * g + j
            inside = [float(X[int(R[k, 0]), c, y, x]) for y in rows for x in columns if 0 <= y < H and 0 <= x < W]
            Y[k, o, i, j] = sum(inside) / len(inside) if inside else 0
        return Y, channels

    return function


X, MAPS = values(2, 3, 6, 8), values(2, 9, 6, 8)
REGIONS = np.array(
    [
        [0, 1, 0, 6, 4],
        [1, 2.5, 1.5, 2.5, 5],  # halves are rounded away from 0
        [1, -4, -3, 3, 2],  # begins outside
        [0, 5, 4, 12, 9],  # ends outside
        [1, 4, 3, 2, 1],  # ends before it begins
        [0, 20, 20, 22, 25],  # lies outside
    ],
    "f",
)
LARGE = REGIONS * np.array([1, 4, 4, 4, 4], "f") + np.array([0, 1, 1, 1, 1], "f")
QUARTER: dict[str, Any] = {"spatial_scale": 0.25}

PIXELS = np.array([[0, 1, 0, 2, 1], [0, 0, 0, 0, 0]], "f")


def by_bin(places: list[int], slopes: list[int], shape: tuple[int, ...]) -> list[Array]:
    """Return argmaxes and dY of that shape."""
    return [np.array(places, "i").reshape(shape), np.array(slopes, "f").reshape(shape)]


CASES = [
    Case("RoIPoolF", [X, REGIONS], largest(2, 3), {"pooled_h": 2, "pooled_w": 3}, batched=(1,)),
    Case("RoIPoolF", [X, LARGE], largest(2, 4, 0.25), {"pooled_h": 2, "pooled_w": 4, **QUARTER}, id="scaled"),
    Case("RoIPoolF", [X, REGIONS], largest(1, 1), id="one bin"),
    Case("PSRoIPool", [MAPS[:, :8], REGIONS], means(2, 2), {"group_size": 2, "output_dim": 2}, batched=(1,)),
    Case("PSRoIPool", [MAPS, LARGE], means(3, 1, 0.25), {"group_size": 3, **QUARTER}, slack=4, id="scaled"),
    Case("PSRoIPool", [X, REGIONS], means(1, 2), {"output_dim": 2}, id="more channels than are read"),
    Case(
        "RoIPoolFGradient",
        [X[:1, :1, :2, :3], REGIONS[[0, 0]], *by_bin([4, -1, 4, 0], [1, 2, 4, 8], (2, 1, 1, 2))],
        np.array([[8, 0, 0], [0, 5, 0]]).reshape(1, 1, 2, 3),
        {"pooled_w": 2},
    ),
    Case(
        "PSRoIPoolGradient",
        [X[:1, :2, :2, :3], PIXELS, *by_bin([0, 1], [4, 8], (2, 1, 1, 1))],
        np.array([[[0, 1, 1], [0, 1, 1]], [[8, 0, 0], [0, 0, 0]]]).reshape(1, 2, 2, 3),
    ),
]


@on_all_engines(CASES)
def test_roi_pool(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_the_first_of_equal_ones_is_the_largest() -> None:
    Y, places = run_op("RoIPoolF", np.ones((1, 1, 2, 3), "f"), np.array([[0, 1, 0, 2, 1]], "f"))
    assert (Y.item(), places.item()) == (1, 1)


def test_what_is_no_number_is_passed_over() -> None:
    odd = np.array([np.nan, 2, np.nan, 3, -np.inf, np.nan], "f").reshape(1, 1, 2, 3)
    regions = np.array([[0, 0, 0, 2, 1], [0, 2, 0, 2, 1]], "f")
    Y, places = run_op("RoIPoolF", odd, regions)
    assert (Y.ravel().tolist(), places.ravel().tolist()) == ([3, float(np.finfo("f").min)], [3, -1])


CHECKED: list[tuple[str, list[Any], dict[str, Any]]] = [
    ("RoIPoolF", [X, REGIONS], {"pooled_h": 2, "pooled_w": 3}),
    ("PSRoIPool", [MAPS, LARGE], {"group_size": 3, **QUARTER}),
]


@pytest.mark.parametrize(("type", "inputs", "args"), CHECKED)
def test_gradient(type: str, inputs: list[Any], args: dict[str, Any]) -> None:
    """The gradient of Y is a float64 central difference; that of whole numbers there is none."""
    definition = operator_def(type, ["x", "r"], ["y", "i"], **args)
    (Y, places), operator = run(definition, inputs)
    (step,), gradients = gradient_for_op(operator.op, ["y_grad", None])
    assert gradients == ["x_grad", None]
    assert (step.type, list(step.input)) == (f"{type}Gradient", ["x", "r", "i", "y_grad"])
    random = np.random.default_rng(3)
    dY = random.standard_normal(Y.shape).astype("f")
    X: Array = inputs[0]
    direction: Array = random.standard_normal(X.shape)
    (dX,), _ = run(step, [*inputs, places, dY])
    high, low = (evaluate(operator.op, [X + s * 1e-4 * direction, inputs[1]])[0] for s in (1, -1))
    assert float((dX * direction).sum()) == pytest.approx(float((dY * (high - low)).sum()) / 2e-4, rel=1e-4)


D_Y, AT = np.ones((1, 3, 1, 1), "f"), np.zeros((1, 3, 1, 1), "i")
REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("RoIPoolF", [X, REGIONS[:, :4]], {}, ShapeError, "R"),
    ("RoIPoolF", [X, REGIONS], {"pooled_h": 0}, ArgumentError, "'pooled_h' = 0 is below its minimum 1"),
    ("RoIPoolF", [X[:1], REGIONS], {}, NumericError, r"rois\[1\] lies in image 1, X has the images \[0, 1\)"),
    ("PSRoIPool", [X, -REGIONS[1:]], {"output_dim": 1}, NumericError, r"rois\[0\] lies in image -1"),
    ("PSRoIPool", [X, REGIONS], {"group_size": 2}, ShapeError, r"X has 3 channels, output_dim \* group_size\^2 = 4"),
    (
        "RoIPoolFGradient",
        [X, REGIONS[:1], AT + 48, D_Y],
        {},
        NumericError,
        r"argmaxes\[0, 0, 0, 0\] is 48, not in \[-1, 48\)",
    ),
    ("RoIPoolFGradient", [X, REGIONS[:2], AT, D_Y], {}, ShapeError, "R is"),
    (
        "PSRoIPoolGradient",
        [X, REGIONS[:1], AT - 1, D_Y],
        {"output_dim": 3},
        NumericError,
        r"argmaxes\[0, 0, 0, 0\] is -1",
    ),
    ("PSRoIPoolGradient", [X, REGIONS[:1], AT, D_Y], {}, ShapeError, r"dY has the shape \(1, 3, 1, 1\), Y has"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


def test_the_gradient_of_what_was_overwritten_is_built() -> None:
    """Of X the shape counts, its numbers do not."""
    (step,), _ = backward_pass([operator_def("RoIPoolF", ["x", "r"], ["y", "i"])], {"y": "y_grad"})
    assert list(step.output) == ["x_grad"]
