"""Some of the dot products of all pairs of vectors: ConcatBatchMatMulBatchGatherOp.

Letters: B rows, E the elements of each; n blobs X0, X1 ... of one shape (B, E), where E may be spread over several
dimensions; I pairs, of any shape. In each row the n vectors have n * n dot products, a matrix; Y picks I of them.

Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, INDEX, Array, Cost, Effects, OpView, Role, blob, kernel, not_written, schema
from tazza.ops.sparse.segment import check_rows
from tazza.tensor import DataType, TensorSpec

PAIR_PRODUCT = schema(
    "ConcatBatchMatMulBatchGatherOp",
    "Y[b, i] = the dot product of Xj[b] and Xk[b], where n * j + k = pairs[i].",
    inputs=[
        blob("pairs", INDEX, "*I", role=Role.INDEX, doc="places in a matrix (n, n), in [0, n * n)"),
        blob("X", FLOAT, "B *S", variadic=True, role=Role.DATA, doc="(B, E), all of one shape"),
    ],
    outputs=[blob("Y", FLOAT, "B *I")],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none"),
    source="Caffe2",
    example="""
    >>> run("ConcatBatchMatMulBatchGatherOp", np.array([0, 1], "i"), [[1.0, 2.0]], [[10.0, 20.0]])
    array([[ 5., 50.]], dtype=float32)
    """,
)


@PAIR_PRODUCT.infer
def pair_product_infer(op: OpView, pairs: TensorSpec, X: tuple[TensorSpec, ...]) -> TensorSpec:
    del op
    rows = next((spec.dims[0] for spec in X if spec.dims is not None), None)
    return TensorSpec(None if pairs.dims is None else (rows, *pairs.dims), DataType.FLOAT)


@PAIR_PRODUCT.cost
def pair_product_cost(op: OpView, pairs: TensorSpec, X: tuple[TensorSpec, ...], Y: TensorSpec) -> Cost:
    del op
    return Cost(2 * len(X) ** 2 * X[0].size, pairs.nbytes + sum(spec.nbytes for spec in X), Y.nbytes)


@kernel(PAIR_PRODUCT)
def pair_product(op: OpView, pairs: Array, X: tuple[Array, ...], Y: Array) -> None:
    check_rows(op, pairs, len(X) ** 2, "pairs")
    B = len(X[0])
    vectors = np.stack([x.reshape(B, x[:1].size if B else 0) for x in X], axis=1)  # (B, n, E)
    products = vectors @ vectors.transpose(0, 2, 1)  # (B, n, n)
    Y[...] = products.reshape(B, len(X) ** 2)[:, pairs]
