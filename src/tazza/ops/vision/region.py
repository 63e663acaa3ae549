"""Regions of images, as inputs of other operators: R rows, each the number of an image and a box in it.

A row without the number of an image, one column shorter, lies in image 0. Boxes are in pixels of an image that is
1 / spatial_scale times as large as X, (N, C, H, W), in order NHWC (N, H, W, C).
"""

from __future__ import annotations

import numpy as np

from tazza.errors import ArgumentError, NumericError
from tazza.operator import FLOAT, Array, Dims, OpView, Role, arg, blob, show_dims
from tazza.ops.nn.window import channels_first_dims
from tazza.tensor import TensorSpec

SCALE = arg("spatial_scale", float, 1.0, doc="elements of X a pixel")
REGIONS = blob("rois", FLOAT, "R 5", role=Role.DATA, doc="(R, 5): number of the image, x1, y1, x2, y2")


def check_scale(op: OpView) -> None:
    """Refuse a scale that is not above 0."""
    if not op.spatial_scale > 0:
        raise op.error(ArgumentError, f"spatial_scale = {op.spatial_scale} must be above 0")


def pooled_dims(op: OpView, X: TensorSpec, rois: TensorSpec, columns: tuple[int, ...]) -> Dims:
    """Return the shape of one result per region, (R, C, pooled_h, pooled_w), in the operator's order.

    Raises:
        ShapeError: X holds no images, or `rois` have another number of columns.
    """
    order: str = op.arguments.get("order", "NCHW")
    if rois.dims is not None:
        wanted = " or ".join(map(str, columns))
        fits = len(rois.dims) == 2 and rois.dims[1] in (None, *columns)
        op.require(fits, f"rois have the shape {show_dims(rois.dims)}, they must be (R, {wanted})")
    if X.dims is not None:
        op.require(len(X.dims) == 4, f"X has {len(X.dims)} dimensions {show_dims(X.dims)}, images have 4")
    R = None if rois.dims is None else rois.dims[0]
    C = None if X.dims is None else channels_first_dims(order, X.dims)[1]
    size = (op.pooled_h, op.pooled_w)
    return (R, *size, C) if order.upper() == "NHWC" else (R, C, *size)


def regions(op: OpView, images: Array, rois: Array, columns: int) -> tuple[Array, Array]:
    """Return the image of each region, (R), and its box, (R, columns - 1), of rows that may have one column less.

    Raises:
        NumericError: a region lies in no image, or nowhere.
    """
    if not np.isfinite(rois).all():
        r, i = (int(n) for n in np.argwhere(~np.isfinite(rois))[0])
        raise op.error(NumericError, f"rois[{r}, {i}] is {rois[r, i]}", "a region needs numbers that are finite")
    number = image_numbers(op, rois, columns, "X", len(images))
    return number, rois[:, rois.shape[1] == columns :].astype(np.float32)


def image_numbers(op: OpView, rois: Array, columns: int, letter: str, count: int) -> Array:
    """Return the image of each region, (R), one of the `count` images of blob `letter`, without what is not whole.

    Raises:
        NumericError: a region lies in no image.
    """
    if rois.shape[1] < columns:
        return np.zeros(len(rois), np.int64)
    found = np.trunc(rois[:, 0])
    within = (found >= 0) & (found < count)
    if not within.all():
        r = int(within.argmin())
        raise op.error(NumericError, f"rois[{r}] lies in image {rois[r, 0]:g}, {letter} has the images [0, {count})")
    return found.astype(np.int64)


def rounded(x: Array) -> Array:
    """Return the nearest whole numbers, of two the one away from 0."""
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(x.dtype.type(1), x), 0)
