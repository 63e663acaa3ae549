"""Calls that `record_unlike` records: boxes in images, what they become, which stay, and what lies in them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tools.record_golden import NHWC, Call, signed

SHAPE = (2, 3, 5, 7)
"""(N, C, H, W)."""

BOXES = np.array([[1, 0.5, 4, 3.25], [-3, -2, 9, 8], [2.25, 1, 2.75, 1.5], [0, 0, 6.5, 4.5]], np.float32)
"""Within images of that shape, beyond, smaller than an element, and nearly all."""

TURNED = np.array([[3, 2, 4, 3, 30], [1, 4, 5, 2.5, -75], [6, 1, 0.5, 0.25, 90], [3.5, 2.5, 7, 5, 0]], np.float32)


def of_images(boxes: Any, *images: int) -> Any:
    """Return boxes behind the numbers of their images."""
    return np.concatenate([np.array(images, np.float32)[:, None], boxes], axis=1)


def last(x: Any) -> Any:
    """Return images with their channels last."""
    return np.moveaxis(x, 1, -1).copy()


def differing(*shape: int, seed: int = 0) -> Any:
    """Return scores of (0, 1] that all differ."""
    count = int(np.prod(shape))
    return ((np.random.RandomState(seed).permutation(count).reshape(shape) + 1) / count).astype(np.float32)


def regions() -> list[tuple[str, list[Call]]]:
    """Regions as images of one size, and what goes back."""
    x, upright, turned = signed(*SHAPE), of_images(BOXES, 0, 1, 1, 0), of_images(TURNED, 1, 0, 0, 1)
    few: dict[str, Any] = {"pooled_h": 2, "pooled_w": 3, "sampling_ratio": 2}
    fine: dict[str, Any] = {"pooled_h": 3, "pooled_w": 1, "spatial_scale": 0.5, "aligned": 1}
    found: list[tuple[str, list[Call]]] = []
    for name, rois in (("RoIAlign", upright), ("RoIAlignRotated", turned)):
        alone = Call({"X": x[:1], "rois": rois[:, 1:].copy()}, ["Y"], few)
        calls = [Call({"X": x, "rois": rois}, ["Y"], few), Call({"X": last(x), "rois": rois}, ["Y"], {**fine, **NHWC})]
        found.append((name, [*calls, Call({"X": x, "rois": rois}, ["Y"], fine), alone]))
    back = [
        Call({"X": x, "rois": upright, "dY": signed(4, 3, args["pooled_h"], args["pooled_w"])}, ["dX"], args)
        for args in (few, fine)
    ]
    pooled = [
        Call(
            {"X": x, "rois": upright * np.array([1, 2, 2, 2, 2], np.float32)},
            ["Y", "at"],
            {"pooled_h": 2, "spatial_scale": 0.5},
        ),
        Call({"X": x, "rois": upright}, ["Y"], {"pooled_h": 3, "pooled_w": 2, "is_test": 1}),
        Call({"X": x, "rois": upright}, ["Y", "at"], {"pooled_h": 4, "pooled_w": 5}),
    ]
    return [*found, ("RoIAlignGradient", back), ("RoIPool", pooled)]


def moved_boxes() -> list[tuple[str, list[Call]]]:
    """Boxes that deltas move, and those of a proposal network that may be turned, or be thinner than a pixel."""
    images = np.array([[50, 60, 1.5], [30.7, 20.4, 0.5]], np.float32)
    upright, turned = of_images(8 * BOXES, 0, 0, 0, 1), of_images(8 * TURNED, 0, 0, 1, 1)
    turned[:, 5] /= 8
    deltas = signed(4, 40, seed=2) / 2
    deltas[:, 4::5] /= 100
    half: dict[str, Any] = {"weights": [10.0, 10.0, 5.0, 5.0], "legacy_plus_one": 0, "apply_scale": 0}
    ways: list[tuple[Any, Any, dict[str, Any]]] = [
        (upright, deltas[:, :8], {}),
        (upright, deltas[:, :12], half),
        (turned, deltas[:, :15], {"rotated": 1}),
        (turned, deltas[:, :10], {"rotated": 1, "angle_bound_lo": 0, "angle_bound_hi": 180, "clip_angle_thresh": 40.0}),
    ]
    moves = [Call({"rois": r, "deltas": d.copy(), "im": images}, ["Y", "splits"], args) for r, d, args in ways]
    sizes = np.array([[0, 0, 12, 19, 0], [3, 1, 25, 14, 40], [1, 2, 9, 30, -70]], np.float32)
    ends = np.array([[80.6, 60.3, 1], [70, 64, 1.5]], np.float32)
    tilted = {"scores": differing(2, 3, 5, 4), "deltas": signed(2, 15, 5, 4) / 3, "im": ends, "anchors": sizes}
    flat = {**tilted, "deltas": tilted["deltas"][:, :12].copy(), "anchors": sizes[:, :4] + [-9, -9, 0, 0]}
    flat["anchors"] = flat["anchors"].astype(np.float32)
    few: dict[str, Any] = {"spatial_scale": 0.125, "min_size": 4.0, "nms_thresh": 0.4, "post_nms_topN": 17}
    thin = {**flat, "deltas": flat["deltas"] - np.tile([0, 0, 3, 3], 3).reshape(-1, 1, 1).astype(np.float32)}
    below = [{**few, "min_size": size, "legacy_plus_one": plus} for size, plus in ((0.0, 1), (0.0, 0), (0.7, 1))]
    smaller = [Call(thin, ["rois", "probs"], args) for args in below]
    return [
        ("BBoxTransform", moves),
        ("GenerateProposals", [Call(tilted, ["rois", "probs"], few), Call(flat, ["rois", "probs"], few), *smaller]),
        ("GenerateProposalsCPP", [Call(flat, ["rois", "probs"], few), Call(tilted, ["rois", "probs"], few)]),
    ]


def kept_boxes() -> list[tuple[str, list[Call]]]:
    """Boxes that stay, of which none covers another."""
    draw = np.random.RandomState(3)
    center, size = draw.uniform(5, 45, (14, 1, 2)), draw.uniform(8, 25, (14, 1, 2))
    center, size = center + draw.normal(0, 2, (14, 3, 2)), size + draw.normal(0, 2, (14, 3, 2))
    upright = np.concatenate([center - size / 2, center + size / 2], axis=2).astype(np.float32)
    turned = np.concatenate([center, size, draw.uniform(-90, 90, (14, 3, 1))], axis=2).astype(np.float32)
    scores, splits, names = differing(14, 3), np.array([8, 6], np.int32), ["best", "stay", "c", "of", "k", "z"]
    soft: dict[str, Any] = {"soft_nms_enabled": 1, "soft_nms_method": "gaussian", "soft_nms_min_score_thres": 0.1}
    ways: list[tuple[Any, list[str], dict[str, Any]]] = [
        (upright, names, {}),
        (upright, names[:4], {"detections_per_im": 5, "nms": 0.5, "output_classes_include_bg_cls": 0}),
        (upright, names, {**soft, "detections_per_im": 7}),
        (upright, names, {"soft_nms_enabled": 1, "nms": 0.2, "legacy_plus_one": 0}),
        (upright[:, :2], names, {"input_boxes_include_bg_cls": 0, "score_thresh": 0.3}),
        (upright[:, :1], names, {"cls_agnostic_bbox_reg": 1}),
        (turned, names, {"rotated": 1, "nms": 0.4}),
        (turned, names, {"rotated": 1, **soft}),
    ]
    return [
        (
            "BoxWithNMSLimit",
            [Call({"s": scores, "b": b.reshape(14, -1).copy(), "n": splits}, out, args) for b, out, args in ways],
        )
    ]


def of_levels() -> list[tuple[str, list[Call]]]:
    """Proposals of the levels of a pyramid."""
    draw = np.random.RandomState(5)
    center, size = draw.uniform(10, 800, (14, 2)), np.exp(draw.uniform(2, 7, (14, 2)))
    rois = np.concatenate([draw.randint(0, 2, (14, 1)), center - size / 2, center + size / 2], axis=1)
    rois, probs = rois.astype(np.float32), differing(14)
    parts = [slice(0, 6), slice(6, 6), slice(6, 14)]
    apart = {f"r{i}": rois[part] for i, part in enumerate(parts)}
    apart.update({f"p{i}": probs[part] for i, part in enumerate(parts)})
    three: dict[str, Any] = {"rpn_min_level": 3, "rpn_max_level": 5}
    levels: dict[str, Any] = {"roi_min_level": 3, "roi_max_level": 5, "roi_canonical_scale": 100}
    four, shown = ["l2", "l3", "l4", "l5", "back"], ["l3", "l4", "l5", "back"]
    tied = {**apart, "p2": np.round(apart["p2"] * 4) / 4}
    return [
        (
            "CollectRpnProposals",
            [Call(apart, ["Y"], {**three, "rpn_post_nms_topN": 9}), Call(tied, ["Y"], three)],
        ),
        (
            "DistributeFpnProposals",
            [Call({"r": rois}, shown, levels), Call({"r": rois[:, 1:].copy()}, four, {"legacy_plus_one": 0})],
        ),
        (
            "CollectAndDistributeFpnRpnProposals",
            [
                Call(apart, ["Y", *shown], {**three, **levels, "rpn_post_nms_topN": 9}),
                Call(tied, ["Y", *four], {**three, "roi_canonical_level": 5}),
            ],
        ),
    ]


def pictures() -> list[tuple[str, list[Call]]]:
    """Whole images: keypoints in them, where to look, and what phones do with them."""
    ends = np.array([[1, 2, 11, 18], [3, 4, 8.5, 9]], np.float32)
    packed, mean = (
        (np.arange(2 * 5 * 3 * 4).reshape(2, 5, 3, 4) * 7 % 256).astype("B"),
        np.array([103.5, 116.75, 9], "f"),
    )
    planes = {"X": signed(2, 3, 5, 7), "m": signed(2, 3), "s": np.abs(signed(1, 3)) + np.float32(0.5)}
    preprocess = "PackedInt8BGRANHWCToNCHWCStylizerPreprocess"
    return [
        (
            "HeatmapMaxKeypoint",
            [
                Call({"maps": signed(2, 3, 6, 6), "boxes": ends}, ["Y"], {"should_output_softmax": 1}),
                Call({"maps": signed(2, 5, 3, 3), "boxes": ends}, ["Y"], {}),
            ],
        ),
        (
            "RMACRegions",
            [
                Call({"X": signed(2, 3, 9, 14)}, ["Y"], {}),
                Call({"X": signed(1, 2, 20, 7)}, ["Y"], {"scales": 2, "overlap": 0.1}),
            ],
        ),
        ("NormalizePlanarYUV", [Call(planes, ["Y"], {}), Call(planes, ["X"], {})]),
        (
            preprocess,
            [
                Call({"X": packed, "mean": mean}, ["Y"], {"noise_size": 13}, seed=7),
                Call({"X": packed, "mean": mean}, ["Y"], {"noise_std": 0.0}),
            ],
        ),
        (
            "BRGNCHWCToPackedInt8BGRAStylizerDeprocess",
            [Call({"X": signed(*shape) * 200, "mean": mean}, ["Y"], {}) for shape in ((2, 3, 5, 7), (1, 3, 4, 9))],
        ),
    ]
