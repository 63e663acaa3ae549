"""RoIPool: bin after bin in plain Python; regions at and beyond borders, what is no number, what is refused."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, GradientError, NumericError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.random.default_rng(2).permutation(2 * 3 * 5 * 7).reshape(2, 3, 5, 7).astype(np.float32)
ROIS = np.array([[0, 0.5, 1.5, 4.25, 3.5], [1, -3, -2, 9, 8], [1, 5, 4, 5, 4], [0, 20, 1, 25, 3]], np.float32)
BACKWARDS = np.array([[1, 4, 3, 1, 2]], np.float32)


def rounded(number: float) -> int:
    """Return the nearest integer as people round it."""
    return int(Decimal(number).quantize(Decimal(1), ROUND_HALF_UP))


def by_hand(X: Array, rois: Array, **args: Any) -> tuple[Array, Array]:
    """Return the largest number of each bin, and where it is, looking at one element after the other."""
    h, w, scale = args.get("pooled_h", 1), args.get("pooled_w", 1), args.get("spatial_scale", 1.0)
    H, W = X.shape[2:]
    Y = np.zeros((len(rois), X.shape[1], h, w), np.float32)
    places = np.full(Y.shape, -1, np.int32)
    for r, (n, *box) in enumerate(rois.tolist()):
        x1, y1, x2, y2 = (rounded(number * scale) for number in box)
        high, wide = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
        for c, i, j in np.ndindex(*Y.shape[1:]):
            rows = range(y1 + math.floor(i * high / h), y1 + math.ceil((i + 1) * high / h))
            columns = range(x1 + math.floor(j * wide / w), x1 + math.ceil((j + 1) * wide / w))
            inside = [(y, x) for y in rows for x in columns if 0 <= y < H and 0 <= x < W]
            if inside:
                y, x = max(inside, key=lambda place: float(X[int(n), c][place]))
                Y[r, c, i, j], places[r, c, i, j] = X[int(n), c, y, x], y * W + x
    return Y, places


ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"pooled_h": 2, "pooled_w": 3},
    {"pooled_h": 4, "pooled_w": 5},
    {"pooled_h": 3, "spatial_scale": 0.5},
]
CASES = [
    Case("RoIPool", [X, ROIS], by_hand(X, ROIS, **args), args, outputs=2, gradient=False) for args in ARGUMENTS
]  # central differences go over to another element; the gradient has cases of its own
CASES.extend(
    [
        Case("RoIPool", [X, ROIS], by_hand(X, ROIS)[:1], {"is_test": 1}, outputs=1, gradient=False, id="test"),
        Case("RoIPool", [X, BACKWARDS], by_hand(X, BACKWARDS, pooled_w=2), {"pooled_w": 2}, outputs=2, gradient=False),
        Case("RoIPool", [X, ROIS[:0]], by_hand(X, ROIS[:0]), outputs=2, gradient=False, id="no region"),
        Case("RoIPool", [X[:, :, :0], ROIS], by_hand(X[:, :, :0], ROIS), outputs=2, gradient=False, id="no element"),
    ]
)


def back(X: Array, rois: Array, places: Array, dY: Array) -> Array:
    """Return dX, one element of dY after the other."""
    dX = np.zeros_like(X)
    for (r, c, i, j), place in np.ndenumerate(places):
        if place >= 0:
            dX[int(rois[r, 0]), c].reshape(-1)[place] += dY[r, c, i, j]
    return dX


for _args in ARGUMENTS[1:]:
    _places = by_hand(X, ROIS, **_args)[1]
    _dY = np.random.default_rng(3).standard_normal(_places.shape).astype(np.float32)
    CASES.append(Case("RoIPoolGradient", [X, ROIS, _places, _dY], back, _args))


@on_all_engines(CASES)
def test_bin_after_bin(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_what_is_no_number_is_not_seen() -> None:
    """As in Caffe2: the largest of the others, and where there is none the least float32."""
    image = np.array([[[[np.nan, 3.0], [5.0, np.nan]], [[-np.inf, np.nan], [np.nan, -np.inf]]]], np.float32)
    Y, places = run_op("RoIPool", image, np.array([[0, 0, 0, 1, 1]], np.float32), outputs=2)
    assert Y.ravel().tolist() == [5.0, np.finfo(np.float32).min]
    assert places.ravel().tolist() == [2, -1]


def test_gradient_reads_places() -> None:
    schema = find_schema("RoIPool")
    op = schema.view(operator_def("RoIPool", ["x", "r"], ["y", "at"], pooled_h=2))
    (made,), given = gradient_for_op(op, ["dy", None])
    assert (made.type, list(made.input)) == ("RoIPoolGradient", ["x", "r", "at", "dy"])
    assert given == ["x_grad", None]
    with pytest.raises(GradientError, match="no gradient without argmaxes"):
        gradient_for_op(schema.view(operator_def("RoIPool", ["x", "r"], ["y"], is_test=1)), ["dy"])


at = np.full((4, 3, 1, 1), 35, np.int32)
REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("RoIPool", [X, ROIS], {"outputs": 1}, ArgumentError, "1 outputs with is_test = 0, it takes 2"),
    ("RoIPool", [X, ROIS], {"outputs": 2, "is_test": 1}, ArgumentError, "2 outputs with is_test = 1, it takes 1"),
    ("RoIPool", [X, ROIS[:, :4]], {"outputs": 2}, ShapeError, "rois has the dimensions"),
    ("RoIPool", [X, ROIS], {"outputs": 2, "pooled_h": 0}, ArgumentError, "pooled_h"),
    ("RoIPool", [X, ROIS], {"outputs": 2, "order": "NHWC"}, ArgumentError, "order"),
    ("RoIPool", [X, ROIS], {"outputs": 2, "spatial_scale": 0.0}, ArgumentError, "spatial_scale = 0.0 must be above 0"),
    ("RoIPool", [X[:1], ROIS], {"outputs": 2}, NumericError, r"rois\[1\] lies in image 1, X has the images \[0, 1\)"),
    ("RoIPool", [X, np.full_like(ROIS, np.nan)], {"outputs": 2}, NumericError, r"rois\[0, 0\] is nan"),
    (
        "RoIPoolGradient",
        [X, ROIS, at, at.astype("f")],
        {},
        NumericError,
        r"argmaxes\[0, 0, 0, 0\] is 35, .* 35 elements",
    ),
    ("RoIPoolGradient", [X, ROIS, at[:2], at[:2].astype("f")], {}, ShapeError, "R is"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
