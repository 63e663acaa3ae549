"""Places of images as images of their own, and back: SpaceToBatch, BatchToSpace.

Letters: N images, C channels, H and W height and width with the padding, b = `block_size`. With order NCHW

    image (N, C, H, W)    batch (b * b * N, C, H / b, W / b)

and batch[(i * b + j) * N + n, c, h, w] = image[n, c, h * b + i, w * b + j]. Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    arg,
    blob,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.nn.channel import CHANNELS_FIRST
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

ARGS = (
    arg("block_size", int, 2, minimum=1, doc="b"),
    arg("pad", int, 0, minimum=0, doc="how many zeros stand at each side of an image, part of H and W"),
    arg("pad_t", int, None, minimum=0, doc="how many of them stand above it, if not `pad`"),
    CHANNELS_FIRST,
)

SPACE_TO_BATCH = schema(
    "SpaceToBatch",
    "Y = X with zeros around it, b * b images for each one, of the elements that lie b apart.",
    inputs=[blob("X", FLOAT, "N C H W")],
    outputs=[blob("Y", FLOAT)],
    args=ARGS,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("SpaceToBatch", [[[[1.0, 2.0], [3.0, 4.0]]]])[:, 0, 0, 0]
    array([1., 2., 3., 4.], dtype=float32)
    """,
)
BATCH_TO_SPACE = schema(
    "BatchToSpace",
    "Y = one image of b * b of them, whose elements lie b apart, without the padding.",
    inputs=[blob("X", FLOAT, "N C H W")],
    outputs=[blob("Y", FLOAT)],
    args=ARGS,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("BatchToSpace", np.arange(4, dtype=np.float32).reshape(4, 1, 1, 1))
    array([[[[0., 1.],
             [2., 3.]]]], dtype=float32)
    """,
)


def pads(op: OpView) -> tuple[int, int]:
    """Return how many zeros stand above an image, and at each other side of it."""
    return op.pad if op.pad_t is None else op.pad_t, op.pad


@SPACE_TO_BATCH.infer
def space_to_batch_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return X
    (top, side), b = pads(op), op.block_size
    N, C, H, W = X.dims
    around = [None if n is None else n + more for n, more in ((H, top + side), (W, 2 * side))]
    relation = f"X has the shape {show_dims(X.dims)}, with its padding {show_dims(around)}"
    op.require(all(n is None or n % b == 0 for n in around), relation, f"both must be multiples of block_size = {b}")
    h, w = (None if n is None else n // b for n in around)
    return TensorSpec((None if N is None else b * b * N, C, h, w), X.dtype)


@BATCH_TO_SPACE.infer
def batch_to_space_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return X
    (top, side), b = pads(op), op.block_size
    N, C, h, w = X.dims
    op.require(N is None or N % (b * b) == 0, f"X has {N} images, they must be a multiple of block_size^2 = {b * b}")
    left = [None if n is None else n * b - less for n, less in ((h, top + side), (w, 2 * side))]
    relation = f"X has the shape {show_dims(X.dims)}, without its padding there are {show_dims(left)} elements"
    op.require(all(n is None or n >= 0 for n in left), relation, "pad is too large")
    return TensorSpec((None if N is None else N // (b * b), C, *left), X.dtype)


@SPACE_TO_BATCH.cost
@BATCH_TO_SPACE.cost
def space_to_batch_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,))


@SPACE_TO_BATCH.gradient
def space_to_batch_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("BatchToSpace", [g.dY], [g.dX])


@BATCH_TO_SPACE.gradient
def batch_to_space_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("SpaceToBatch", [g.dY], [g.dX])


@kernel(SPACE_TO_BATCH)
def space_to_batch(op: OpView, X: Array, Y: Array) -> None:
    (top, side), b = pads(op), op.block_size
    _, C, h, w = Y.shape
    padded = np.pad(X, ((0, 0), (0, 0), (top, side), (side, side))) if top or side else X
    cells = padded.reshape(len(X), C, h, b, w, b)
    Y.reshape(b, b, len(X), C, h, w)[...] = cells.transpose(3, 5, 0, 1, 2, 4)


@kernel(BATCH_TO_SPACE)
def batch_to_space(op: OpView, X: Array, Y: Array) -> None:
    (top, side), b = pads(op), op.block_size
    _, C, h, w = X.shape
    cells = X.reshape(b, b, len(Y), C, h, w).transpose(2, 3, 4, 0, 5, 1)  # (N, C, h, b, w, b)
    whole = cells.reshape(len(Y), C, h * b, w * b)
    Y[...] = whole[:, :, top : top + Y.shape[2], side : side + Y.shape[3]]
