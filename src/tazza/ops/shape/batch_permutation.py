"""Rows in another order: BatchPermutation. X, Y and their gradients are (N, *S). Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
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
    streamed,
)
from tazza.ops.sparse.segment import check_rows
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

INDICES = blob("indices", DataType.INT32, "N", role=Role.INDEX, doc="rows of X, each in [0, N)")

BATCH_PERMUTATION = schema(
    "BatchPermutation",
    "Y[n] = X[indices[n]]; a row may come up several times.",
    inputs=[blob("X", FLOAT, "N *S"), INDICES],
    outputs=[blob("Y", like="X")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("BatchPermutation", [5.0, 6.0, 7.0], [2, 0, 1])
    array([7., 5., 6.], dtype=float32)
    """,
)
BATCH_PERMUTATION_GRADIENT = schema(
    "BatchPermutationGradient",
    "dX[m] = the sum of all dY[n] for which indices[n] = m.",
    inputs=[INDICES, blob("dY", FLOAT, "N *S", role=Role.DATA)],
    outputs=[blob("dX", like="dY")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("BatchPermutationGradient", [2, 0, 1], [7.0, 5.0, 6.0])
    array([5., 6., 7.], dtype=float32)
    """,
)


@BATCH_PERMUTATION.cost
def batch_permutation_cost(op: OpView, X: TensorSpec, indices: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X, indices), (Y,))


@BATCH_PERMUTATION_GRADIENT.cost
def batch_permutation_gradient_cost(op: OpView, indices: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op
    return streamed((indices, dY), (dX,), flops=dY.size)


@BATCH_PERMUTATION.gradient
def batch_permutation_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("BatchPermutationGradient", [g.indices, g.dY], [g.dX])


@kernel(BATCH_PERMUTATION)
def batch_permutation(op: OpView, X: Array, indices: Array, Y: Array) -> None:
    check_rows(op, indices, len(X), "indices")
    np.take(X, indices, axis=0, out=Y)


@kernel(BATCH_PERMUTATION_GRADIENT)
def batch_permutation_gradient_kernel(op: OpView, indices: Array, dY: Array, dX: Array) -> None:
    check_rows(op, indices, len(dX), "indices")
    dX[...] = 0
    np.add.at(dX, indices, dY)
