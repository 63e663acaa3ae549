"""HeatmapMaxKeypoint: by a parabola that is known, by equations solved with NumPy; what is refused."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

BOXES = np.array([[1, 2, 13, 18], [3, 4, 8.5, 9], [5, 5, 5, 4]], np.float32)
MAPS = np.random.default_rng(7).standard_normal((3, 2, 6, 6)).astype(np.float32)


def by_hand(maps: Array, boxes: Array, *, softmax: bool = False) -> Array:
    """Return all keypoints; the step is what `np.linalg.solve` finds."""
    R, K, S, _ = maps.shape
    found = np.zeros((R, 4, K))
    for r, k in np.ndindex(R, K):
        map = maps[r, k].astype(np.float64)
        y, x = np.unravel_index(map.argmax(), map.shape)
        near = np.pad(map, 1, mode="reflect")[y : y + 3, x : x + 3]
        slope = np.array([near[1, 2] - near[1, 0], near[2, 1] - near[0, 1]]) / 2
        mixed = (near[2, 2] - near[2, 0] - near[0, 2] + near[0, 0]) / 4
        curved = np.array([[near[1, 2] + near[1, 0], mixed], [mixed, near[2, 1] + near[0, 1]]])
        curved -= 2 * near[1, 1] * np.eye(2)
        flat = abs(np.linalg.det(curved)) < 1e-4
        solved = cast("Array", np.zeros(2) if flat else np.linalg.solve(curved, slope))
        step: Array = -solved * min(1, 1.5 / max(1e-9, float(np.abs(solved).max())))
        sides = np.maximum(boxes[r, 2:].astype(np.float64) - boxes[r, :2], 1)
        found[r, :2, k] = (np.array([x, y]) + step + 0.5) * sides / S + boxes[r, :2]
        found[r, 2, k] = near[1, 1] + slope @ step + step @ curved @ step / 2
        if softmax:
            found[r, 3, k] = (np.exp(map) / np.exp(map).sum()).max()
    return found


def parabola(x0: float, y0: float) -> Array:
    """Return a map of 5 x 5 elements with its top, of 3, there."""
    y, x = np.mgrid[:5, :5]
    return (3 - 0.25 * (x - x0) ** 2 - 0.5 * (y - y0) ** 2 + 0.125 * (x - x0) * (y - y0)).astype(np.float32)[None, None]


TYPE = "HeatmapMaxKeypoint"
CASES = [
    Case(TYPE, [MAPS, BOXES], by_hand(MAPS, BOXES), batched=(0, 1), slack=10),
    Case(TYPE, [MAPS, BOXES], by_hand(MAPS, BOXES, softmax=True), {"should_output_softmax": 1}, slack=10),
    Case(TYPE, [MAPS[:, :, :2, :2], BOXES], by_hand(MAPS[:, :, :2, :2], BOXES), slack=10, id="only borders"),
    Case(TYPE, [MAPS, np.c_[BOXES, BOXES[:, 0]]], by_hand(MAPS, BOXES), slack=10, id="a fifth column"),
    Case(TYPE, [MAPS / 200, BOXES], by_hand(MAPS / 200, BOXES), slack=10, id="flat"),
    Case(TYPE, [MAPS[:, :0], BOXES], np.zeros((3, 4, 0)), id="no keypoint"),
]


@on_all_engines(CASES)
def test_solved(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize(("x", "y"), [(2, 2), (1.75, 2.25), (2.4, 1.7), (3.1, 2.9)])
def test_the_top_of_a_parabola(x: float, y: float) -> None:
    found = run_op(TYPE, parabola(x, y), np.array([[0, 0, 5, 10]], np.float32))[0, :3, 0]
    np.testing.assert_allclose(found, [x + 0.5, 2 * (y + 0.5), 3], rtol=1e-5)


def test_what_is_no_number_is_not_the_largest() -> None:
    maps = MAPS.copy()
    maps[0, 0, 5, 5] = np.nan  # far from the largest
    wanted = np.where(np.isnan(maps), -9, maps)
    assert np.argmax(wanted[0, 0]) < 14
    np.testing.assert_array_equal(run_op(TYPE, maps, BOXES), run_op(TYPE, wanted, BOXES))


REFUSED: list[tuple[list[Any], type[TazzaError], str]] = [
    ([MAPS[:, :, :5], BOXES], ShapeError, "heatmaps are 5 by 6 elements, they must be as wide as high"),
    ([MAPS[:, :, :1, :1], BOXES], ShapeError, "heatmaps are 1 by 1 elements, they must be 2 by 2 at least"),
    ([MAPS, BOXES[:, :3]], ShapeError, "boxes have 3 columns, they must have 4"),
    ([MAPS, BOXES[:2]], ShapeError, "R is"),
    ([MAPS[0], BOXES], ShapeError, "heatmaps has rank 3"),
]


@pytest.mark.parametrize(("inputs", "error", "text"), REFUSED)
def test_refused(inputs: list[Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(TYPE, *inputs)
