"""Zeros behind the ends of sequences side by side: VariableLengthSequencePadding.

Letters: N sequences of `lengths` L[n] side by side, X (T, N, *S): step t of sequence n is X[t, n]. Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpView, Role, blob, kernel, not_written, schema
from tazza.ops.shape.axis import agree, product, require_within
from tazza.tensor import DataType, TensorSpec

SEQUENCE_PADDING = schema(
    "VariableLengthSequencePadding",
    "Y[t, n] = X[t, n] for t < L[n], else 0.",
    inputs=[
        blob("X", FLOAT, "T N D *S"),
        blob("lengths", DataType.INT32, role=Role.INDEX, doc="N, in any shape: steps of each sequence, at most T"),
    ],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Caffe2",
    example="""
    >>> run("VariableLengthSequencePadding", [[[1.0], [2.0]], [[3.0], [4.0]]], [1, 2])[..., 0]
    array([[1., 2.],
           [0., 4.]], dtype=float32)
    """,
)


@SEQUENCE_PADDING.infer
def sequence_padding_infer(op: OpView, X: TensorSpec, lengths: TensorSpec) -> TensorSpec:
    if X.dims is not None and lengths.dims is not None:
        count = product(lengths.dims)
        op.require(agree(count, X.dims[1]), f"there are {count} lengths, and X has N = {X.dims[1]} sequences")
    return X


@SEQUENCE_PADDING.cost
def sequence_padding_cost(op: OpView, X: TensorSpec, lengths: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(0, X.nbytes + lengths.nbytes, Y.nbytes)


@kernel(SEQUENCE_PADDING)
def sequence_padding(op: OpView, X: Array, lengths: Array, Y: Array) -> None:
    require_within(op, "lengths", lengths, 0, len(X) + 1, "T is the most")
    np.copyto(Y, X)
    Y[np.arange(len(X))[:, None] >= lengths.reshape(-1)] = 0
