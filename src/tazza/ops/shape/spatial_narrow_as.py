"""Images cut to the height and width of others: SpatialNarrowAs of Detectron's module.

Letters: N images, C channels, H and W height and width, h and w those of B, at most as large; what is right and below
is left out.

    A, dA (N, C, H, W)    B (N, C, h, w) or (N, h, w)    Y, dY (N, C, h, w)

Source: Caffe2, modules/detectron.
"""

from __future__ import annotations

from tazza.operator import (
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Role,
    blob,
    ends,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

NARROWED = frozenset({DataType.FLOAT, DataType.INT32})
B = blob("B", None, role=Role.SHAPE, doc="(N, C, h, w) or (N, h, w), of any type: its shape counts")

SPATIAL_NARROW_AS = schema(
    "SpatialNarrowAs",
    "Y = A[:, :, :h, :w], where h and w are height and width of B.",
    inputs=[blob("A", NARROWED, "N C H W"), B],
    outputs=[blob("Y", "A", doc="(N, C, h, w)")],
    effects=Effects.PURE,
    source="Caffe2, modules/detectron",
    example="""
    >>> run("SpatialNarrowAs", np.arange(6, dtype="f").reshape(1, 1, 2, 3), np.zeros((1, 2, 2)))
    array([[[[0., 1.],
             [3., 4.]]]], dtype=float32)
    """,
)
SPATIAL_NARROW_AS_GRADIENT = schema(
    "SpatialNarrowAsGradient",
    "dA = dY where Y was cut out, else 0.",
    inputs=[
        blob("A", NARROWED, "N C H W", role=Role.SHAPE, doc="its shape counts"),
        B,
        blob("dY", "A", role=Role.DATA, doc="(N, C, h, w)"),
    ],
    outputs=[blob("dA", like="A")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("SpatialNarrowAsGradient", np.zeros((1, 1, 1, 3), "f"), np.zeros((1, 1, 2)), [[[[5.0, 7.0]]]])
    array([[[[5., 7., 0.]]]], dtype=float32)
    """,
)


@SPATIAL_NARROW_AS.infer
def spatial_narrow_as_infer(op: OpView, A: TensorSpec, B: TensorSpec) -> TensorSpec:
    if A.dims is None or B.dims is None:
        return TensorSpec(None, A.dtype)
    relation = f"A has the shape {show_dims(A.dims)}, B has {show_dims(B.dims)}"
    op.require(len(B.dims) in (3, 4), relation, "B must be (N, C, h, w) or (N, h, w)")
    *outer, h, w = B.dims
    op.require(shapes_agree(outer, A.dims[: len(outer)]), relation, "both must have the same N, and C")
    smaller = all(
        small is None or large is None or small <= large for small, large in zip((h, w), A.dims[2:], strict=True)
    )
    op.require(smaller, relation, "B may be no higher and no wider than A")
    return TensorSpec((*A.dims[:2], h, w), A.dtype)


@SPATIAL_NARROW_AS.cost
def spatial_narrow_as_cost(op: OpView, A: TensorSpec, B: TensorSpec, Y: TensorSpec) -> Cost:
    del op, A, B
    return streamed((Y,), (Y,))


@SPATIAL_NARROW_AS.gradient
def spatial_narrow_as_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("SpatialNarrowAsGradient", [g.like("A"), g.like("B"), g.dY], [g.dA])


@kernel(SPATIAL_NARROW_AS)
def spatial_narrow_as(A: Array, Y: Array) -> None:
    Y[...] = A[:, :, : Y.shape[2], : Y.shape[3]]


@SPATIAL_NARROW_AS_GRADIENT.infer
def spatial_narrow_as_gradient_infer(op: OpView, A: TensorSpec, B: TensorSpec, dY: TensorSpec) -> TensorSpec:
    Y = spatial_narrow_as_infer(op, A, B)
    if Y.dims is not None and dY.dims is not None:
        relation = f"dY has the shape {show_dims(dY.dims)}, Y has {show_dims(Y.dims)}"
        op.require(shapes_agree(dY.dims, Y.dims), relation)
    return A


@SPATIAL_NARROW_AS_GRADIENT.cost
def spatial_narrow_as_gradient_cost(op: OpView, A: TensorSpec, B: TensorSpec, dY: TensorSpec, dA: TensorSpec) -> Cost:
    del op, A, B
    return streamed((dY,), (dA,))


@kernel(SPATIAL_NARROW_AS_GRADIENT)
def spatial_narrow_as_gradient_kernel(dY: Array, dA: Array) -> None:
    dA[...] = 0
    dA[:, :, : dY.shape[2], : dY.shape[3]] = dY
