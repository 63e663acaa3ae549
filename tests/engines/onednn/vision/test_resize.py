"""Images that grow on oneDNN, and those that it would resize by another rule."""

from __future__ import annotations

import pytest

from tazza.engines.onednn.library import unavailable
from tazza.tensor import channels_last
from tests.engines.onednn.layouts import Relaid, blocked, check_ways, numbers, row_major

pytestmark = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))

X, DY = numbers(2, 19, 5, 7), numbers(2, 19, 15, 14)
GROW = {"height_scale": 3.0, "width_scale": 2.0}


@pytest.mark.parametrize(
    "case",
    [
        Relaid("ResizeNearest", [X], GROW),
        Relaid("ResizeNearest", [X], {"width_scale": 4.0}),
        Relaid("ResizeNearestGradient", [DY, X], GROW, images=(0,), slack=2),
    ],
    ids=lambda case: case.type,
)
def test_ways(case: Relaid) -> None:
    check_ways(case, [row_major, channels_last, blocked])


@pytest.mark.parametrize("scale", [0.5, 1.5, 2.5])
def test_other_scales_are_left_to_others(scale: float) -> None:
    with pytest.raises(AssertionError, match="oneDNN would take other ones"):
        Relaid("ResizeNearest", [X], {"height_scale": scale}).run("onednn", row_major)
