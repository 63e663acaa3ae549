"""What two boxes have in common: upright ones by hand, turned ones by counting points; and what must hold of any."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tazza.ops.vision.box import Turned, Upright, suppress

Array = NDArray[Any]

TURNED = Turned(np.float32(1), None, 0.0)
boxes = st.tuples(st.floats(-9, 9), st.floats(-9, 9), st.floats(0.5, 12), st.floats(0.5, 12), st.floats(-200, 200))


def rows(*found: tuple[float, ...]) -> Array:
    """Return boxes as float32."""
    return np.array(found, np.float32)


def shared(a: Array, b: Array) -> float:
    """Return what two turned boxes have in common, of 90,000 points that lie evenly within the first."""
    steps: Array = (np.arange(300) + 0.5) / 300 - 0.5
    place: Array = (steps[:, None] * a[2] + 1j * steps * a[3]) * np.exp(-1j * np.deg2rad(a[4])) + complex(a[0], a[1])
    seen: Array = (place - complex(b[0], b[1])) * np.exp(1j * np.deg2rad(b[4]))
    inside = (2 * np.abs(np.real(seen)) <= b[2]) & (2 * np.abs(np.imag(seen)) <= b[3])
    both = float(inside.mean()) * a[2] * a[3]
    return both / (a[2] * a[3] + b[2] * b[3] - both)


@pytest.mark.parametrize(
    ("plus", "wanted"), [(0, [1, 2 / 10, 0, 0]), (1, [1, 6 / 18, 1 / 23, 0])]
)  # widths and heights: 2 x 3, then 3 x 2, 2 x 3, 2 x 2
def test_upright_boxes(plus: int, wanted: list[float]) -> None:
    many = rows((1, 1, 3, 4), (2, 2, 5, 4), (3, 4, 5, 7), (9, 9, 11, 11))
    np.testing.assert_allclose(Upright(np.float32(plus)).overlap(many[0], many), wanted, rtol=1e-6)


def test_boxes_of_no_size_share_no_number() -> None:
    point = rows((1, 1, 1, 1))
    assert np.isnan(Upright(np.float32(0)).overlap(point[0], point)).all()


@settings(deadline=None, max_examples=30)
@given(boxes, boxes)
def test_turned_boxes_share_the_points_that_lie_in_both(a: tuple[float, ...], b: tuple[float, ...]) -> None:
    one, other = rows(a), rows(b)
    found = float(TURNED.overlap(one[0], other)[0])
    assert found == pytest.approx(shared(one[0].astype("d"), other[0].astype("d")), abs=0.02)
    assert found == pytest.approx(float(TURNED.overlap(other[0], one)[0]), abs=1e-9)


@settings(deadline=None, max_examples=60)
@given(boxes, boxes)
def test_boxes_that_are_not_turned_are_upright_ones(a: tuple[float, ...], b: tuple[float, ...]) -> None:
    one, other = rows(a), rows(b)
    one[:, 4], other[:, 4] = 180, 0
    flat = [
        np.concatenate([box[:, :2] - box[:, 2:4] / 2, box[:, :2] + box[:, 2:4] / 2], axis=1) for box in (one, other)
    ]
    wanted = Upright(np.float32(0)).overlap(flat[0][0], flat[1])
    np.testing.assert_allclose(TURNED.overlap(one[0], other), wanted, rtol=1e-3, atol=1e-5)


def test_a_box_has_all_in_common_with_itself_turned_or_not() -> None:
    many = rows((3, 2, 5, 4, 0), (3, 2, 4, 5, 90), (3, 2, 5, 4, 180), (3, 2, 5, 4, -360))
    np.testing.assert_allclose(TURNED.overlap(many[0], many), 1, rtol=1e-6)


def test_those_that_cover_the_best_go() -> None:
    many = rows((0, 0, 9, 9), (1, 1, 9, 9), (20, 0, 29, 9), (0, 0, 9, 9), (21, 1, 30, 10))
    assert suppress(Upright(np.float32(1)), many, 0.5, 9).tolist() == [0, 2]
    assert suppress(Upright(np.float32(1)), many, 0.7, 9).tolist() == [0, 2, 4]
    assert suppress(Upright(np.float32(1)), many, 0.7, 1).tolist() == [0]


@pytest.mark.parametrize("angle", [0, 1, 30, 89.5, -137])
def test_turned_boxes_with_sides_on_one_line(angle: float) -> None:
    """One within the other, and one beside the other, where corners lie on sides but for their rounding."""
    one, larger = rows((3, 2, 2, 1, angle)), rows((3, 2, 2, 1.5, angle))
    along = np.exp(-1j * np.deg2rad(angle))
    beside = rows((3 + along.real, 2 + along.imag, 2, 1, angle), (3 + 2 * along.real, 2 + 2 * along.imag, 2, 1, angle))
    np.testing.assert_allclose(TURNED.overlap(one[0], larger), 2 / 3, rtol=1e-5)
    np.testing.assert_allclose(TURNED.overlap(one[0], beside), [1 / 3, 0], rtol=1e-5, atol=1e-5)
