"""Parts of images as maps of one size: RoIPoolF and PSRoIPool of Detectron's module.

Letters: N images of C channels, H and W height and width; R regions, each (n, x1, y1, x2, y2): the number of its image
and the pixels of two corners, which both belong to it, in an image that is 1 / spatial_scale as large; h and w the
size of the result.

    X, dX (N, C, H, W)    rois (R, 5)    Y, argmaxes, dY (R, C, h, w)

A region is divided into h times w bins of equal size; what lies outside of the image is left out, and an empty bin
gives 0.

    RoIPoolF     Y = the largest of a bin in each channel, argmaxes = its place y * W + x, -1 where there is none.
                 Corners are rounded after they are scaled; a region is at least one pixel large.
    PSRoIPool    h = w = group_size, and Y (R, output_dim, h, w) is the mean of a bin in a channel of its own:
                 argmaxes = the channel (o * h + i) * w + j for bin (i, j) of output o. Corners are rounded before
                 they are scaled; a region is at least a tenth of a pixel large.

Rounding is that to the nearest, of halves away from 0; sizes are computed in float32.

Sources: Girshick 2015, Fast R-CNN, section 2.1; Dai, Li, He, Sun 2016, R-FCN, arXiv 1605.06409, section 2; Caffe2,
modules/detectron.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.nn.window import LOWEST
from tazza.ops.shape.axis import require_within, shapes_agree
from tazza.ops.vision.region import REGIONS, SCALE, image_numbers, pooled_dims, rounded
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

SMALLEST_REGION = 0.1
"""Pixels, in either direction."""

F_ARGS = (
    SCALE,
    arg("pooled_h", int, 1, minimum=1, doc="h"),
    arg("pooled_w", int, 1, minimum=1, doc="w"),
    arg("sampling_ratio", int, 0, doc="no effect: Detectron's builders give it to whatever pools regions"),
)
PS_ARGS = (
    SCALE,
    arg("group_size", int, 1, minimum=1, doc="h and w"),
    arg("output_dim", int, 1, minimum=1, doc="channels of Y"),
)
IMAGES = blob("X", FLOAT, "N C H W")
SHAPED = blob("X", FLOAT, "N C H W", role=Role.SHAPE, doc="its shape counts")

ROI_POOL_F = schema(
    "RoIPoolF",
    "Y = the largest of each bin of each region; argmaxes = where in a channel it stands, -1 for an empty bin.",
    inputs=[IMAGES, REGIONS],
    outputs=[blob("Y", "X", doc="(R, C, h, w)"), blob("argmaxes", DataType.INT32, doc="(R, C, h, w)")],
    args=F_ARGS,
    effects=Effects.PURE,
    source="Girshick 2015, Fast R-CNN, section 2.1; Caffe2, modules/detectron",
    example="""
    >>> run("RoIPoolF", np.arange(6, dtype="f").reshape(1, 1, 2, 3), [[0.0, 1.0, 0.0, 2.0, 1.0]], pooled_w=2)
    (array([[[[4., 5.]]]], dtype=float32), array([[[[4, 5]]]], dtype=int32))
    """,
)
ROI_POOL_F_GRADIENT = schema(
    "RoIPoolFGradient",
    "dX = dY at the places of argmaxes, summed over bins.",
    inputs=[
        SHAPED,
        REGIONS,
        blob("argmaxes", DataType.INT32, "R C h w", role=Role.INDEX, doc="y * W + x, or -1"),
        blob("dY", "X", "R C h w", role=Role.DATA),
    ],
    outputs=[blob("dX", like="X")],
    args=F_ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> X, rois = np.zeros((1, 1, 2, 3), "f"), [[0.0, 1.0, 0.0, 2.0, 1.0]]
    >>> run("RoIPoolFGradient", X, rois, [[[[4, 5]]]], [[[[10.0, 20.0]]]], pooled_w=2).reshape(2, 3)
    array([[ 0.,  0.,  0.],
           [ 0., 10., 20.]], dtype=float32)
    """,
)
PS_ROI_POOL = schema(
    "PSRoIPool",
    "Y = the mean of each bin of each region, in a channel of the bin's own; argmaxes = which channel that is.",
    inputs=[IMAGES, REGIONS],
    outputs=[blob("Y", "X", doc="(R, O, h, w)"), blob("argmaxes", DataType.INT32, doc="(R, O, h, w)")],
    args=PS_ARGS,
    effects=Effects.PURE,
    source="Dai, Li, He, Sun 2016, R-FCN, arXiv 1605.06409, section 2; Caffe2, modules/detectron",
    example="""
    >>> X = np.repeat(np.arange(4, dtype="f"), 4).reshape(1, 4, 2, 2)
    >>> run("PSRoIPool", X, [[0.0, 0.0, 0.0, 1.0, 1.0]], group_size=2)[0]
    array([[[[0., 1.],
             [2., 3.]]]], dtype=float32)
    """,
)
PS_ROI_POOL_GRADIENT = schema(
    "PSRoIPoolGradient",
    "dX = dY / (pixels of a bin) at each pixel of the bin, in the channel of argmaxes, summed over bins.",
    inputs=[
        SHAPED,
        REGIONS,
        blob("argmaxes", DataType.INT32, "R O h w", role=Role.INDEX, doc="channels"),
        blob("dY", "X", "R O h w", role=Role.DATA),
    ],
    outputs=[blob("dX", like="X")],
    args=PS_ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> X, rois = np.zeros((1, 1, 2, 3), "f"), [[0.0, 1.0, 0.0, 2.0, 1.0]]
    >>> run("PSRoIPoolGradient", X, rois, [[[[0]]]], [[[[4.0]]]]).reshape(2, 3)
    array([[0., 1., 1.],
           [0., 1., 1.]], dtype=float32)
    """,
)


@ROI_POOL_F.infer
def roi_pool_f_infer(op: OpView, X: TensorSpec, rois: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    shape = pooled_dims(op, X, rois, (5,))
    return TensorSpec(shape, X.dtype), TensorSpec(shape, DataType.INT32)


@PS_ROI_POOL.infer
def ps_roi_pool_infer(op: OpView, X: TensorSpec, rois: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    R, C = None if rois.dims is None else rois.dims[0], None if X.dims is None else X.dims[1]
    needed = op.output_dim * op.group_size**2
    op.require(C is None or C >= needed, f"X has {C} channels, output_dim * group_size^2 = {needed}")
    shape = (R, op.output_dim, op.group_size, op.group_size)
    return TensorSpec(shape, X.dtype), TensorSpec(shape, DataType.INT32)


@ROI_POOL_F.cost
@PS_ROI_POOL.cost
def roi_pool_cost(op: OpView, X: TensorSpec, rois: TensorSpec, Y: TensorSpec, argmaxes: TensorSpec) -> Cost:
    del op
    return streamed((X, rois), (Y, argmaxes), flops=X.size + Y.size)


@ROI_POOL_F.gradient
@PS_ROI_POOL.gradient
def roi_pool_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit(f"{g.op.type}Gradient", [g.like("X"), g.rois, g.argmaxes, g.dY], [g.dX])


def roi_pool_gradient_infer(
    op: OpView, X: TensorSpec, rois: TensorSpec, argmaxes: TensorSpec, dY: TensorSpec
) -> TensorSpec:
    del argmaxes
    Y, _ = (roi_pool_f_infer if op.type == ROI_POOL_F_GRADIENT.type else ps_roi_pool_infer)(op, X, rois)
    if Y.dims is not None and dY.dims is not None:
        relation = f"dY has the shape {show_dims(dY.dims)}, Y has {show_dims(Y.dims)}"
        op.require(shapes_agree(dY.dims, Y.dims), relation)
    return X


def roi_pool_gradient_cost(
    op: OpView, X: TensorSpec, rois: TensorSpec, argmaxes: TensorSpec, dY: TensorSpec, dX: TensorSpec
) -> Cost:
    del op, X
    return streamed((rois, argmaxes, dY), (dX,), flops=dY.size + dX.size)


for _schema in (ROI_POOL_F_GRADIENT, PS_ROI_POOL_GRADIENT):
    _schema.infer(roi_pool_gradient_infer)
    _schema.cost(roi_pool_gradient_cost)


@kernel(ROI_POOL_F)
def roi_pool_f(op: OpView, X: Array, rois: Array, Y: Array, argmaxes: Array) -> None:
    Y[...], argmaxes[...] = 0, -1
    for (k, i, j), n, rows, columns in _rounded_bins(op, rois, X.shape):
        seen = X[n, :, rows, columns]
        flat = np.where(seen > LOWEST, seen, LOWEST).reshape(len(seen), -1)
        place = flat.argmax(axis=1)
        largest = flat[np.arange(len(flat)), place]
        width = columns.stop - columns.start
        where = (rows.start + place // width) * X.shape[3] + columns.start + place % width
        Y[k, :, i, j], argmaxes[k, :, i, j] = largest, np.where(largest > LOWEST, where, -1)


@kernel(ROI_POOL_F_GRADIENT)
def roi_pool_f_gradient(op: OpView, rois: Array, argmaxes: Array, dY: Array, dX: Array) -> None:
    N, _, H, W = dX.shape
    images = image_numbers(op, rois, 5, "X", N)
    require_within(op, "argmaxes", argmaxes, -1, H * W)
    dX[...] = 0
    k, c, i, j = np.nonzero(argmaxes >= 0)
    places = argmaxes[k, c, i, j]
    np.add.at(dX, (images[k], c, places // max(W, 1), places % max(W, 1)), dY[k, c, i, j])


@kernel(PS_ROI_POOL)
def ps_roi_pool(op: OpView, X: Array, rois: Array, Y: Array, argmaxes: Array) -> None:
    outputs, g = op.output_dim, op.group_size
    channels: Array = np.arange(outputs * g * g, dtype=np.int32)
    argmaxes[...] = channels.reshape(outputs, g, g)
    Y[...] = 0
    for (k, i, j), n, rows, columns in _scaled_bins(op, rois, X.shape):
        seen = X[n, i * g + j : outputs * g * g : g * g, rows, columns]
        Y[k, :, i, j] = seen.mean(axis=(1, 2), dtype=Y.dtype)


@kernel(PS_ROI_POOL_GRADIENT)
def ps_roi_pool_gradient(op: OpView, rois: Array, argmaxes: Array, dY: Array, dX: Array) -> None:
    require_within(op, "argmaxes", argmaxes, 0, dX.shape[1])
    dX[...] = 0
    for (k, i, j), n, rows, columns in _scaled_bins(op, rois, dX.shape):
        area = (rows.stop - rows.start) * (columns.stop - columns.start)
        for channel, share in zip(argmaxes[k, :, i, j], dY[k, :, i, j] / dX.dtype.type(area), strict=True):
            dX[n, channel, rows, columns] += share


Bin = tuple[tuple[int, int, int], int, slice, slice]
"""(k, i, j), the number of the image, and the pixels."""


def _rounded_bins(op: OpView, rois: Array, X: tuple[int, ...]) -> Iterator[Bin]:
    """Yield the bins of RoIPoolF that are not empty."""
    corners = rounded(rois[:, 1:] * rois.dtype.type(op.spatial_scale))  # (R, 4)
    size = np.maximum(corners[:, 2:] - corners[:, :2] + 1, 1)
    return _bins(op, rois, X, corners[:, :2], size, (op.pooled_h, op.pooled_w), whole=True)


def _scaled_bins(op: OpView, rois: Array, X: tuple[int, ...]) -> Iterator[Bin]:
    """Yield the bins of PSRoIPool that are not empty."""
    scale = rois.dtype.type(op.spatial_scale)
    first, last = rounded(rois[:, 1:3]) * scale, (rounded(rois[:, 3:]) + 1) * scale
    size = np.fmax(last - first, rois.dtype.type(SMALLEST_REGION))
    return _bins(op, rois, X, first, size, (op.group_size, op.group_size), whole=False)


def _bins(
    op: OpView, rois: Array, X: tuple[int, ...], first: Array, size: Array, out: tuple[int, int], *, whole: bool
) -> Iterator[Bin]:
    """Yield the bins that are not empty; `first` and `size` are (R, 2) in the order x, y.

    Where regions begin at `whole` pixels, bins are rounded before they are moved there, else behind.
    """
    images, bounds = image_numbers(op, rois, 5, "X", X[0]), list[tuple[Array, Array]]()
    for axis, count, extent in ((1, out[0], X[2]), (0, out[1], X[3])):
        begin, step = first[:, axis, np.newaxis], size[:, axis, np.newaxis] / rois.dtype.type(count)
        edges = np.arange(count + 1, dtype=rois.dtype) * step  # (R, count + 1)
        low, high = (
            (np.floor(edges) + begin, np.ceil(edges) + begin)
            if whole
            else (np.floor(edges + begin), np.ceil(edges + begin))
        )
        bounds.append((_pixels(low[:, :-1], extent), _pixels(high[:, 1:], extent)))
    (top, bottom), (left, right) = bounds
    for k, i, j in np.argwhere((top < bottom)[:, :, np.newaxis] & (left < right)[:, np.newaxis]).tolist():
        yield (k, i, j), int(images[k]), slice(top[k, i], bottom[k, i]), slice(left[k, j], right[k, j])


def _pixels(bounds: Array, extent: int) -> Array:
    """Return bounds within an image; what is no number is 0."""
    return np.clip(np.nan_to_num(bounds, posinf=extent, neginf=0), 0, extent).astype(np.int64)
