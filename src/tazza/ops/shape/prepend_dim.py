"""The first axis as two, and two as one: PrependDim, MergeDim. The elements stay in their order. Source: Caffe2."""

from __future__ import annotations

from tazza.operator import (
    REQUIRED,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    arg,
    blob,
    kernel,
    not_written,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import product
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

PREPEND_DIM = schema(
    "PrependDim",
    "Y = X (N, *S) in the shape (dim_size, N / dim_size, *S).",
    inputs=[blob("X", None, "N *S")],
    outputs=[blob("Y", "X")],
    args=[arg("dim_size", int, REQUIRED, minimum=1, doc="the first extent of Y, by which N is divided")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("PrependDim", [1, 2, 3, 4], dim_size=2)
    array([[1, 2],
           [3, 4]], dtype=int32)
    """,
)
MERGE_DIM = schema(
    "MergeDim",
    "Y = X (M, N, *S) in the shape (M * N, *S).",
    inputs=[blob("X", None, "M N *S")],
    outputs=[blob("Y", "X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none; that of Reshape is there"),
    source="Caffe2",
    example="""
    >>> run("MergeDim", [[1, 2], [3, 4]])
    array([1, 2, 3, 4], dtype=int32)
    """,
)


@PREPEND_DIM.infer
def prepend_dim_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return X
    first = X.dims[0]
    relation = f"X has the shape {show_dims(X.dims)}, dim_size = {op.dim_size}"
    op.require(first is None or first % op.dim_size == 0, relation, "the first extent must be a multiple")
    return TensorSpec((op.dim_size, None if first is None else first // op.dim_size, *X.dims[1:]), X.dtype)


@MERGE_DIM.infer
def merge_dim_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    del op
    return TensorSpec(None if X.dims is None else (product(X.dims[:2]), *X.dims[2:]), X.dtype)


@PREPEND_DIM.cost
@MERGE_DIM.cost
def merge_dim_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,))


def prepend_dim_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("MergeDim", [g.dY], [g.dX])


PREPEND_DIM.gradient(prepend_dim_gradient, copy_arguments=False)


@kernel(PREPEND_DIM)
@kernel(MERGE_DIM)
def merge_dim(X: Array, Y: Array) -> None:
    Y[...] = X.reshape(Y.shape)
