"""What the order of documents lacks of the best one, by its discounted gains: LambdaRankNdcg.

N scores y and relevances r belong to M sessions, one behind the other. In a session document i has the gain
G[i] = 2^r[i], or r[i], and where its score puts it at rank k, from 0, the discount D[i] = 1 / log2(k + 2):

    DCG = sum of G[i] D[i],    IDCG the same with documents in the order of r,    Z = 1 / max(IDCG, 1e-5), or 1
    loss = Z * sum over pairs i, j of |G[i] - G[j]| |D[i] - D[j]| log(1 + exp(-s (y[i] - y[j]))),    or Z (IDCG - DCG)
    lambda[i] = -Z * sum over j of |G[i] - G[j]| |D[i] - D[j]| s sigmoid(-s (y[i] - y[j]))

s is the sign of r[i] - r[j]. The sum over pairs has each of them twice, and lambda, as in Caffe2, once: it is half the
derivative of the loss where ranks stay. Equal scores, and equal relevances, rank by index.

Source: Burges 2010, From RankNet to LambdaRank to LambdaMART, sections 3 and 4; Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import NumericError
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
)
from tazza.ops.shape.axis import agree, product, require_as_many
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

IDCG_MIN = 1e-5
"""An ideal sum below counts as this much where it divides."""

ARGS = (
    arg("use_ndcg_as_loss", bool, False, doc="Z (IDCG - DCG); lambdas stay what they are"),
    arg("use_idcg_normalization", bool, True, doc="Z divides by IDCG"),
    arg("use_exp_gain", bool, True, doc="G = 2^r; else r, with use_ndcg_as_loss alone"),
)
LENGTHS = blob("lengths", DataType.INT32, role=Role.INDEX, doc="M numbers: documents of each session")

LAMBDA_RANK_NDCG = schema(
    "LambdaRankNdcg",
    """loss[m] = what the order of the scores in session m lacks; lambdas = the gradient of y, before that of the loss.

    With fewer documents in all sessions than N, lambdas of those behind are 0.""",
    inputs=[
        blob("y", FLOAT, "N", doc="scores"),
        blob("r", "y", role=Role.DATA, doc="N relevances"),
        LENGTHS,
    ],
    outputs=[blob("loss", "y", doc="(M)"), blob("lambdas", like="y")],
    args=ARGS,
    effects=Effects.PURE,
    source="Burges 2010, sections 3 and 4; Caffe2",
    example="""
    >>> loss, lambdas = run("LambdaRankNdcg", [3.0, 3.0], [1.0, 0.0], [2], use_ndcg_as_loss=True)
    >>> loss, lambdas.round(4)
    (array([0.], dtype=float32), array([-0.0701,  0.0701], dtype=float32))
    """,
)
LAMBDA_RANK_NDCG_GRADIENT = schema(
    "LambdaRankNdcgGradient",
    "dy = lambdas * dloss[m] for the documents of session m, 0 for those behind all sessions.",
    inputs=[
        blob("y", None, "N", role=Role.SHAPE),
        LENGTHS,
        blob("lambdas", FLOAT, role=Role.DATA, doc="N"),
        blob("dloss", "lambdas", role=Role.DATA, doc="M"),
    ],
    outputs=[blob("dy", "lambdas", "N")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("LambdaRankNdcgGradient", [0.0, 0.0, 0.0], [2, 1], [1.0, 2.0, 3.0], [5.0, 7.0])
    array([ 5., 10., 21.], dtype=float32)
    """,
)


def session_ends(op: OpView, lengths: Array, N: int) -> Array:
    """Return where each session ends.

    Raises:
        NumericError: a length is negative, or there are fewer documents than sessions have.
    """
    flat = lengths.reshape(-1)
    ends = np.cumsum(flat, dtype=np.int64)
    wrong = (flat < 0) | (ends > N)
    if wrong.any():
        m = int(wrong.argmax())
        raise op.error(NumericError, f"session {m} has {flat[m]} documents and ends at {ends[m]}, there are {N}")
    return ends


def rank_discounts(scores: Array) -> Array:
    """Return 1 / log2(k + 2) for each element, which is the k-th largest."""
    found = np.empty(scores.shape, scores.dtype)
    found[np.argsort(-scores, kind="stable")] = 1 / np.log2(np.arange(scores.size) + 2)
    return found


def of_session(op: OpView, y: Array, r: Array) -> tuple[float, Array]:
    """Return the loss of one session, and its lambdas."""
    exponential = op.use_exp_gain or not op.use_ndcg_as_loss
    gains, discounts = np.exp2(r) if exponential else r, rank_discounts(y)
    ideal = (gains * rank_discounts(r)).sum()
    Z = 1 / max(ideal, IDCG_MIN) if op.use_idcg_normalization else 1
    weights = Z * np.abs(np.subtract.outer(gains, gains) * np.subtract.outer(discounts, discounts))
    signs = np.sign(np.subtract.outer(r, r))
    wrong = -signs * np.subtract.outer(y, y)
    lambdas = -(weights * signs / (1 + np.exp(-wrong))).sum(axis=1)
    lost = Z * (ideal - (gains * discounts).sum()) if op.use_ndcg_as_loss else (weights * np.logaddexp(0, wrong)).sum()
    return lost, lambdas


@LAMBDA_RANK_NDCG.infer
def lambda_rank_ndcg_infer(
    op: OpView, y: TensorSpec, r: TensorSpec, lengths: TensorSpec
) -> tuple[TensorSpec, TensorSpec]:
    require_as_many(op, "y", y.dims, r=r.dims)
    return TensorSpec((None if lengths.dims is None else product(lengths.dims),), y.dtype), y


@LAMBDA_RANK_NDCG.cost
def lambda_rank_ndcg_cost(
    op: OpView, y: TensorSpec, r: TensorSpec, lengths: TensorSpec, loss: TensorSpec, lambdas: TensorSpec
) -> Cost:
    del op
    pairs = y.size**2 // max(lengths.size, 1)
    return Cost(30 * pairs, y.nbytes + r.nbytes + lengths.nbytes, loss.nbytes + lambdas.nbytes)


@LAMBDA_RANK_NDCG.gradient
def lambda_rank_ndcg_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("LambdaRankNdcgGradient", [g.y, g.lengths, g.lambdas, g.dloss], [g.dy])


@kernel(LAMBDA_RANK_NDCG)
def lambda_rank_ndcg(op: OpView, y: Array, r: Array, lengths: Array, loss: Array, lambdas: Array) -> None:
    flat, begin = r.reshape(-1), 0
    lambdas[...] = 0
    for m, end in enumerate(session_ends(op, lengths, y.size)):
        loss[m], lambdas[begin:end] = of_session(op, y[begin:end], flat[begin:end])
        begin = end


@LAMBDA_RANK_NDCG_GRADIENT.infer
def lambda_rank_ndcg_gradient_infer(
    op: OpView, y: TensorSpec, lengths: TensorSpec, lambdas: TensorSpec, dloss: TensorSpec
) -> TensorSpec:
    require_as_many(op, "y", y.dims, lambdas=lambdas.dims)
    if lengths.dims is not None and dloss.dims is not None:
        relation = f"dloss has the shape {show_dims(dloss.dims)} for {product(lengths.dims)} sessions"
        op.require(agree(product(dloss.dims), product(lengths.dims)), relation, "one for each session")
    return TensorSpec(y.dims, lambdas.dtype)


@kernel(LAMBDA_RANK_NDCG_GRADIENT)
def lambda_rank_ndcg_gradient_kernel(op: OpView, lengths: Array, lambdas: Array, dloss: Array, dy: Array) -> None:
    session_ends(op, lengths, dy.size)
    each = np.repeat(dloss.reshape(-1), lengths.reshape(-1))
    dy[...] = 0
    np.multiply(lambdas.reshape(-1)[: each.size], each, out=dy[: each.size])
