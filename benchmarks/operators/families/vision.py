"""Images that grow and get borders; regions and boxes, whose like is in torchvision, where that is installed."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.operators.row import Array, Draw, F, Row, family

THERE = find_spec("torchvision") is not None
BESIDE = "" if THERE else "alone: torchvision is not installed"
BIN, SCALE, COVERED, LEAST_SCORE = 7, 0.25, 0.5, 0.05
"""Bins of a region along an axis, elements a pixel; what two boxes may share, and what scores must be above."""


def _torchvision() -> Any:
    return import_module("torchvision.ops")


def _aligned(x: Any, regions: Any) -> Any:
    return _torchvision().roi_align(x, regions, (BIN, BIN), SCALE, 2, True)


def _kept(scores: Any, boxes: Any) -> tuple[None, None, None]:
    above = scores[:, 1] > LEAST_SCORE
    _torchvision().nms(boxes[above, 4:], scores[above, 1], COVERED)
    return None, None, None


def _boxes(draw: Draw, count: int, most: float) -> Array:
    """Return boxes (count, 4) within an image of that size."""
    corner = draw.between(0, most / 2, count, 2)
    return np.concatenate([corner, corner + draw.between(most / 16, most / 2, count, 2)], axis=1)


@family()
def vision(draw: Draw) -> Iterator[Row]:
    """8 images of 32 channels, 56 by 56."""
    N, C, H = draw.extent(8, 2), draw.extent(32, 3), draw.extent(56, 5)
    x = draw.normal(N, C, H, H)
    twice = {"width_scale": 2.0, "height_scale": 2.0}
    yield Row("ResizeNearest", [x], lambda x: F.interpolate(x, scale_factor=2.0, mode="nearest"), twice, gradient=[0])
    yield Row("UpsampleNearest", [x], lambda x: F.interpolate(x, scale_factor=2.0), {"scale": 2}, gradient=[0])
    yield Row(
        "UpsampleBilinear",
        [x],
        lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=True),
        twice,
        gradient=[0],
    )
    for mode in ("constant", "reflect", "edge"):
        theirs = "replicate" if mode == "edge" else mode
        yield Row(
            "PadImage",
            [x],
            lambda x, m=theirs: F.pad(x, (2, 2, 2, 2), m),
            {"pad": 2, "mode": mode},
            what=mode,
            gradient=[0],
        )
    video = draw.normal(2, draw.extent(16, 3), draw.extent(8, 3), draw.extent(28, 4), draw.extent(28, 4))
    yield Row(
        "ResizeNearest3D",
        [video],
        lambda x: F.interpolate(x, scale_factor=2.0),
        twice | {"temporal_scale": 2.0},
        gradient=[0],
    )
    yield Row("IntegralImage", [x], lambda x: F.pad(x.cumsum(2).cumsum(3), (1, 0, 1, 0)))
    yield from _regions(draw, x)


def _regions(draw: Draw, x: Array) -> Iterator[Row]:
    """256 regions of the images, 1000 boxes of which some stay."""
    regions, (N, *_, H) = draw.extent(256, 3), x.shape
    boxes = _boxes(draw, regions, H / SCALE)
    of_image = draw.whole(N, regions, 1).astype(np.float32)
    yield Row(
        "RoIAlign",
        [x, np.concatenate([of_image, boxes], axis=1)],
        _aligned if THERE else None,
        {"pooled_h": BIN, "pooled_w": BIN, "spatial_scale": SCALE, "sampling_ratio": 2, "aligned": 1},
        what=BESIDE,
        gradient=[0],
    )
    count = draw.extent(1000, 5)
    some = _boxes(draw, count, 800.0)
    yield Row(
        "BoxWithNMSLimit",
        [draw.between(0, 1, count, 2), np.concatenate([some, some], axis=1)],
        _kept if THERE else None,
        {"score_thresh": LEAST_SCORE, "nms": COVERED, "detections_per_im": 0},
        outputs=3,
        what=", ".join(filter(None, ["one class", BESIDE])),
    )
