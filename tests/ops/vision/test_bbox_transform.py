"""BBoxTransform: box after box in plain Python and float64; recorded runs are in `tests/data/golden`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

ROIS = np.array([[0, 1, 2, 14, 33], [0, 30, 5, 46.5, 24], [2, -3, -2, 29, 18]], np.float32)
TURNED = np.array([[0, 10, 11, 14, 13, 0.5], [0, 20, 10, 26, 14, -87], [2, 13, 12, 29, 18, 88]], np.float32)
DELTAS = np.random.default_rng(4).normal(0, 0.3, (3, 10)).astype(np.float32)
IMAGES = np.array([[50, 60, 1.5], [9, 9, 1], [30.7, 20.4, 0.5]], np.float32)


def bounded(center: float, size: float, extent: int, plus: float) -> tuple[float, float]:
    """Return first and last place of a side that a border of an image cuts off."""
    ends = (center - size / 2, center + size / 2 - plus)
    return min(max(ends[0], 0), extent - plus), min(max(ends[1], 0), extent - plus)


def by_hand(rois: Array, deltas: Array, images: Array, **args: Any) -> tuple[Array, Array]:
    """Return all boxes, and how many each image has."""
    n = 5 if args.get("rotated") else 4
    plus, weights = float(args.get("legacy_plus_one", 1)), [*args.get("weights", [1, 1, 1, 1]), 1]
    found = np.zeros(deltas.shape)
    for m, (image, *box) in enumerate(rois.astype(np.float64)):
        height, width, scale = images[int(image)].astype(np.float64)
        extents = [int(width / scale + 0.5), int(height / scale + 0.5)]
        a, b, c, d = (number / scale for number in box[:4])
        centers, sizes = (
            ((a, b), (c, d)) if n == 5 else (((a + c + plus) / 2, (b + d + plus) / 2), (c - a + plus, d - b + plus))
        )
        for k in range(0, deltas.shape[1], n):
            dx, dy, dw, dh, *turn = (float(x) / w for x, w in zip(deltas[m, k : k + n], weights, strict=False))
            angle = 0.0
            x, y = centers[0] + dx * sizes[0], centers[1] + dy * sizes[1]
            w, h = (size * math.exp(min(delta, math.log(62.5))) for size, delta in zip(sizes, (dw, dh), strict=True))
            if n == 4:
                sides = [bounded(x, w, extents[0], plus), bounded(y, h, extents[1], plus)]
                made = [sides[0][0], sides[1][0], sides[0][1], sides[1][1]]
            else:
                angle = box[4] + math.degrees(turn[0])
                low, high = args.get("angle_bound_lo", -90), args.get("angle_bound_hi", 90)
                if args.get("angle_bound_on", 1):
                    angle += (high - low) * (int(angle < low) - int(angle > high))
                made = [x, y, w, h]
                if abs(angle) <= args.get("clip_angle_thresh", 1.0):
                    sides = [bounded(x + plus / 2, w, extents[0], plus), bounded(y + plus / 2, h, extents[1], plus)]
                    made = [sum(side) / 2 for side in sides]
                    made += [min(size, side[1] - side[0] + plus) for size, side in zip((w, h), sides, strict=True)]
            stretch = scale if args.get("apply_scale", 1) else 1
            found[m, k : k + 4] = [number * stretch for number in made]
            if turn:
                found[m, k + 4] = angle
    return found, np.bincount(rois[:, 0].astype(int), minlength=len(images))


ARGUMENTS: list[dict[str, Any]] = [
    {},
    {"weights": [10.0, 8.0, 5.0, 4.0], "apply_scale": 0},
    {"legacy_plus_one": 0, "correct_transform_coords": 1},
    {"rotated": 1},
    {"rotated": 1, "angle_bound_lo": 0, "angle_bound_hi": 180, "weights": [2.0, 3.0, 1.0, 1.5], "apply_scale": 0},
    {"rotated": 1, "angle_bound_on": 0, "clip_angle_thresh": 90.0, "legacy_plus_one": 0},
    {"rotated": 1, "clip_angle_thresh": -1.0},
]


def inputs(args: dict[str, Any]) -> list[Array]:
    """Return boxes, deltas of two classes, images."""
    return [TURNED, DELTAS, IMAGES] if args.get("rotated") else [ROIS, DELTAS[:, :8], IMAGES]


CASES = [
    Case("BBoxTransform", inputs(args), by_hand(*inputs(args), **args), args, outputs=2, slack=20) for args in ARGUMENTS
]
CASES.extend(
    [
        Case("BBoxTransform", inputs({}), by_hand(*inputs({}))[:1], outputs=1, slack=20, id="without splits"),
        Case(
            "BBoxTransform",
            [ROIS[:2, 1:], DELTAS[:2, :4], IMAGES[:1]],
            by_hand(ROIS[:2], DELTAS[:2, :4], IMAGES[:1]),
            outputs=2,
            slack=20,
            id="one image",
        ),
        Case(
            "BBoxTransform", [ROIS[:0], DELTAS[:0, :8], IMAGES], (DELTAS[:0, :8], np.zeros(3)), outputs=2, id="no box"
        ),
        Case(
            "BBoxTransform",
            [ROIS, DELTAS[:, :0], IMAGES],
            (DELTAS[:, :0], np.array([2, 0, 1])),
            outputs=2,
            id="no class",
        ),
    ]
)


@on_all_engines(CASES)
def test_box_after_box(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_rows_belong_to_images_by_their_place() -> None:
    """As in Caffe2: of rows that do not stand image by image, the first are those of image 0, as many as name it."""
    mixed = ROIS[[0, 2, 1]]
    boxes, splits = run_op("BBoxTransform", mixed, DELTAS[:, :4], IMAGES, outputs=2)
    sorted_numbers = np.concatenate([ROIS[:, :1], mixed[:, 1:]], axis=1)
    np.testing.assert_allclose(boxes, by_hand(sorted_numbers, DELTAS[:, :4], IMAGES)[0], rtol=1e-5, atol=1e-4)
    assert splits.tolist() == [2, 0, 1]


def test_what_is_no_number_stays_in_its_column() -> None:
    wild = DELTAS[:, :4].copy()
    wild[0, 0], wild[1, 2] = np.inf, np.nan
    found = run_op("BBoxTransform", ROIS, wild, IMAGES, outputs=1)
    assert found[0, [0, 2]].tolist() == [58.5, 58.5]  # the border: (60 / 1.5 - 1) * 1.5
    assert np.isnan(found[1]).tolist() == [True, False, True, False]


REFUSED: list[tuple[list[Any], dict[str, Any], type[TazzaError], str]] = [
    ([ROIS[:, :3], DELTAS[:, :8], IMAGES], {}, ShapeError, r"rois have the shape \(3, 3\), they must be \(M, 5\)"),
    ([TURNED, DELTAS, IMAGES], {}, ShapeError, r"\(3, 6\), they must be \(M, 5\) or \(M, 4\)"),
    ([ROIS, DELTAS[:2, :8], IMAGES], {}, ShapeError, "M is"),
    ([ROIS, DELTAS, IMAGES], {}, ShapeError, "deltas have 10 columns, they must be a multiple of 4"),
    ([ROIS[:, 1:], DELTAS[:, :8], IMAGES], {}, ShapeError, "im_info has 3 images, and rois have no numbers of them"),
    ([ROIS, DELTAS[:, :8], IMAGES[:, :2]], {}, ShapeError, "im_info has the dimensions"),
    (
        [ROIS, DELTAS[:, :8], IMAGES[:2]],
        {},
        NumericError,
        r"rois\[2\] lies in image 2, im_info has the images \[0, 2\)",
    ),
    ([ROIS - 1, DELTAS[:, :8], IMAGES], {}, NumericError, r"rois\[0\] lies in image -1"),
    ([ROIS, DELTAS[:, :8], IMAGES], {"weights": [1.0, 2.0]}, ArgumentError, "has 2 elements, it must have 4"),
    ([TURNED, DELTAS, IMAGES], {"rotated": 1, "angle_bound_hi": 45}, ArgumentError, "are 135 degrees apart"),
    ([TURNED, DELTAS, IMAGES], {"rotated": 1, "angle_bound_hi": -90}, ArgumentError, "are 0 degrees apart"),
]


@pytest.mark.parametrize(("inputs", "args", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], args: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("BBoxTransform", *inputs, outputs=2, **args)
