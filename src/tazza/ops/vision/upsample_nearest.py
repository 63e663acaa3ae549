"""Images in which each pixel is repeated: UpsampleNearest of Detectron's module.

Letters: H and W height and width, s the scale, S what stands before them, images and channels.

    X, dX (*S, H, W)    Y, dY (*S, H*s, W*s)

Source: Caffe2, modules/detectron.
"""

from __future__ import annotations

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
from tazza.ops.shape.axis import shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

SCALE = arg("scale", int, 2, minimum=1, doc="s: how often a pixel is repeated in either direction")

UPSAMPLE_NEAREST = schema(
    "UpsampleNearest",
    "Y[..., h, w] = X[..., h // s, w // s].",
    inputs=[blob("X", FLOAT, doc="(*S, H, W), as a rule (N, C, H, W)")],
    outputs=[blob("Y", "X", doc="(*S, H*s, W*s)")],
    args=[SCALE],
    effects=Effects.PURE,
    source="Caffe2, modules/detectron",
    example="""
    >>> run("UpsampleNearest", [[[1.0, 2.0]]])
    array([[[1., 1., 2., 2.],
            [1., 1., 2., 2.]]], dtype=float32)
    """,
)
UPSAMPLE_NEAREST_GRADIENT = schema(
    "UpsampleNearestGradient",
    "dX[..., h, w] = sum of dY over the s * s pixels of Y that X[..., h, w] became.",
    inputs=[
        blob("X", FLOAT, role=Role.SHAPE, doc="its shape counts"),
        blob("dY", "X", role=Role.DATA, doc="(*S, H*s, W*s)"),
    ],
    outputs=[blob("dX", like="X")],
    args=[SCALE],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("UpsampleNearestGradient", [[[0.0]]], [[[1.0, 2.0], [3.0, 4.0]]])
    array([[[10.]]], dtype=float32)
    """,
)
UPSAMPLE_NEAREST.batched("X")


@UPSAMPLE_NEAREST.infer
def upsample_nearest_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return X
    relation = f"X has {len(X.dims)} dimensions {show_dims(X.dims)}, images have height and width"
    op.require(len(X.dims) >= 2, relation)
    larger = (None if extent is None else extent * op.scale for extent in X.dims[-2:])
    return TensorSpec((*X.dims[:-2], *larger), X.dtype)


@UPSAMPLE_NEAREST.gradient
def upsample_nearest_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("UpsampleNearestGradient", [g.like("X"), g.dY], [g.dX])


@kernel(UPSAMPLE_NEAREST)
def upsample_nearest(op: OpView, X: Array, Y: Array) -> None:
    Y[...] = X.repeat(op.scale, axis=-2).repeat(op.scale, axis=-1)


@UPSAMPLE_NEAREST_GRADIENT.infer
def upsample_nearest_gradient_infer(op: OpView, X: TensorSpec, dY: TensorSpec) -> TensorSpec:
    Y = upsample_nearest_infer(op, X)
    if Y.dims is not None and dY.dims is not None:
        relation = f"dY has the shape {show_dims(dY.dims)}, Y has {show_dims(Y.dims)}"
        op.require(shapes_agree(dY.dims, Y.dims), relation)
    return X


@UPSAMPLE_NEAREST_GRADIENT.cost
def upsample_nearest_gradient_cost(op: OpView, X: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op, X
    return streamed((dY,), (dX,), flops=dY.size)


@kernel(UPSAMPLE_NEAREST_GRADIENT)
def upsample_nearest_gradient_kernel(op: OpView, dY: Array, dX: Array) -> None:
    *S, H, W = dX.shape
    dX[...] = dY.reshape(*S, H, op.scale, W, op.scale).sum(axis=(-3, -1))
