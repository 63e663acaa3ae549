"""Which boxes a detector gives: BoxWithNMSLimit, of all boxes of all classes.

M boxes in B images, which stand one image behind the other, C classes of which the first is the background; n numbers a
box: 4, or 5 where boxes may be turned (`ops.vision.box`). Of each image and class but the background

1. boxes with a score above `score_thresh` are taken, the best first, equal ones in their order
   (where scores are lowered, ties go to whom Caffe2 gave them);
2. of boxes that cover each other by more than `nms` (intersection over union) the best stays. With `soft_nms_enabled`
   the others stay with a lower score: the best is taken, scores of the rest are multiplied by 1 - o where o, what they
   have in common with it, is above `nms` (linear), or by exp(-o^2 / sigma) (gaussian), those not above
   `soft_nms_min_score_thres` go, and so on;
3. the `detections_per_im` best of all classes of an image stay, of equal ones those of the first class.

Source: Girshick 2015, arXiv 1504.08083; Bodla, Singh, Chellappa, Davis 2017, arXiv 1704.04503 (soft suppression).
"""

from __future__ import annotations

import itertools
from typing import Any

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
    together,
)
from tazza.ops.shape.axis import agree
from tazza.ops.vision.box import PLUS_ONE, Boxes, boxes_of, suppress
from tazza.tensor import DataType, TensorSpec

COUNTS = frozenset({DataType.FLOAT, DataType.INT32})

BOX_WITH_NMS_LIMIT = schema(
    "BoxWithNMSLimit",
    """kept_boxes = boxes of which none covers another of its class, (R, n); kept_scores and classes, (R), are theirs.

    The boxes of an image stand together, and of these those of a class, the best first. kept_splits = how many each
    image has, keeps = their rows in their image, (R), keeps_size = how many each image has of each class.""",
    inputs=[
        blob("scores", FLOAT, "M C"),
        blob("boxes", FLOAT, "M D", role=Role.DATA, doc="(M, n C)"),
        blob(
            "splits", COUNTS, optional=True, role=Role.INDEX, doc="boxes of each image, (B); without it of the only one"
        ),
    ],
    outputs=[
        blob("kept_scores", FLOAT, dynamic=True),
        blob("kept_boxes", FLOAT, dynamic=True),
        blob("classes", FLOAT, dynamic=True),
        blob("kept_splits", FLOAT, optional=True),
        blob("keeps", DataType.INT32, optional=True, dynamic=True),
        blob("keeps_size", DataType.INT32, optional=True),
    ],
    args=[
        arg("score_thresh", float, 0.05, doc="what scores must be above"),
        arg("nms", float, 0.3, doc="what two boxes of a class may have in common"),
        arg("detections_per_im", int, 100, doc="boxes of an image that are given; 0 and less: all"),
        arg("soft_nms_enabled", bool, False, doc="lower the scores of boxes that are covered, rather than drop them"),
        arg("soft_nms_method", str, "linear", choices=("linear", "gaussian"), doc="by what scores are multiplied"),
        arg("soft_nms_sigma", float, 0.5, doc="of the method gaussian"),
        arg("soft_nms_min_score_thres", float, 0.001, doc="what scores that were lowered must be above"),
        arg("rotated", bool, False, doc="boxes may be turned"),
        arg("cls_agnostic_bbox_reg", bool, False, doc="all classes have the same boxes, (M, n)"),
        arg(
            "input_boxes_include_bg_cls",
            bool,
            True,
            doc="0: class c has column c - 1 of scores and of boxes, (M, n C - n)",
        ),
        arg("output_classes_include_bg_cls", bool, True, doc="0: classes count from 0, behind the background"),
        PLUS_ONE,
    ],
    effects=Effects.PURE,
    relations=[together("keeps", "keeps_size")],
    no_gradient=forbidden("which boxes stay is no smooth function"),
    source="Girshick 2015, arXiv 1504.08083",
    example="""
    >>> scores, boxes = [[0.1, 0.9], [0.3, 0.7]], [[0.0] * 4 + [2.0, 3.0, 9.0, 8.0], [0.0] * 4 + [3.0, 3.0, 9.0, 8.0]]
    >>> run("BoxWithNMSLimit", scores, boxes, outputs=3)
    (array([0.9], dtype=float32), array([[2., 3., 9., 8.]], dtype=float32), array([1.], dtype=float32))
    """,
)


@BOX_WITH_NMS_LIMIT.infer
def box_with_nms_limit_infer(
    op: OpView, scores: TensorSpec, boxes: TensorSpec, splits: TensorSpec | None
) -> tuple[TensorSpec, ...]:
    n = boxes_of(op, op.rotated).numbers
    C = None if scores.dims is None else scores.dims[1]
    if boxes.dims is not None and C is not None:
        classes = 1 if op.cls_agnostic_bbox_reg else C if op.input_boxes_include_bg_cls else max(0, C - 1)
        classes = min(classes, C)
        relation = f"boxes have {boxes.dims[1]} columns, {C} classes need {n} x {classes}"
        op.require(agree(boxes.dims[1], n * classes), relation)
    if splits is not None and splits.dims is not None:
        op.require(len(splits.dims) == 1, f"splits have the shape {show_dims(splits.dims)}, they must be a list")
    B = 1 if splits is None else None if splits.dims is None else splits.dims[0]
    found = (
        TensorSpec((None,), DataType.FLOAT),
        TensorSpec((None, n), DataType.FLOAT),
        TensorSpec((None,), DataType.FLOAT),
        TensorSpec((B,), DataType.FLOAT),
        TensorSpec((None,), DataType.INT32),
        TensorSpec((B, C), DataType.INT32),
    )
    return found[: len(op.output_letters)]


@BOX_WITH_NMS_LIMIT.cost
def box_with_nms_limit_cost(op: OpView, scores: TensorSpec, boxes: TensorSpec, **others: TensorSpec | None) -> Cost:
    del others
    most = op.detections_per_im if op.detections_per_im > 0 else scores.shape[0]
    stay = min(scores.shape[0], most)
    return Cost(15 * scores.size * stay, scores.nbytes + boxes.nbytes, 32 * stay)


@kernel(BOX_WITH_NMS_LIMIT)
def box_with_nms_limit(
    op: OpView,
    scores: Array,
    boxes: Array,
    splits: Array | None,
    kept_scores: DynamicOutput,
    kept_boxes: DynamicOutput,
    classes: DynamicOutput,
    kept_splits: Array | None,
    keeps: DynamicOutput | None,
    keeps_size: Array | None,
) -> None:
    n = boxes_of(op, op.rotated).numbers
    each = boxes.reshape(len(boxes), boxes.shape[1] // n, n)
    ends = _ends(op, splits, len(scores))
    images = [_of_image(op, scores[a:b], each[a:b]) for a, b in itertools.pairwise(ends)]
    counts = [len(rows) for rows, _, _ in images]
    rows, best, own = (np.concatenate([found[i] for found in images]) for i in range(3))
    kept_scores.allocate(best.shape)[...] = best
    kept_boxes.allocate((len(rows), n))[...] = each[np.repeat(ends[:-1], counts) + rows, _box_column(op, own)]
    classes.allocate(own.shape)[...] = own if op.output_classes_include_bg_cls else own - 1
    if kept_splits is not None:
        kept_splits[...] = counts
    if keeps is not None and keeps_size is not None:
        keeps.allocate(rows.shape)[...] = rows
        keeps_size[...] = 0
        np.add.at(keeps_size, (np.repeat(np.arange(len(images)), counts), own), 1)


def _ends(op: OpView, splits: Array | None, count: int) -> Array:
    """Return where the boxes of each image begin and end, (B + 1).

    Raises:
        NumericError: `splits` say of another number of boxes.
    """
    if splits is None:
        return np.array([0, count])
    if (splits < 0).any() or splits.sum() != count:
        text = f"splits = {splits.tolist()} must be counts of {count} boxes"
        raise op.error(NumericError, text, "as BBoxTransform gives them")
    return np.concatenate([[0], np.cumsum(splits.astype(np.int64))])


def _box_column(op: OpView, classes: Array | int) -> Any:
    """Return which boxes are those of classes."""
    return classes * 0 if op.cls_agnostic_bbox_reg else classes - _shift(op)


def _shift(op: OpView) -> int:
    """Return the class of the first column."""
    return 0 if op.input_boxes_include_bg_cls else 1


def _of_image(op: OpView, scores: Array, boxes: Array) -> tuple[Array, Array, Array]:
    """Return rows, scores and classes of the boxes that stay of an image, class by class; boxes (M, columns, n)."""
    kind = boxes_of(op, op.rotated)
    found = [(np.empty(0, np.int64), np.empty(0, scores.dtype), 0)]
    for c in range(1, scores.shape[1]):
        own = scores[:, c - _shift(op)]
        rows = np.flatnonzero(own > np.float32(op.score_thresh))
        stay, best = _chosen(op, kind, boxes[rows, _box_column(op, c)], own[rows])
        found.append((rows[stay], best, c))
    rows, best = (np.concatenate([one[i] for one in found]) for i in (0, 1))
    classes = np.repeat([c for *_, c in found], [len(rows) for rows, *_ in found])
    if 0 < op.detections_per_im < len(rows):
        stay = np.sort(np.argsort(-best, kind="stable")[: op.detections_per_im])
        rows, best, classes = rows[stay], best[stay], classes[stay]
    return rows, best, classes


def _chosen(op: OpView, kind: Boxes, boxes: Array, scores: Array) -> tuple[Array, Array]:
    """Return the numbers of boxes of a class that stay, the best first, and their scores."""
    if not op.soft_nms_enabled:
        order = np.argsort(-scores, kind="stable")
        stay = order[suppress(kind, boxes[order], op.nms, len(boxes))]
        return stay, scores[stay]
    scores, taken, left = scores.copy(), np.empty(0, np.int64), np.arange(len(boxes))
    while left.size:
        at = int(scores[left].argmax())
        i, left[at] = left[at], left[0]  # the place of the one that is taken goes to the first: so ties come out equal
        taken, left = np.append(taken, i), left[1:]
        shared = kind.overlap(boxes[i], boxes[left])
        if op.soft_nms_method == "gaussian":
            scores[left] *= np.exp(-(shared**2) / np.float32(op.soft_nms_sigma))
        else:
            scores[left] *= np.where(shared > np.float32(op.nms), 1 - shared, 1)
        left = left[scores[left] > np.float32(op.soft_nms_min_score_thres)]
    return taken, scores[taken]
