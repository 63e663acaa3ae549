"""The largest elements of each row, of each row another number: FlexibleTopK.

Letters: R rows of n elements, X (lead..., n) with R the product of lead...; k[r] how many of row r are taken; T the sum
of all k. V and P are (T): the rows lie one behind the other. Equal elements stand in the order of X, NaN behind all
others.

Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    DynamicOutput,
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
from tazza.ops.shape.axis import require_as_many, require_within
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

COUNTS = blob("K", DataType.INT64, role=Role.INDEX, doc="R elements of any shape, each in [1, n]")

FLEXIBLE_TOP_K = schema(
    "FlexibleTopK",
    "V = the k[r] largest elements of each row of X, in falling order; P = their places in the row.",
    inputs=[blob("X", FLOAT, doc="(lead..., n)"), COUNTS],
    outputs=[blob("V", "X", dynamic=True), blob("P", DataType.INT64, dynamic=True)],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("FlexibleTopK", [[1.0, 5.0, 3.0], [2.0, 2.0, 0.0]], np.array([2, 1]), outputs=2)
    (array([5., 3., 2.], dtype=float32), array([1, 2, 0]))
    """,
)
FLEXIBLE_TOP_K_GRADIENT = schema(
    "FlexibleTopKGradient",
    "dX = dV where P says that V stood in X, else 0.",
    inputs=[
        blob("X", role=Role.SHAPE, doc="of any type: its shape counts alone"),
        COUNTS,
        blob("dV", FLOAT, "T", doc="what is behind the sum of K is not read"),
        blob("P", DataType.INT64, "T", role=Role.INDEX),
    ],
    outputs=[blob("dX", "dV")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> X, K, P = np.zeros((2, 3), "f"), np.array([2, 1]), np.array([1, 2, 0])
    >>> run("FlexibleTopKGradient", X, K, [7.0, 8.0, 9.0], P)
    array([[0., 7., 8.],
           [9., 0., 0.]], dtype=float32)
    """,
)


def require_counts(op: OpView, X: TensorSpec, K: TensorSpec) -> None:
    """Check that there is a number for each row of X, as far as shapes are known."""
    if X.dims is not None:
        op.require(len(X.dims) > 0, "X has rank 0, it needs rows: (lead..., n)")
        require_as_many(op, "the rows of X", X.dims[:-1], K=K.dims)


def chosen(op: OpView, X: Array, K: Array) -> tuple[Array, Array]:
    """Return a grid (R, n) that is true at the first k[r] places of each row, and k.

    Raises:
        NumericError: a row has not so many elements.
    """
    k, n = K.reshape(-1, 1), int(X.shape[-1])
    require_within(op, "K", K, 1, n + 1, f"a row of X has {n} elements")
    places: Array = np.arange(n)
    return places < k, k


@FLEXIBLE_TOP_K.infer
def flexible_top_k_infer(op: OpView, X: TensorSpec, K: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    require_counts(op, X, K)
    return TensorSpec((None,), X.dtype), TensorSpec((None,), DataType.INT64)


@FLEXIBLE_TOP_K.cost
def flexible_top_k_cost(op: OpView, X: TensorSpec, K: TensorSpec, V: TensorSpec, P: TensorSpec) -> Cost:
    del op
    return streamed((X, K), (V, P), flops=X.size * X.shape[-1].bit_length())


@FLEXIBLE_TOP_K.gradient
def flexible_top_k_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("FlexibleTopKGradient", [g.like("X"), g.K, g.dV, g.P], [g.dX])


@kernel(FLEXIBLE_TOP_K)
def flexible_top_k(op: OpView, X: Array, K: Array, V: DynamicOutput, P: DynamicOutput) -> None:
    places, k = chosen(op, X, K)
    x = X.reshape(places.shape)
    order = np.argsort(-x, axis=1, kind="stable")
    total = (int(k.sum()),)
    V.allocate(total)[...] = np.take_along_axis(x, order, axis=1)[places]
    P.allocate(total)[...] = order[places]


@FLEXIBLE_TOP_K_GRADIENT.infer
def flexible_top_k_gradient_infer(
    op: OpView, X: TensorSpec, K: TensorSpec, dV: TensorSpec, P: TensorSpec
) -> TensorSpec:
    require_counts(op, X, K)
    return TensorSpec(X.dims, dV.dtype)


@FLEXIBLE_TOP_K_GRADIENT.cost
def flexible_top_k_gradient_cost(
    op: OpView, X: TensorSpec, K: TensorSpec, dV: TensorSpec, P: TensorSpec, dX: TensorSpec
) -> Cost:
    del op, X
    return streamed((K, dV, P), (dX,))


@kernel(FLEXIBLE_TOP_K_GRADIENT)
def flexible_top_k_gradient_kernel(op: OpView, K: Array, dV: Array, P: Array, dX: Array) -> None:
    places, k = chosen(op, dX, K)
    total, n = int(k.sum()), dX.shape[-1]
    op.require(dV.size >= total, f"dV has {dV.size} elements, the sum of K is {total}")
    require_within(op, "P", P[:total], 0, n, "places count from 0")
    rows = np.repeat(np.arange(len(places)), k.reshape(-1))
    dX[...] = 0
    dX.reshape(places.shape)[rows, P[:total]] = dV[:total]
