"""Pooling that tells which element is the largest: MaxPoolWithIndex, of images in the order NCHW.

Letters: N images, C channels, H and W height and width, h and w those of Y; P = N * C * h * w.

    X, dX (N, C, H, W)    Y, dY (N, C, h, w)    Index (P), places y * W + x in a channel

How h and w follow from H and W: see `ops.window`. The first of several equal ones is the largest, NaN never; a window
that has nothing of the image, or nothing above the least finite number, gives this number and -1. Numbers of half
precision are compared as they are.

Source: Caffe2.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import (
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
)
from tazza.ops.nn.channel import CHANNELS_FIRST
from tazza.ops.nn.pool import clipped_pool_window, pool_window
from tazza.ops.nn.window import LOWEST, Window, half_pairs, window_args
from tazza.ops.shape.axis import agree, product, shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

POOLED = frozenset({DataType.FLOAT, DataType.FLOAT16})

INDEXED_ARGS = (
    *(spec for spec in window_args(least_kernel=0) if spec.name != "order"),
    arg("global_pooling", bool, False, doc="one window, the whole image; kernel and legacy_pad have no effect then"),
    CHANNELS_FIRST,
)

MAX_POOL_WITH_INDEX = schema(
    "MaxPoolWithIndex",
    "Y = the largest of each window of X, Index = where in its channel it stands.",
    inputs=[blob("X", POOLED, "N C H W")],
    outputs=[blob("Y", "X", doc="(N, C, h, w)"), blob("Index", DataType.INT32, doc="(P)")],
    args=INDEXED_ARGS,
    effects=Effects.PURE,
    ineffective=half_pairs,
    source="Dumoulin, Visin 2016, arXiv 1603.07285; Caffe2",
    example="""
    >>> run("MaxPoolWithIndex", np.arange(9, dtype="f").reshape(1, 1, 3, 3), kernel=2)
    (array([[[[4., 5.],
             [7., 8.]]]], dtype=float32), array([4, 5, 7, 8], dtype=int32))
    """,
)
MAX_POOL_WITH_INDEX_GRADIENT = schema(
    "MaxPoolWithIndexGradient",
    "dX = dY at the places of Index, summed over the windows that have them.",
    inputs=[
        blob("X", POOLED, "N C H W", role=Role.SHAPE, doc="its shape counts"),
        blob("dY", "X", role=Role.DATA, doc="(N, C, h, w)"),
        blob("Index", DataType.INT32, role=Role.INDEX, doc="(P)"),
    ],
    outputs=[blob("dX", like="X")],
    args=INDEXED_ARGS,
    effects=Effects.PURE,
    ineffective=half_pairs,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> X, dY = np.zeros((1, 1, 2, 3), "f"), np.array([[[[10.0, 20.0]]]], "f")
    >>> run("MaxPoolWithIndexGradient", X, dY, [4, 4], kernel=2).reshape(2, 3)
    array([[ 0.,  0.,  0.],
           [ 0., 30.,  0.]], dtype=float32)
    """,
)


def indexed_validate(op: OpView) -> None:
    """Refuse dilation, and kernels of other than two dimensions."""
    if op.global_pooling:
        return
    window = Window.of(op)
    if set(window.dilation) != {1}:
        raise op.error(ArgumentError, f"pooling takes no dilation, it is {list(window.dilation)}")
    if window.rank != 2:
        raise op.error(ArgumentError, f"the kernel {list(window.kernel)} has {window.rank} dimensions, images have 2")


MAX_POOL_WITH_INDEX.validate(indexed_validate)
MAX_POOL_WITH_INDEX_GRADIENT.validate(indexed_validate)


@MAX_POOL_WITH_INDEX.infer
def max_pool_with_index_infer(op: OpView, X: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    if X.dims is None:
        return TensorSpec(None, X.dtype), TensorSpec((None,), DataType.INT32)
    shape = (*X.dims[:2], *pool_window(op, X.dims)[1])
    return TensorSpec(shape, X.dtype), TensorSpec((product(shape),), DataType.INT32)


@MAX_POOL_WITH_INDEX.cost
def max_pool_with_index_cost(op: OpView, X: TensorSpec, Y: TensorSpec, Index: TensorSpec) -> Cost:
    return Cost(Y.size * clipped_pool_window(op, X.shape).size, X.nbytes, Y.nbytes + Index.nbytes)


@MAX_POOL_WITH_INDEX.gradient
def max_pool_with_index_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("MaxPoolWithIndexGradient", [g.like("X"), g.dY, g.Index], [g.dX])


@kernel(MAX_POOL_WITH_INDEX)
def max_pool_with_index(op: OpView, X: Array, Y: Array, Index: Array) -> None:
    """Kernel element by kernel element: what is above all before it takes their place."""
    window, out = _windows(op, X.shape)
    at = _places(X.shape)
    largest = np.full(Y.shape, LOWEST, np.result_type(X.dtype, np.float32))
    found = np.full(Y.shape, -1, np.int32)
    for _, windows, places in window.all_touches(X.shape[2:], out):
        here, seen = (..., *windows), X[(..., *places)]
        above = seen > largest[here]
        largest[here] = np.where(above, seen, largest[here])
        found[here] = np.where(above, at[places], found[here])
    Y[...], Index[...] = largest, found.reshape(-1)


@MAX_POOL_WITH_INDEX_GRADIENT.infer
def max_pool_with_index_gradient_infer(op: OpView, X: TensorSpec, dY: TensorSpec, Index: TensorSpec) -> TensorSpec:
    Y, _ = max_pool_with_index_infer(op, X)
    if Y.dims is not None and dY.dims is not None:
        relation = f"dY has the shape {show_dims(dY.dims)}, pooling X gives {show_dims(Y.dims)}"
        op.require(shapes_agree(dY.dims, Y.dims), relation)
    if Y.dims is not None and Index.dims is not None:
        wanted, found = product(Y.dims), product(Index.dims)
        op.require(agree(wanted, found), f"Index has {found} elements {show_dims(Index.dims)}, Y has {wanted}")
    return X


@MAX_POOL_WITH_INDEX_GRADIENT.cost
def max_pool_with_index_gradient_cost(
    op: OpView, X: TensorSpec, dY: TensorSpec, Index: TensorSpec, dX: TensorSpec
) -> Cost:
    flops = 2 * dY.size * clipped_pool_window(op, X.shape).size
    return Cost(flops, dY.nbytes + Index.nbytes, dX.nbytes)


@kernel(MAX_POOL_WITH_INDEX_GRADIENT)
def max_pool_with_index_gradient_kernel(op: OpView, dY: Array, Index: Array, dX: Array) -> None:
    window, out = _windows(op, dX.shape)
    at, index = _places(dX.shape), Index.reshape(dY.shape)
    total = np.zeros(dX.shape, np.result_type(dX.dtype, np.float32))
    for _, windows, places in window.all_touches(dX.shape[2:], out):
        here, into = (..., *windows), total[(..., *places)]
        into += np.where(index[here] == at[places], dY[here], 0)
    dX[...] = total


def _windows(op: OpView, X: tuple[int, ...]) -> tuple[Window, tuple[int, ...]]:
    window, out = pool_window(op, X)
    return window, cast("tuple[int, ...]", out)


def _places(X: tuple[int, ...]) -> Array:
    """Return (H, W): y * W + x."""
    _, _, H, W = X
    places: Array = np.arange(H * W, dtype=np.int32)
    return places.reshape(H, W)
