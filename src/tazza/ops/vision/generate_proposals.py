"""Boxes that may hold something: GenerateProposals, the last step of a region proposal network.

N images, A anchors at each of H x W places, which lie 1 / spatial_scale pixels apart. Boxes have n numbers, as the
anchors have: 4, or 5 where they may be turned (`ops.vision.box`). GenerateProposalsCPP is its older name.

For each image:

1. the `pre_nms_topN` best scores are taken, equal ones in the order of (A, H, W);
2. an anchor (center c, size s) and its deltas (d, e) become a box with center c + d s and size exp(e) s, with e at most
   log(1000 / 16), cut off at the borders of the image, at whole pixels; a fifth delta, in radians, turns it;
3. boxes less wide or high than `min_size` times the image's scale go, and those with their center outside of the image;
4. the best box stays, those that cover it by more than `nms_thresh` (intersection over union) go, and so on, until
   `post_nms_topN` have stayed.

Source: Ren, He, Girshick, Sun 2015, arXiv 1506.01497, section 3.3; Ma and others 2018, arXiv 1703.01086; Caffe2.
"""

from __future__ import annotations

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
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    family,
    forbidden,
    kernel,
    schema,
    show_dims,
)
from tazza.ops.shape.axis import agree
from tazza.ops.vision.box import ANGLE_ARGS, PLUS_ONE, Boxes, boxes_of, suppress
from tazza.ops.vision.region import check_scale
from tazza.tensor import DataType, TensorSpec

Suppress: TypeAlias = Callable[[Boxes, Array, float, int], Array]
"""suppress(kind, boxes, threshold, most) -> which of the boxes (K, n), the best first, stay: at most so many."""


def generate_proposals_infer(
    op: OpView, scores: TensorSpec, deltas: TensorSpec, im_info: TensorSpec, anchors: TensorSpec
) -> tuple[TensorSpec, TensorSpec]:
    del im_info  # the pattern says all of it
    n = None if anchors.dims is None else anchors.dims[1]
    op.require(n in (None, 4, 5), f"anchors have {n} columns, they must have 4, or 5 where boxes may be turned")
    if scores.dims is not None and deltas.dims is not None:
        N, A, H, W = scores.dims
        wanted = (N, None if A is None or n is None else n * A, H, W)
        fits = len(deltas.dims) == 4 and all(map(agree, deltas.dims, wanted))
        relation = f"deltas have the shape {show_dims(deltas.dims)}, scores {show_dims(scores.dims)}"
        op.require(fits, relation, f"{n} deltas for each score: (N, {n} A, H, W)")
    columns = None if n is None else n + 1
    return TensorSpec((None, columns), DataType.FLOAT), TensorSpec((None,), DataType.FLOAT)


def generate_proposals_cost(op: OpView, scores: TensorSpec, deltas: TensorSpec, **others: TensorSpec) -> Cost:
    del others
    images = max(1, scores.shape[0])
    seen = min(scores.size // images, op.pre_nms_topN if op.pre_nms_topN > 0 else scores.size)
    stay = min(seen, op.post_nms_topN if op.post_nms_topN > 0 else seen)
    return Cost(images * (30 * seen + 15 * seen * stay), scores.nbytes + deltas.nbytes, images * stay * 24)


@family("GenerateProposals", "GenerateProposalsCPP")
def proposals(type: str) -> OpSchema:
    """The best boxes of images."""
    made = schema(
        type,
        """rois = boxes that may hold something, (R, n + 1): number of the image, and box; probs = their scores, (R).

        The boxes of an image stand together, the best first.""",
        inputs=[
            blob("scores", FLOAT, "N A H W"),
            blob("deltas", FLOAT, role=Role.DATA, doc="(N, n A, H, W)"),
            blob("im_info", FLOAT, "N 3", role=Role.DATA, doc="height, width and scale of each image"),
            blob("anchors", FLOAT, "A D", role=Role.PARAMETER, doc="around the first place"),
        ],
        outputs=[blob("rois", FLOAT, dynamic=True), blob("probs", FLOAT, dynamic=True)],
        args=[
            arg("spatial_scale", float, 0.0625, doc="places a pixel"),
            arg("pre_nms_topN", int, 6000, doc="boxes of an image that are looked at; 0 and less: all"),
            arg("post_nms_topN", int, 300, doc="boxes of an image that are given; 0 and less: all"),
            arg("nms_thresh", float, 0.7, doc="what two boxes of a result may have in common"),
            arg("min_size", float, 16.0, doc="of a box, in pixels of the image before it was scaled"),
            PLUS_ONE,
            *ANGLE_ARGS,
        ],
        effects=Effects.PURE,
        no_gradient=forbidden(
            "which boxes stay is no smooth function; the losses of a proposal network read its scores"
        ),
        source="Ren, He, Girshick, Sun 2015, arXiv 1506.01497",
        example=f"""
        >>> scores, deltas = np.full((1, 1, 1, 2), 0.5, "f"), np.zeros((1, 4, 1, 2), "f")
        >>> rois, probs = run("{type}", scores, deltas, [[40.0, 60.0, 1.0]], [[0.0, 0.0, 19.0, 19.0]])
        >>> rois, probs
        (array([[ 0.,  0.,  0., 19., 19.],
               [ 0., 16.,  0., 35., 19.]], dtype=float32), array([0.5, 0.5], dtype=float32))
        """,
    )
    made.validate(check_scale)
    made.infer(generate_proposals_infer)
    made.cost(generate_proposals_cost)

    @kernel(made)
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

    return made


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
    rois, probs = outputs[0].allocate((total, anchors.shape[1] + 1)), outputs[1].allocate((total,))
    begin = 0
    for n, (boxes, best) in enumerate(found):
        end = begin + len(best)
        rois[begin:end, 0], rois[begin:end, 1:], probs[begin:end] = n, boxes, best
        begin = end


def _of_image(op: OpView, inputs: tuple[Array, ...], suppress: Suppress) -> tuple[Array, Array]:
    """Return the boxes of an image and their scores."""
    scores, deltas, (height, width, scale), anchors = inputs
    A, H, W = scores.shape
    kind = boxes_of(op, anchors.shape[1] == 5)
    order = np.argsort(-scores.reshape(-1), kind="stable")
    order = order[: op.pre_nms_topN] if op.pre_nms_topN > 0 else order
    a, h, w = np.unravel_index(order, (A, H, W))
    moves = [w, h, 0 * w, 0 * w, 0 * w] if kind.numbers == 5 else [w, h, w, h]
    shift = np.stack(moves, axis=1).astype(np.float32) * np.float32(1 / op.spatial_scale)
    boxes = kind.moved(anchors[a] + shift, deltas.reshape(A, kind.numbers, H, W)[a, :, h, w])
    boxes = kind.cut(boxes, np.trunc(height), np.trunc(width))
    centers, sizes = kind.centered(boxes)
    large = (sizes >= np.float32(op.min_size) * scale).all(axis=1) & (centers[:, 0] < width) & (centers[:, 1] < height)
    boxes, best = boxes[large], scores.reshape(-1)[order][large]
    most = op.post_nms_topN if op.post_nms_topN > 0 else len(boxes)
    stay = suppress(kind, boxes, op.nms_thresh, most)
    return boxes[stay], best[stay]
