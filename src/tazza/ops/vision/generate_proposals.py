"""Boxes that may hold something: GenerateProposals, the last step of a region proposal network.

N images, A anchors at each of H x W places, which lie 1 / spatial_scale pixels apart. Boxes are (x1, y1, x2, y2), in
pixels; the first pixel behind a box is at x2 + p, where p is 1 (`legacy_plus_one`) or 0. For each image:

1. the `pre_nms_topN` best scores are taken, equal ones in the order of (A, H, W);
2. an anchor (center c, size s) and its deltas (d, e) become a box with center c + d s and size exp(e) s, with e at most
   log(1000 / 16), cut off at the borders of the image;
3. boxes less wide or high than `min_size` times the image's scale (at least 1 pixel) go, and those with their center
   outside of the image;
4. the best box stays, those that cover it by more than `nms_thresh` (intersection over union) go, and so on, until
   `post_nms_topN` have stayed.

Source: Ren, He, Girshick, Sun 2015, arXiv 1506.01497, section 3.3; Caffe2. Rotated boxes (anchors of five numbers) are
not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from tazza.errors import NumericError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    DynamicOutput,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    forbidden,
    kernel,
    schema,
    show_dims,
)
from tazza.ops.shape.axis import agree
from tazza.tensor import DataType, TensorSpec

LARGEST_DELTA = math.log(1000 / 16)
"""Of a size, so that exp does not overflow: an anchor may grow by that factor."""

Suppress: TypeAlias = Callable[[Array, float, int, float], Array]
"""suppress(boxes, threshold, most, p) -> which of the boxes (K, 4), the best first, stay: at most so many."""

GENERATE_PROPOSALS = schema(
    "GenerateProposals",
    """rois = boxes that may hold something, (R, 5): the number of the image, x1, y1, x2, y2; probs = their scores, (R).

    The boxes of an image stand together, the best first.""",
    inputs=[
        blob("scores", FLOAT, "N A H W"),
        blob("deltas", FLOAT, role=Role.DATA, doc="(N, 4 A, H, W)"),
        blob("im_info", FLOAT, "N 3", role=Role.DATA, doc="height, width and scale of each image"),
        blob("anchors", FLOAT, "A 4", role=Role.PARAMETER, doc="around the first place"),
    ],
    outputs=[blob("rois", FLOAT, dynamic=True), blob("probs", FLOAT, dynamic=True)],
    args=[
        arg("spatial_scale", float, 0.0625, doc="places a pixel"),
        arg("pre_nms_topN", int, 6000, doc="boxes of an image that are looked at; 0 and less: all"),
        arg("post_nms_topN", int, 300, doc="boxes of an image that are given; 0 and less: all"),
        arg("nms_thresh", float, 0.7, doc="what two boxes of a result may have in common"),
        arg("min_size", float, 16.0, doc="of a box, in pixels of the image before it was scaled"),
        arg("legacy_plus_one", bool, True, doc="a box reaches to the end of the pixel x2, y2"),
        arg("angle_bound_on", bool, True, doc="of rotated boxes: no effect"),
        arg("angle_bound_lo", int, -90, doc="of rotated boxes: no effect"),
        arg("angle_bound_hi", int, 90, doc="of rotated boxes: no effect"),
        arg("clip_angle_thresh", float, 1.0, doc="of rotated boxes: no effect"),
    ],
    effects=Effects.PURE,
    no_gradient=forbidden("which boxes stay is no smooth function; the losses of a proposal network read its scores"),
    source="Ren, He, Girshick, Sun 2015, arXiv 1506.01497",
    example="""
    >>> scores, deltas = np.full((1, 1, 1, 2), 0.5, "f"), np.zeros((1, 4, 1, 2), "f")
    >>> rois, probs = run("GenerateProposals", scores, deltas, [[40.0, 60.0, 1.0]], [[0.0, 0.0, 19.0, 19.0]])
    >>> rois, probs
    (array([[ 0.,  0.,  0., 19., 19.],
           [ 0., 16.,  0., 35., 19.]], dtype=float32), array([0.5, 0.5], dtype=float32))
    """,
)


@GENERATE_PROPOSALS.infer
def generate_proposals_infer(
    op: OpView, scores: TensorSpec, deltas: TensorSpec, im_info: TensorSpec, anchors: TensorSpec
) -> tuple[TensorSpec, TensorSpec]:
    del im_info, anchors  # the patterns say all of them
    op.require(op.spatial_scale > 0, f"spatial_scale is {op.spatial_scale}, it must be above 0")
    if scores.dims is not None and deltas.dims is not None:
        N, A, H, W = scores.dims
        wanted = (N, None if A is None else 4 * A, H, W)
        fits = len(deltas.dims) == 4 and all(map(agree, deltas.dims, wanted))
        relation = f"deltas have the shape {show_dims(deltas.dims)}, scores {show_dims(scores.dims)}"
        op.require(fits, relation, "four deltas for each score: (N, 4 A, H, W)")
    return TensorSpec((None, 5), DataType.FLOAT), TensorSpec((None,), DataType.FLOAT)


@GENERATE_PROPOSALS.cost
def generate_proposals_cost(op: OpView, scores: TensorSpec, deltas: TensorSpec, **others: TensorSpec) -> Cost:
    del others
    images = max(1, scores.shape[0])
    seen = min(scores.size // images, op.pre_nms_topN if op.pre_nms_topN > 0 else scores.size)
    stay = min(seen, op.post_nms_topN if op.post_nms_topN > 0 else seen)
    return Cost(images * (30 * seen + 15 * seen * stay), scores.nbytes + deltas.nbytes, images * stay * 24)


@kernel(GENERATE_PROPOSALS)
def generate_proposals(
    op: OpView,
    scores: Array,
    deltas: Array,
    im_info: Array,
    anchors: Array,
    rois: DynamicOutput,
    probs: DynamicOutput,
) -> None:
    propose(op, (scores, deltas, im_info, anchors), (rois, probs), suppress)


def propose(
    op: OpView,
    inputs: tuple[Array, Array, Array, Array],
    outputs: tuple[DynamicOutput, DynamicOutput],
    suppress: Suppress,
) -> None:
    """Write the outputs; `suppress` is what chooses among boxes that cover each other.

    Raises:
        NumericError: a delta is NaN, so that its box is nowhere.
    """
    scores, deltas, im_info, anchors = inputs
    found: list[tuple[Array, Array]] = []
    for n in range(len(scores)):
        if np.isnan(deltas[n]).any():
            place = tuple(int(i) for i in np.argwhere(np.isnan(deltas[n]))[0])
            raise op.error(NumericError, f"deltas{[n, *place]} is NaN", "the network that gives them has gone astray")
        found.append(_of_image(op, (scores[n], deltas[n], im_info[n], anchors), suppress))
    total = sum(len(best) for _, best in found)
    rois, probs = outputs[0].allocate((total, 5)), outputs[1].allocate((total,))
    begin = 0
    for n, (boxes, best) in enumerate(found):
        end = begin + len(best)
        rois[begin:end, 0], rois[begin:end, 1:], probs[begin:end] = n, boxes, best
        begin = end


def _of_image(op: OpView, inputs: tuple[Array, ...], suppress: Suppress) -> tuple[Array, Array]:
    """Return the boxes of an image and their scores."""
    scores, deltas, (height, width, scale), anchors = inputs
    A, H, W = scores.shape
    plus = np.float32(1 if op.legacy_plus_one else 0)
    order = np.argsort(-scores.reshape(-1), kind="stable")
    order = order[: op.pre_nms_topN] if op.pre_nms_topN > 0 else order
    a, h, w = np.unravel_index(order, (A, H, W))
    shift = np.stack([w, h, w, h], axis=1).astype(np.float32) * np.float32(1 / op.spatial_scale)
    boxes = _moved(anchors[a] + shift, deltas.reshape(A, 4, H, W)[a, :, h, w], plus)
    boxes = np.clip(boxes, 0, np.array([width - plus, height - plus] * 2, np.float32))
    sizes = boxes[:, 2:] - boxes[:, :2] + plus
    centers = boxes[:, :2] + sizes / 2
    least = max(np.float32(op.min_size) * scale, np.float32(1))
    large = (sizes >= least).all(axis=1) & (centers[:, 0] < width) & (centers[:, 1] < height)
    boxes, best = boxes[large], scores.reshape(-1)[order][large]
    most = op.post_nms_topN if op.post_nms_topN > 0 else len(boxes)
    stay = suppress(boxes, op.nms_thresh, most, float(plus))
    return boxes[stay], best[stay]


def _moved(anchors: Array, deltas: Array, plus: np.float32) -> Array:
    """Return the boxes that deltas (K, 4) make of anchors (K, 4)."""
    size = anchors[:, 2:] - anchors[:, :2] + plus
    center = anchors[:, :2] + np.float32(0.5) * size + deltas[:, :2] * size
    half = np.float32(0.5) * np.exp(np.minimum(deltas[:, 2:], np.float32(LARGEST_DELTA))) * size
    return np.concatenate([center - half, center + half - plus], axis=1)


def suppress(boxes: Array, threshold: float, most: int, plus: float) -> Array:
    """Return the numbers of boxes that stay; see `Suppress`."""
    stay: list[int] = []
    x1, y1, x2, y2 = boxes.T
    area = (x2 - x1 + np.float32(plus)) * (y2 - y1 + np.float32(plus))
    left = np.arange(len(boxes))
    while left.size and len(stay) < most:
        i, left = int(left[0]), left[1:]
        stay.append(i)
        wide = np.minimum(x2[i], x2[left]) - np.maximum(x1[i], x1[left]) + np.float32(plus)
        high = np.minimum(y2[i], y2[left]) - np.maximum(y1[i], y1[left]) + np.float32(plus)
        both = np.maximum(wide, 0) * np.maximum(high, 0)
        left = left[both <= np.float32(threshold) * (area[i] + area[left] - both)]
    return np.array(stay, np.int64)
