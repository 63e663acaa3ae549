"""Regions as the largest numbers of their parts: RoIPool and its gradient.

R regions (`ops.vision.region`) of X (N, C, H, W) become Y (R, C, pooled_h, pooled_w). Corners are rounded to elements,
halves away from 0; a region reaches to the end of its last element and holds at least one. It is cut into
pooled_h x pooled_w bins, each from the element in which it begins to that in which it ends, so that neighbours may
share some. Where nothing of a bin lies in the image, Y is 0 and `argmaxes` -1.

Source: Girshick 2015, arXiv 1504.08083, section 2.1.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tazza.errors import ArgumentError, GradientError, NumericError
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
from tazza.ops.nn.channel import CHANNELS_FIRST
from tazza.ops.nn.window import LOWEST
from tazza.ops.shape.axis import shapes_agree
from tazza.ops.vision.region import REGIONS, SCALE, check_scale, pooled_dims, regions, rounded
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

ARGS = (
    SCALE,
    arg("pooled_h", int, 1, minimum=1, doc="height of Y"),
    arg("pooled_w", int, 1, minimum=1, doc="width of Y"),
    arg("is_test", bool, False, doc="without argmaxes, so that there is no gradient"),
    CHANNELS_FIRST,
)

ROI_POOL = schema(
    "RoIPool",
    "Y[r] = region r of X, in pooled_h x pooled_w bins: the largest number of each; argmaxes: its place, H W from 0.",
    inputs=[blob("X", FLOAT, "N C H W"), REGIONS],
    outputs=[blob("Y", "X"), blob("argmaxes", DataType.INT32, optional=True)],
    args=ARGS,
    effects=Effects.PURE,
    source="Girshick 2015, arXiv 1504.08083",
    example="""
    >>> run("RoIPool", [[[[1.0, 5.0, 3.0, 4.0]]]], [[0.0, 0.0, 0.0, 3.0, 0.0]], pooled_w=2, outputs=2)
    (array([[[[5., 4.]]]], dtype=float32), array([[[[1, 3]]]], dtype=int32))
    """,
)
ROI_POOL.trains_unless("is_test", "argmaxes")

ROI_POOL_GRADIENT = schema(
    "RoIPoolGradient",
    "dX = the sum of all dY whose largest number an element of X was.",
    inputs=[
        blob("X", FLOAT, "N C H W", role=Role.SHAPE, doc="only its shape is used"),
        REGIONS,
        blob("argmaxes", DataType.INT32, "R C h w", role=Role.INDEX, doc="as RoIPool gives them"),
        blob("dY", "X", "R C h w", role=Role.DATA),
    ],
    outputs=[blob("dX", like="X")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> X, rois, at = np.zeros((1, 1, 1, 4), "f"), [[0.0, 0.0, 0.0, 3.0, 0.0]], np.array([[[[1, 3]]]], "i")
    >>> run("RoIPoolGradient", X, rois, at, [[[[7.0, 8.0]]]], pooled_w=2)
    array([[[[0., 7., 0., 8.]]]], dtype=float32)
    """,
)


@ROI_POOL.validate
def roi_pool_validate(op: OpView) -> None:
    wanted = 1 if op.is_test else 2
    if len(op.output_letters) != wanted:
        message = f"{len(op.output_letters)} outputs with is_test = {int(op.is_test)}, it takes {wanted}"
        raise op.error(ArgumentError, message)
    check_scale(op)


ROI_POOL_GRADIENT.validate(check_scale)


@ROI_POOL.infer
def roi_pool_infer(op: OpView, X: TensorSpec, rois: TensorSpec) -> tuple[TensorSpec, ...]:
    dims = pooled_dims(op, X, rois, (5,))
    return (TensorSpec(dims, X.dtype), TensorSpec(dims, DataType.INT32))[: len(op.output_letters)]


@ROI_POOL.cost
def roi_pool_cost(op: OpView, X: TensorSpec, rois: TensorSpec, Y: TensorSpec, argmaxes: TensorSpec | None) -> Cost:
    del op
    read = X.size * max(1, rois.shape[0]) // max(1, X.shape[0])
    return Cost(read, 4 * read + rois.nbytes, Y.nbytes + (0 if argmaxes is None else argmaxes.nbytes))


@ROI_POOL.gradient
def roi_pool_gradient(g: GradientRequest) -> list[OperatorDef]:
    if not g.op.has_output("argmaxes"):
        raise g.op.error(GradientError, "there is no gradient without argmaxes", "train with is_test = 0")
    return g.emit("RoIPoolGradient", [g.like("X"), g.rois, g.argmaxes, g.dY], [g.dX])


@kernel(ROI_POOL)
def roi_pool(op: OpView, X: Array, rois: Array, Y: Array, argmaxes: Array | None) -> None:
    places = np.full(Y.shape, -1, np.int32)
    Y[...] = 0
    for r, n, i, j, rows, columns in _bins(op, X, rois):
        part = X[n, :, rows, columns].reshape(X.shape[1], (rows.stop - rows.start) * (columns.stop - columns.start))
        seen = np.where(part > LOWEST, part, LOWEST)
        at = seen.argmax(axis=1)
        Y[r, :, i, j] = best = seen.max(axis=1)
        row, column = np.divmod(at, columns.stop - columns.start)
        places[r, :, i, j] = np.where(best > LOWEST, (rows.start + row) * X.shape[3] + columns.start + column, -1)
    if argmaxes is not None:
        argmaxes[...] = places


def _bins(op: OpView, X: Array, rois: Array) -> Iterator[tuple[int, int, int, int, slice, slice]]:
    """Yield (r, image, i, j, rows, columns) of each bin (i, j) of region r that has elements."""
    number, boxes = regions(op, X, rois, 5)
    corners = rounded((boxes * np.float32(op.spatial_scale)).astype(np.float64))
    corners = np.clip(corners, -(2**31), 2**31 - 1).astype(np.int64)  # as int32 holds them
    sizes = np.maximum(corners[:, 2:] - corners[:, :2] + 1, 1)
    sides = [
        _side(corners[:, axis], sizes[:, axis], count, extent)
        for axis, count, extent in ((1, op.pooled_h, X.shape[2]), (0, op.pooled_w, X.shape[3]))
    ]
    for r, n in enumerate(number):
        for i, rows in enumerate(sides[0][r]):
            for j, columns in enumerate(sides[1][r]):
                if rows[0] < rows[1] and columns[0] < columns[1]:
                    yield r, int(n), i, j, slice(*rows), slice(*columns)


def _side(begin: Array, size: Array, count: int, extent: int) -> Array:
    """Return where bins begin and end along one axis of an image, (R, count, 2), cut off at its borders."""
    step = size.astype(np.float32) / np.float32(count)
    bins = np.arange(count + 1, dtype=np.float32) * step[:, None]
    ends = np.stack([np.floor(bins[:, :-1]), np.ceil(bins[:, 1:])], axis=2).astype(np.int64)
    return np.clip(ends + begin[:, None, None], 0, extent)


@ROI_POOL_GRADIENT.infer
def roi_pool_gradient_infer(
    op: OpView, X: TensorSpec, rois: TensorSpec, argmaxes: TensorSpec, dY: TensorSpec
) -> TensorSpec:
    del argmaxes  # the patterns say that it is as large as dY
    Y = pooled_dims(op, X, rois, (5,))
    if dY.dims is not None:
        relation = f"dY has the shape {show_dims(dY.dims)}, the regions of X have {show_dims(Y)}"
        op.require(shapes_agree(dY.dims, Y), relation)
    return TensorSpec(X.dims, X.dtype)


@ROI_POOL_GRADIENT.cost
def roi_pool_gradient_cost(
    op: OpView, X: TensorSpec, rois: TensorSpec, argmaxes: TensorSpec, dY: TensorSpec, dX: TensorSpec
) -> Cost:
    del op, X
    return streamed((rois, argmaxes, dY), (dX,), flops=dY.size)


@kernel(ROI_POOL_GRADIENT)
def roi_pool_gradient_kernel(op: OpView, X: Array, rois: Array, argmaxes: Array, dY: Array, dX: Array) -> None:
    number, _ = regions(op, X, rois, 5)
    pixels = X.shape[2] * X.shape[3]
    if (argmaxes >= pixels).any():
        place = [int(i) for i in np.argwhere(argmaxes >= pixels)[0]]
        raise op.error(NumericError, f"argmaxes{place} is {argmaxes[tuple(place)]}, images have {pixels} elements")
    dX[...] = 0
    r, c, i, j = np.nonzero(argmaxes >= 0)
    at = np.divmod(argmaxes[r, c, i, j], X.shape[3])
    np.add.at(dX, (number[r], c, *at), dY[r, c, i, j])
