"""Boxes in images."""

from __future__ import annotations

from typing import Any

import numpy as np

from tazza.operator import OpSchema
from tests.judge.hand import Hand, Sketch, draws


@draws("GenerateProposals")
def generate_proposals(hand: Hand, schema: OpSchema) -> Sketch:
    """Scores that all differ, so that their order does not hang on roundings."""
    del schema
    N, A, H, W = hand.given.get("scores", (hand.integer(0, 3), hand.integer(1, 4), hand.size(), hand.size()))
    size = hand.rng.uniform(4, 40, (A, 2))
    center = hand.rng.uniform(-4, 12, (A, 2))
    values: dict[str, Any] = {
        "scores": hand.rng.permutation(N * A * H * W).reshape(N, A, H, W) / max(1, N * A * H * W),
        "deltas": hand.rng.normal(0, 0.4, (N, 4 * A, H, W)),
        "im_info": np.stack([hand.rng.uniform(20, 90, N), hand.rng.uniform(20, 90, N), hand.rng.uniform(0.5, 2, N)], 1),
        "anchors": np.concatenate([center - size / 2, center + size / 2], 1),
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
    return Sketch(found, {"X": (N, C, H, W)}, {"R": regions})
