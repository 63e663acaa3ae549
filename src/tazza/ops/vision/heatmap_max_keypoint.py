"""Where a keypoint is: HeatmapMaxKeypoint, of a map of scores for each keypoint of each box.

R boxes, K keypoints, maps of S x S elements that lie evenly in their box. The place of the largest element is moved by
the Newton step of the parabola through it and its eight neighbours, at most 1.5 elements along either axis; beyond the
border the map is mirrored at its outermost element. Where the parabola has no clear extremum (the determinant of its
second derivatives is below 1e-4) it stays.

Source: He, Gkioxari, Dollar, Girshick 2017, arXiv 1703.06870, section 5; Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpView, Role, arg, blob, forbidden, kernel, schema
from tazza.ops.shape.axis import agree
from tazza.tensor import TensorSpec

LARGEST_STEP = 1.5
LEAST_DETERMINANT = 1e-4

HEATMAP_MAX_KEYPOINT = schema(
    "HeatmapMaxKeypoint",
    "keypoints = x, y, score and probability of each keypoint, (R, 4, K); x and y in pixels, as boxes are.",
    inputs=[
        blob("heatmaps", FLOAT, "R K S T", doc="(R, K, S, S), S at least 2"),
        blob("boxes", FLOAT, "R D", role=Role.DATA, doc="x1, y1, x2, y2; of further columns none is read"),
    ],
    outputs=[blob("keypoints", FLOAT, "R 4 K")],
    args=[
        arg("should_output_softmax", bool, False, doc="1: the probability is that of the largest element; 0: it is 0"),
    ],
    effects=Effects.PURE,
    no_gradient=forbidden("the place of the largest element is no smooth function"),
    source="He, Gkioxari, Dollar, Girshick 2017, arXiv 1703.06870",
    example="""
    >>> run("HeatmapMaxKeypoint", [[[[0.0, 1.0], [0.0, 0.0]]]], [[2.0, 3.0, 12.0, 9.0]])[0, :, 0]
    array([9.5, 4.5, 1. , 0. ], dtype=float32)
    """,
)
HEATMAP_MAX_KEYPOINT.batched("heatmaps", "boxes")


@HEATMAP_MAX_KEYPOINT.infer
def heatmap_max_keypoint_infer(op: OpView, heatmaps: TensorSpec, boxes: TensorSpec) -> TensorSpec:
    _, K, S, T = (None,) * 4 if heatmaps.dims is None else heatmaps.dims
    op.require(agree(S, T), f"heatmaps are {S} by {T} elements, they must be as wide as high")
    op.require(S is None or S >= 2, f"heatmaps are {S} by {T} elements, they must be 2 by 2 at least")
    R, D = (None, None) if boxes.dims is None else boxes.dims
    op.require(D is None or D >= 4, f"boxes have {D} columns, they must have 4")
    return TensorSpec((R, 4, K), heatmaps.dtype)


@HEATMAP_MAX_KEYPOINT.cost
def heatmap_max_keypoint_cost(op: OpView, heatmaps: TensorSpec, boxes: TensorSpec, keypoints: TensorSpec) -> Cost:
    flops = (4 if op.should_output_softmax else 1) * heatmaps.size
    return Cost(flops, heatmaps.nbytes + boxes.nbytes, keypoints.nbytes)


@kernel(HEATMAP_MAX_KEYPOINT)
def heatmap_max_keypoint(op: OpView, heatmaps: Array, boxes: Array, keypoints: Array) -> None:
    R, K, S, _ = heatmaps.shape
    maps = heatmaps.reshape(R, K, S * S)
    at = np.argmax(np.where(np.isnan(maps), -np.inf, maps), axis=2)
    y, x = np.divmod(at, S)
    around = (heatmaps[np.arange(R)[:, None], np.arange(K), i, j] for i in _mirrored(y, S) for j in _mirrored(x, S))
    value, step_x, step_y = _extremum(*around)
    size = np.maximum(boxes[:, 2:4] - boxes[:, :2], 1)
    keypoints[:, 0] = (x + step_x + np.float32(0.5)) * size[:, :1] / S + boxes[:, :1]
    keypoints[:, 1] = (y + step_y + np.float32(0.5)) * size[:, 1:] / S + boxes[:, 1:2]
    keypoints[:, 2] = value
    keypoints[:, 3] = 0
    if op.should_output_softmax:
        keypoints[:, 3] = 1 / np.exp(maps - np.take_along_axis(maps, at[:, :, None], 2)).sum(axis=2)


def _mirrored(place: Array, extent: int) -> tuple[Array, Array, Array]:
    """Return the places before, at and behind one, of which those outside are mirrored at the border."""
    return np.where(place == 0, 1, place - 1), place, np.where(place == extent - 1, extent - 2, place + 1)


def _extremum(*around: Array) -> tuple[Array, Array, Array]:
    """Return the value of the parabola where it has its extremum, and the step there along x and y.

    `around` are nine elements, row by row. With the gradient g and the second derivatives H the step is d = -H^-1 g,
    and the value that of the middle plus g d + d H d / 2.
    """
    up_left, up, up_right, left, middle, right, down_left, down, down_right = around
    gx, gy = (right - left) / 2, (down - up) / 2
    xx, yy = right - 2 * middle + left, down - 2 * middle + up
    xy = (down_right - down_left - up_right + up_left) / 4
    determinant = xx * yy - xy * xy
    clear = np.abs(determinant) >= np.float32(LEAST_DETERMINANT)
    with np.errstate(all="ignore"):
        dx = np.where(clear, (xy * gy - yy * gx) / determinant, 0)
        dy = np.where(clear, (xy * gx - xx * gy) / determinant, 0)
        largest = np.maximum(np.abs(dx), np.abs(dy))
        shrunk = np.where(largest > LARGEST_STEP, np.float32(LARGEST_STEP) / largest, 1)
    dx, dy = dx * shrunk, dy * shrunk
    value = middle + gx * dx + gy * dy + (xx * dx * dx + 2 * xy * dx * dy + yy * dy * dy) / 2
    return value, dx, dy
