"""Boxes in images."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema
from tazza.ops.vision.fpn_proposals import pyramid_proposals
from tazza.ops.vision.generate_proposals import proposals
from tests.judge.families.region import boxes, numbered
from tests.judge.hand import Array, Hand, Sketch, draws


@draws(*proposals)
def generate_proposals(hand: Hand, schema: OpSchema) -> Sketch:
    """Scores that all differ, so that their order does not hang on roundings."""
    del schema
    N, A, H, W = hand.given.get("scores", (hand.integer(0, 3), hand.integer(1, 4), hand.size(), hand.size()))
    size = hand.rng.uniform(4, 40, (A, 2))
    center = hand.rng.uniform(-4, 12, (A, 2))
    anchors = np.concatenate([center - size / 2, center + size / 2], 1)
    if turned := hand.chance(0.3):
        anchors = np.concatenate([center, size, hand.rng.uniform(-80, 80, (A, 1))], 1)
    values: dict[str, Any] = {
        "scores": hand.rng.permutation(N * A * H * W).reshape(N, A, H, W) / max(1, N * A * H * W),
        "deltas": hand.rng.normal(0, 0.4, (N, (5 if turned else 4) * A, H, W)),
        "im_info": np.stack([hand.rng.uniform(20, 90, N), hand.rng.uniform(20, 90, N), hand.rng.uniform(0.5, 2, N)], 1),
        "anchors": anchors,
    }
    found = hand.some({"spatial_scale": hand.pick((0.25, 0.125)), "nms_thresh": hand.real(0.1, 0.9)}, 0.7)
    found |= hand.some({"pre_nms_topN": hand.integer(0, 40), "post_nms_topN": hand.integer(-1, 12)})
    found |= hand.some({"min_size": hand.real(0, 20), "legacy_plus_one": hand.integer(0, 1)})
    return Sketch(found, {}, {letter: value.astype(np.float32) for letter, value in values.items()})


@draws("RoIPoolF", "PSRoIPool")
def roi_pool(hand: Hand, schema: OpSchema) -> Sketch:
    """Regions around the image, whose corners lie between the halves, where nothing hangs on roundings."""
    bins, outputs, of_bins = hand.integer(1, 4), hand.integer(1, 3), schema.type == "PSRoIPool"
    channels = outputs * bins * bins if of_bins else hand.integer(1, 7)
    N, C, H, W = hand.given.get("X", (hand.integer(1, 3), channels, hand.size(1, 9), hand.size(1, 9)))
    K = hand.integer(0, 6)
    corners = hand.rng.integers(-3, max(H, W) + 4, (K, 4)) + hand.rng.uniform(-0.25, 0.25, (K, 4))
    regions = np.concatenate([hand.rng.integers(0, max(N, 1), (K, 1)), corners], axis=1).astype(np.float32)
    if of_bins:
        fits = C >= outputs * bins * bins
        found: dict[str, Any] = {"group_size": bins, "output_dim": outputs} if fits else {}
    else:
        found = {"pooled_h": bins, "pooled_w": hand.integer(1, 4)}
    return Sketch(found, {"X": (N, C, H, W)}, {"rois": regions})


def differing(hand: Hand, *shape: int) -> Array:
    """Return scores of (0, 1] that all differ."""
    count = int(np.prod(shape))
    return ((hand.rng.permutation(count).reshape(shape) + 1) / max(1, count)).astype(np.float32)


@draws("BBoxTransform")
def bbox_transform(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    B, M, K = hand.integer(1, 3), hand.integer(0, 6), hand.integer(1, 3)
    turned = hand.chance(0.4)
    rois = numbered(hand, boxes(hand, M, (50, 40), 1.0, turned=turned), B)
    rois[:, 0].sort()
    if B == 1 and hand.chance(0.5):
        rois = rois[:, 1:].copy()
    images = np.stack([hand.rng.uniform(20, 60, B), hand.rng.uniform(20, 60, B), hand.rng.uniform(0.5, 2, B)], 1)
    found = hand.some({"apply_scale": 0, "legacy_plus_one": 0, "weights": [10.0, 10.0, 5.0, 5.0], "angle_bound_on": 0})
    deltas = hand.rng.normal(0, 0.4, (M, K * (5 if turned else 4)))
    values = {"rois": rois, "deltas": deltas.astype(np.float32), "im_info": images.astype(np.float32)}
    return Sketch({**found, "rotated": int(turned)}, {}, values, outputs=hand.integer(1, 2))


@draws("BoxWithNMSLimit")
def box_with_nms_limit(hand: Hand, schema: OpSchema) -> Sketch:
    del schema
    M, C = hand.integer(0, 12), hand.integer(1, 4)
    turned, one, behind = (hand.chance(p) for p in (0.3, 0.2, 0.2))
    columns = 1 if one else C - 1 if behind else C
    each = [boxes(hand, M, (50, 40), 1.0, turned=turned) for _ in range(columns)]
    found = hand.some({"nms": hand.real(0.1, 0.9), "score_thresh": hand.real(0, 0.3), "legacy_plus_one": 0})
    found |= hand.some({"detections_per_im": hand.integer(-1, 9), "output_classes_include_bg_cls": 0})
    found |= {"rotated": int(turned), "cls_agnostic_bbox_reg": int(one), "input_boxes_include_bg_cls": int(not behind)}
    if hand.chance(0.5):
        found |= {"soft_nms_enabled": 1, "soft_nms_method": hand.pick(("linear", "gaussian"))}
    n = 5 if turned else 4
    whole = np.concatenate([*each, np.empty((M, 0))], axis=1).reshape(M, n * columns).astype(np.float32)
    values: dict[str, Any] = {"scores": differing(hand, M, C), "boxes": whole}
    if hand.chance(0.5):
        first = hand.integer(0, M)
        values["splits"] = np.array([first, M - first], np.float32)
    return Sketch(found, {}, values, outputs=hand.pick((3, 4, 6)))


@draws(*pyramid_proposals)
def of_a_pyramid(hand: Hand, schema: OpSchema) -> Sketch:
    row = pyramid_proposals.rows[schema.type]
    found: dict[str, Any] = {}
    values: dict[str, Any] = {"rois": numbered(hand, boxes(hand, hand.integer(0, 9), (900, 700), 1.0), 2)}
    outputs = int(row.collects)
    if row.collects:
        first, levels = hand.integer(1, 3), hand.integer(1, 3)
        found |= {"rpn_min_level": first, "rpn_max_level": first + levels - 1, "rpn_post_nms_topN": hand.integer(-1, 9)}
        counts = [hand.integer(0, 5) for _ in range(levels)]
        scores = differing(hand, sum(counts))
        values["rois"] = [numbered(hand, boxes(hand, count, (900, 700), 1.0), 2) for count in counts]
        values["probs"] = np.split(scores, np.cumsum(counts)[:-1])
    if row.distributes:
        first, levels = hand.integer(1, 3), hand.integer(1, 4)
        found |= {"roi_min_level": first, "roi_max_level": first + levels - 1, **hand.some({"legacy_plus_one": 0})}
        outputs += levels + 1
    return Sketch(found, {}, values, outputs=outputs)
