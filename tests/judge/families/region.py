"""Regions of images: boxes that lie in them, across their borders and outside, and what comes of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema, run_op
from tazza.ops.vision.roi_align import aligned_region_gradients, aligned_regions
from tests.judge.hand import Array, Hand, Sketch, channels_of, draws, orders_of, spatial_of


def boxes(hand: Hand, count: int, extents: tuple[int, ...], scale: float, *, turned: bool = False) -> Array:
    """Return boxes (count, 4 or 5) around the middle of images of H x W elements."""
    reach = np.array(extents[::-1])
    center = hand.rng.uniform(-0.2, 1.2, (count, 2)) * reach
    size = hand.rng.uniform(0.2, 1.2, (count, 2)) * reach
    if turned:
        return np.concatenate([center / scale, size / scale, hand.rng.uniform(-180, 180, (count, 1))], axis=1)
    return np.concatenate([(center - size / 2) / scale, (center + size / 2) / scale], axis=1)


def numbered(hand: Hand, boxes: Array, images: int) -> Array:
    """Return boxes behind the number of an image, in any order."""
    number = hand.rng.integers(0, max(1, images), (len(boxes), 1))
    return np.concatenate([number, boxes], axis=1).astype(np.float32)


@draws(*aligned_regions, *aligned_region_gradients)
def aligned(hand: Hand, schema: OpSchema) -> Sketch:
    order, X = hand.image(spatial=(2, 2), orders=orders_of(schema))
    tables = (aligned_regions, aligned_region_gradients)
    turned = any(schema.type in table and table.rows[schema.type].turned for table in tables)
    scale = hand.pick((1.0, 0.5, 0.0625))
    rois = numbered(
        hand, boxes(hand, hand.integer(0, 4) if X[0] else 0, spatial_of(order, X), scale, turned=turned), X[0]
    )
    if X[0] == 1 and hand.chance(0.3):
        rois = rois[:, 1:].copy()
    size = (hand.integer(1, 4), hand.integer(1, 4))
    found = {"spatial_scale": scale, "pooled_h": size[0], "pooled_w": size[1], "order": order}
    found |= hand.some({"sampling_ratio": hand.integer(-1, 3), "aligned": 1})
    channels = channels_of(order, X)
    dY = (len(rois), channels, *size) if order == "NCHW" else (len(rois), *size, channels)
    shapes = {"X": X, "dY": dY} if "dY" in schema.inputs_by_letter else {"X": X}
    return Sketch(found, shapes, {"rois": rois})


@draws("RoIPool", "RoIPoolGradient")
def pooled(hand: Hand, schema: OpSchema) -> Sketch:
    _, X = hand.image(spatial=(2, 2), orders=["NCHW"])
    scale = hand.pick((1.0, 0.5, 0.0625))
    rois = numbered(hand, boxes(hand, hand.integer(0, 4) if X[0] else 0, X[2:], scale), X[0])
    found: dict[str, Any] = {"spatial_scale": scale, "pooled_h": hand.integer(1, 4), "pooled_w": hand.integer(1, 4)}
    if schema.type == "RoIPool":
        test = hand.integer(0, 1)
        return Sketch({**found, "is_test": test}, {"X": X}, {"rois": rois}, outputs=2 - test)
    Y, places = run_op("RoIPool", np.zeros(X, np.float32), rois, outputs=2, **found)
    return Sketch(found, {"X": X, "dY": Y.shape}, {"rois": rois, "argmaxes": places})


@draws("HeatmapMaxKeypoint")
def keypoints(hand: Hand, schema: OpSchema) -> Sketch:
    """Draw maps whose largest element stands out, so that the parabola has a clear extremum in any precision."""
    del schema
    R, K, S = hand.batch(), hand.integer(0, 4), hand.integer(2, 7)
    maps = hand.rng.uniform(0, 0.2, (R, K, S * S))
    np.put_along_axis(maps, hand.rng.integers(0, S * S, (R, K, 1)), 1, axis=2)
    rows = numbered(hand, boxes(hand, R, (40, 30), 1.0), 1)[:, 1:].copy()
    values = {"heatmaps": maps.reshape(R, K, S, S).astype(np.float32), "boxes": rows}
    return Sketch(hand.some({"should_output_softmax": 1}), {}, values)


@draws("RMACRegions")
def places(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    found = hand.some({"scales": hand.integer(-1, 5), "overlap": hand.real(0.0, 1.0)})
    return Sketch(found, {"X": (hand.batch(), hand.integer(1, 3), hand.size(1, 20), hand.size(1, 20))})


@draws("BRGNCHWCToPackedInt8BGRAStylizerDeprocess")
def shown(hand: Hand, schema: OpSchema) -> Sketch:
    """Draw numbers that are not close to whole ones, which are rounded down."""
    del schema
    X = hand.rng.integers(-50, 300, (hand.batch(), 3, hand.size(), hand.size())) + hand.rng.uniform(0.2, 0.4)
    return Sketch({}, {}, {"X": X.astype(np.float32), "mean": hand.rng.integers(0, 99, 3).astype(np.float32)})


@draws("NormalizePlanarYUV")
def planes(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    _, X = hand.image(spatial=(2, 2), orders=["NCHW"])
    deviation = hand.rng.uniform(0.5, 2, (hand.integer(1, 2), X[1])).astype(np.float32)
    return Sketch({}, {"X": X, "mean": (hand.integer(1, 2), X[1])}, {"deviation": deviation})
