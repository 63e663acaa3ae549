"""Boxes that a network has corrected: BBoxTransform, the last step of a detector.

M boxes in images, K classes; n numbers a box: 4, or 5 where boxes may be turned (`ops.vision.box`). `rois` are in
pixels of images as the network saw them, `scale` times as large as they were; of these

1. each box, divided by the scale, is moved by the deltas of each class, which are divided by `weights` before;
2. it is cut off at the borders of the image as it was, whose extents are rounded;
3. with `apply_scale` it is multiplied by the scale again.

Source: Girshick 2015, arXiv 1504.08083; Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    forbidden,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import agree
from tazza.ops.vision.box import ANGLE_ARGS, PLUS_ONE, boxes_of
from tazza.ops.vision.region import image_numbers
from tazza.tensor import TensorSpec

BBOX_TRANSFORM = schema(
    "BBoxTransform",
    """boxes = rois moved by deltas, for each class, and cut off at the borders; splits = how many rois each image has.

    The first rois are those of image 0, as many as name it, then come those of image 1: as in Caffe2 rois belong to an
    image by their place, and their numbers are only counted.""",
    inputs=[
        blob("rois", FLOAT, "M R", doc="(M, n + 1): number of the image, box; of one image (M, n) too"),
        blob("deltas", FLOAT, "M D", role=Role.DATA, doc="(M, n K)"),
        blob("im_info", FLOAT, "B 3", role=Role.DATA, doc="height, width and scale of each image"),
    ],
    outputs=[blob("boxes", like="deltas"), blob("splits", FLOAT, "B", optional=True)],
    args=[
        arg("weights", list[float], [1.0, 1.0, 1.0, 1.0], doc="what deltas of x, y, width and height are divided by"),
        arg("apply_scale", bool, True, doc="boxes are in pixels as the network saw them"),
        arg("correct_transform_coords", bool, False, doc="no effect"),
        arg("rotated", bool, False, doc="boxes may be turned"),
        *ANGLE_ARGS,
        PLUS_ONE,
    ],
    effects=Effects.PURE,
    no_gradient=forbidden("the losses of a detector read its deltas"),
    source="Girshick 2015, arXiv 1504.08083",
    example="""
    >>> rois, deltas, im_info = [[0.0, 2.0, 4.0, 5.0, 9.0]], [[0.5, 0.0, 0.0, 0.0]], [[20.0, 30.0, 1.0]]
    >>> run("BBoxTransform", rois, deltas, im_info, outputs=2)
    (array([[4., 4., 7., 9.]], dtype=float32), array([1.], dtype=float32))
    """,
)


@BBOX_TRANSFORM.validate
def bbox_transform_validate(op: OpView) -> None:
    if len(op.weights) != 4:
        raise op.error(ArgumentError, f"weights = {op.weights} has {len(op.weights)} elements, it must have 4")
    boxes_of(op, op.rotated)


@BBOX_TRANSFORM.infer
def bbox_transform_infer(
    op: OpView, rois: TensorSpec, deltas: TensorSpec, im_info: TensorSpec
) -> tuple[TensorSpec, ...]:
    n = boxes_of(op, op.rotated).numbers
    if rois.dims is not None:
        fits = len(rois.dims) == 2 and rois.dims[1] in (None, n, n + 1)
        op.require(fits, f"rois have the shape {show_dims(rois.dims)}, they must be (M, {n + 1}) or (M, {n})")
        if deltas.dims is not None:
            M, D = deltas.dims
            op.require(agree(M, rois.dims[0]), f"deltas have {M} rows, rois {rois.dims[0]}")
            op.require(D is None or D % n == 0, f"deltas have {D} columns, they must be a multiple of {n}")
        if rois.dims[1] == n and im_info.dims is not None:
            op.require(
                agree(im_info.dims[0], 1), f"im_info has {im_info.dims[0]} images, and rois have no numbers of them"
            )
    images = None if im_info.dims is None else im_info.dims[0]
    return (TensorSpec(deltas.dims, deltas.dtype), TensorSpec((images,), rois.dtype))[: len(op.output_letters)]


@BBOX_TRANSFORM.cost
def bbox_transform_cost(
    op: OpView, rois: TensorSpec, deltas: TensorSpec, im_info: TensorSpec, boxes: TensorSpec, splits: TensorSpec | None
) -> Cost:
    del op
    outputs = (boxes,) if splits is None else (boxes, splits)
    return streamed((rois, deltas, im_info), outputs, flops=8 * boxes.size)


@kernel(BBOX_TRANSFORM)
def bbox_transform(op: OpView, rois: Array, deltas: Array, im_info: Array, boxes: Array, splits: Array | None) -> None:
    kind = boxes_of(op, op.rotated)
    n = kind.numbers
    counts = np.bincount(image_numbers(op, rois, n + 1, "im_info", len(im_info)), minlength=len(im_info))
    if splits is not None:
        splits[...] = counts
    height, width, scale = np.repeat(im_info, counts, axis=0).T
    with np.errstate(all="ignore"):  # an image that is 0 times as large has boxes that are no numbers
        height, width = (np.trunc(extent / scale + np.float32(0.5)) for extent in (height, width))
        stretch = np.ones((len(rois), n), rois.dtype)
        stretch[:, :4] = scale[:, None]
        start = rois[:, rois.shape[1] - n :] / stretch
        weights = np.array([*op.weights, 1][:n], np.float32)
        for k in range(0, deltas.shape[1], n):
            found = kind.cut(kind.moved(start, deltas[:, k : k + n] / weights), height, width)
            boxes[:, k : k + n] = found * stretch if op.apply_scale else found
