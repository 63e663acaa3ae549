"""Gated linear units: Glu.

X has 2 K elements along `dim`, the first K of which are A, the others B: X is (P..., 2 K, Q...), A, B and Y are
(P..., K, Q...).
"""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    OpView,
    arg,
    blob,
    kernel,
    not_written,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import cut
from tazza.tensor import TensorSpec

GLU = schema(
    "Glu",
    "Y = A * sigmoid(B), for the two halves A and B of X along `dim`.",
    inputs=[blob("X", FLOAT, doc="(P..., 2 K, Q...)")],
    outputs=[blob("Y", "X", doc="(P..., K, Q...)")],
    args=[arg("dim", int, -1, minimum=-1, doc="the axis that is halved; -1 for the last one")],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none"),
    source="Dauphin, Fan, Auli, Grangier 2016, arXiv 1612.08083",
    example="""
    >>> run("Glu", [[1.0, 2.0, 0.0, 100.0]])
    array([[0.5, 2. ]], dtype=float32)
    """,
)


@GLU.infer
def glu_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return X
    ahead, (whole, *behind) = cut(op, "dim", "X", X.dims)
    relation = f"X has the shape {show_dims(X.dims)}, with {whole} elements along dim = {op.dim}"
    op.require(whole is None or whole % 2 == 0, relation, "they must be an even number")
    return TensorSpec((*ahead, None if whole is None else whole // 2, *behind), X.dtype)


GLU.batched("X", when=lambda op: op.dim > 0)


@GLU.cost
def glu_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,), flops=4 * Y.size)


@kernel(GLU)
def glu(op: OpView, X: Array, Y: Array) -> None:
    A, B = np.split(X, 2, axis=op.dim)
    with np.errstate(over="ignore"):
        np.divide(A, 1 + np.exp(-B), out=Y)
