"""RoIAlign and RoIAlignRotated: place after place in plain Python; two laws; what is refused."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, NumericError, ShapeError, TazzaError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.random.default_rng(1).standard_normal((2, 3, 5, 7)).astype(np.float32)
LAST = np.moveaxis(X, 1, -1).copy()
UPRIGHT = np.array([[0, 0.5, 1.25, 4.75, 3.5], [1, -3, -2, 9, 8], [1, 2.25, 1, 2.75, 1.5]], np.float32)
TURNED = np.array([[1, 3, 2, 4.5, 3.25, 30], [0, 1, 4, 5.25, 2.5, -75], [1, 6, 1, 0.5, 0.25, 90]], np.float32)


def at(image: Array, y: float, x: float) -> float:
    """Return what lies between elements of an image."""
    H, W = image.shape
    if not (-1 <= y <= H and -1 <= x <= W):
        return 0
    y, x = min(max(y, 0), H - 1), min(max(x, 0), W - 1)
    i, j = int(y), int(x)
    return sum(
        float(image[min(i + a, H - 1), min(j + b, W - 1)]) * abs(1 - a - (y - i)) * abs(1 - b - (x - j))
        for a in (0, 1)
        for b in (0, 1)
    )


def by_hand(X: Array, rois: Array, **args: Any) -> Array:
    """Return the mean of each bin, one place after the other; corners are turned as complex numbers."""
    h, w = args.get("pooled_h", 1), args.get("pooled_w", 1)
    scale, half = args.get("spatial_scale", 1.0), 0.5 * args.get("aligned", 0)
    Y = np.zeros((len(rois), X.shape[1], h, w))
    for r, (n, *box) in enumerate(rois.astype(np.float64)):
        if len(box) == 4:
            corner, size = complex(box[0], box[1]) * scale, complex(box[2] - box[0], box[3] - box[1]) * scale
            middle, turn = corner + size / 2, 1 + 0j
        else:
            middle, size = complex(box[0], box[1]) * scale, complex(box[2], box[3]) * scale
            turn = cmath.exp(-1j * math.radians(box[4]))
        if not args.get("aligned", 0):
            larger = complex(max(size.real, 1), max(size.imag, 1))
            middle += (larger - size) / 2 if len(box) == 4 else 0  # the first corner stays
            size = larger
        counts = [args.get("sampling_ratio", -1)] * 2
        if counts[0] <= 0:
            counts = [math.ceil(size.imag / h), math.ceil(size.real / w)]
        for c, i, j in np.ndindex(*Y.shape[1:]):
            found = 0.0
            for a, b in np.ndindex(*counts):
                along = (j + (b + 0.5) / counts[1]) / w - 0.5
                down = (i + (a + 0.5) / counts[0]) / h - 0.5
                place = middle + complex(along * size.real, down * size.imag) * turn
                found += at(X[int(n), c], place.imag - half, place.real - half)
            Y[r, c, i, j] = found / max(1, math.prod(counts))
    return Y


ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"pooled_h": 2, "pooled_w": 3},
    {"pooled_h": 3, "pooled_w": 2, "sampling_ratio": 2, "spatial_scale": 0.5},
    {"pooled_h": 2, "sampling_ratio": 3, "aligned": 1},
    {"pooled_w": 4, "aligned": 1, "spatial_scale": 1.25},
]

CASES = [
    Case(type, [X, rois], by_hand(X, rois, **args), args, slack=4, id=f"{type}-{number}")
    for type, rois in (("RoIAlign", UPRIGHT), ("RoIAlignRotated", TURNED))
    for number, args in enumerate(ARGUMENTS)
]
CASES.extend(
    [
        Case(
            type,
            [LAST, rois],
            np.moveaxis(by_hand(X, rois, pooled_h=2), 1, -1),
            {"pooled_h": 2, "order": "NHWC"},
            slack=4,
        )
        for type, rois in (("RoIAlign", UPRIGHT), ("RoIAlignRotated", TURNED))
    ]
)
CASES.extend(
    [
        Case("RoIAlign", [X[:1], UPRIGHT[:1, 1:]], by_hand(X, UPRIGHT[:1]), id="without the number of an image"),
        Case(
            "RoIAlignRotated", [X[:1], TURNED[1:2, 1:]], by_hand(X, TURNED[1:2]), slack=4, id="turned, without a number"
        ),
        Case("RoIAlign", [X, UPRIGHT[:0]], np.zeros((0, 3, 2, 1)), {"pooled_h": 2}, id="no region"),
        Case("RoIAlign", [X, UPRIGHT], np.zeros((3, 3, 0, 2)), {"pooled_h": 0, "pooled_w": 2}, id="no bin"),
        Case("RoIAlign", [X[:, :0], UPRIGHT], np.zeros((3, 0, 1, 1)), id="no channel"),
        Case("RoIAlign", [X, UPRIGHT + np.array([0, 90, 90, 90, 90], "f")], np.zeros((3, 3, 1, 1)), id="outside"),
    ]
)


@on_all_engines(CASES)
def test_place_after_place(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_a_whole_image_bin_by_bin_is_the_image() -> None:
    """With aligned elements, a bin for each of them and one place in each."""
    whole = np.array([[1, 0, 0, 7, 5]], np.float32)
    args: dict[str, Any] = {"pooled_h": 5, "pooled_w": 7, "sampling_ratio": 1, "aligned": 1}
    np.testing.assert_allclose(run_op("RoIAlign", X, whole, **args)[0], X[1], rtol=1e-6)


@pytest.mark.parametrize(("angle", "turns"), [(0, 0), (90, -1), (180, 2), (-90, 1)])
def test_a_quarter_turn_turns_the_result(angle: int, turns: int) -> None:
    """A square that is turned gives what the square gives, turned back."""
    args: dict[str, Any] = {"pooled_h": 3, "pooled_w": 3, "sampling_ratio": 2}
    straight = run_op("RoIAlign", X, np.array([[1, 1.5, 0.5, 5.5, 4.5]], np.float32), **args)
    turned = run_op("RoIAlignRotated", X, np.array([[1, 3.5, 2.5, 4, 4, angle]], np.float32), **args)
    np.testing.assert_allclose(turned, np.rot90(straight, turns, axes=(2, 3)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("type", ["RoIAlign", "RoIAlignRotated"])
def test_gradient_gets_all_arguments(type: str) -> None:
    definition = operator_def(type, ["x", "r"], ["y"], pooled_h=2, sampling_ratio=2, aligned=1, order="NHWC")
    (made,), given = gradient_for_op(find_schema(type).view(definition), ["dy"])
    assert (made.type, list(made.input), list(made.output)) == (f"{type}Gradient", ["x", "r", "dy"], ["x_grad"])
    assert [argument.name for argument in made.arg] == [argument.name for argument in definition.arg]
    assert given == ["x_grad", None]


def changed(rois: Array, column: int, value: float) -> Array:
    """Return regions, of which the second has another number somewhere."""
    found = rois.copy()
    found[1, column] = value
    return found


dY = np.zeros((3, 3, 1, 1), np.float32)
REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("RoIAlign", [X, UPRIGHT[:, :3]], {}, ShapeError, r"rois have the shape \(3, 3\), they must be \(R, 4 or 5\)"),
    ("RoIAlignRotated", [X, UPRIGHT[:, :4]], {}, ShapeError, r"must be \(R, 5 or 6\)"),
    ("RoIAlign", [X[0], UPRIGHT], {}, ShapeError, r"X has 3 dimensions \(3, 5, 7\), images have 4"),
    ("RoIAlign", [X, UPRIGHT], {"pooled_h": -1}, ArgumentError, "pooled_h"),
    (
        "RoIAlign",
        [X, changed(UPRIGHT, 0, 2)],
        {},
        NumericError,
        r"rois\[1\] lies in image 2, X has the images \[0, 2\)",
    ),
    ("RoIAlign", [X, changed(UPRIGHT, 0, -1)], {}, NumericError, r"rois\[1\] lies in image -1"),
    ("RoIAlign", [X, changed(UPRIGHT, 3, np.nan)], {}, NumericError, r"rois\[1, 3\] is nan"),
    ("RoIAlign", [X, changed(UPRIGHT, 3, 1e9)], {}, NumericError, r"rois\[1\] is .* at 1000000000 x 10 places a bin"),
    ("RoIAlign", [X, changed(UPRIGHT, 3, -9)], {"aligned": 1}, NumericError, r"rois\[1\] is -6.0 wide and 10.0 high"),
    ("RoIAlign", [X[:, :, :0], UPRIGHT], {}, NumericError, "X has images of 0 by 7 elements"),
    ("RoIAlignGradient", [X, UPRIGHT, dY[:2]], {}, ShapeError, r"dY has the shape \(2, 3, 1, 1\), .* \(3, 3, 1, 1\)"),
    ("RoIAlignGradient", [X, UPRIGHT, dY], {"order": "NHWC"}, ShapeError, r"the regions of X have \(3, 1, 1, 7\)"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)
