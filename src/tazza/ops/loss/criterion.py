"""Losses of labels that are 1 or -1: MarginRankingCriterion, CosineEmbeddingCriterion.

All blobs of an operator have as many elements; outputs have the shape of the input whose loss or gradient they are.
Labels may be other whole numbers, and are taken as the formulas say. Source: Caffe2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Cut,
    Effects,
    GradientRequest,
    OpView,
    Role,
    RowProgram,
    arg,
    blob,
    ends,
    kernel,
    row_program,
    schema,
    streamed,
)
from tazza.operator.row_program import RowRule
from tazza.ops.shape.axis import require_as_many
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

NO_GRADIENT = ends("second derivatives are not built")
LABEL = blob("Y", DataType.INT32, role=Role.INDEX, doc="labels")
MARGIN = arg("margin", float, 1.0, doc="how far apart scores must be to cost nothing")
LEAST = arg("margin", float, 0.0, doc="a similarity up to here costs nothing where rows shall differ")

MARGIN_RANKING_CRITERION = schema(
    "MarginRankingCriterion",
    "loss = max(margin - Y * (X1 - X2), 0): a label of 1 wants X1 above X2, one of -1 below it.",
    inputs=[blob("X1", FLOAT), blob("X2", "X1", role=Role.DATA), LABEL],
    outputs=[blob("loss", like="X1")],
    args=[MARGIN],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("MarginRankingCriterion", [3.0, 3.0], [1.0, 2.5], [1, -1])
    array([0. , 1.5], dtype=float32)
    """,
)
MARGIN_RANKING_CRITERION_GRADIENT = schema(
    "MarginRankingCriterionGradient",
    "dX1 = -Y * dloss and dX2 = Y * dloss, both 0 where Y * (X1 - X2) > margin.",
    inputs=[blob("X1", FLOAT), blob("X2", "X1", role=Role.DATA), LABEL, blob("dloss", "X1", role=Role.DATA)],
    outputs=[blob("dX1", like="X1"), blob("dX2", like="X2")],
    args=[MARGIN],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="derivative of the forward operator",
    example="""
    >>> run("MarginRankingCriterionGradient", [3.0, 3.0], [1.0, 2.5], [1, -1], [5.0, 7.0])
    (array([0., 7.], dtype=float32), array([ 0., -7.], dtype=float32))
    """,
)
COSINE_EMBEDDING_CRITERION = schema(
    "CosineEmbeddingCriterion",
    "loss = 1 - S where Y is 1, else max(S - margin, 0): a label of 1 wants rows alike, whose cosine S is 1.",
    inputs=[blob("S", FLOAT, doc="cosines"), LABEL],
    outputs=[blob("loss", like="S")],
    args=[LEAST],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("CosineEmbeddingCriterion", [0.25, 0.75, -0.5], [1, -1, -1], margin=0.5)
    array([0.75, 0.25, 0.  ], dtype=float32)
    """,
)
COSINE_EMBEDDING_CRITERION_GRADIENT = schema(
    "CosineEmbeddingCriterionGradient",
    "dS = -dloss where Y is 1, else dloss where S >= margin, else 0.",
    inputs=[blob("S", FLOAT), LABEL, blob("dloss", "S", role=Role.DATA)],
    outputs=[blob("dS", like="S")],
    args=[LEAST],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="derivative of the forward operator",
    example="""
    >>> run("CosineEmbeddingCriterionGradient", [0.25, 0.75, -0.5], [1, -1, -1], [2.0, 3.0, 4.0])
    array([-2.,  3.,  0.], dtype=float32)
    """,
)


@MARGIN_RANKING_CRITERION.infer
def margin_ranking_criterion_infer(op: OpView, X1: TensorSpec, X2: TensorSpec, Y: TensorSpec) -> TensorSpec:
    require_as_many(op, "X1", X1.dims, X2=X2.dims, Y=Y.dims)
    return X1


@MARGIN_RANKING_CRITERION.cost
def margin_ranking_criterion_cost(op: OpView, X1: TensorSpec, X2: TensorSpec, Y: TensorSpec, loss: TensorSpec) -> Cost:
    del op
    return streamed((X1, X2, Y), (loss,), flops=4 * loss.size)


@MARGIN_RANKING_CRITERION.gradient
def margin_ranking_criterion_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("MarginRankingCriterionGradient", [g.X1, g.X2, g.Y, g.dloss], [g.dX1, g.dX2])


def lacking(op: OpView, X1: Array, X2: Array, Y: Array) -> Array:
    """Return how far the scores are from the margin, negative beyond it, as a vector."""
    apart = X1.reshape(-1) - X2.reshape(-1)
    return op.margin - Y.reshape(-1).astype(apart.dtype) * apart


@kernel(MARGIN_RANKING_CRITERION)
def margin_ranking_criterion(op: OpView, X1: Array, X2: Array, Y: Array, loss: Array) -> None:
    np.maximum(lacking(op, X1, X2, Y).reshape(loss.shape), 0, out=loss)


@MARGIN_RANKING_CRITERION_GRADIENT.infer
def margin_ranking_criterion_gradient_infer(
    op: OpView, X1: TensorSpec, X2: TensorSpec, Y: TensorSpec, dloss: TensorSpec
) -> tuple[TensorSpec, TensorSpec]:
    require_as_many(op, "X1", X1.dims, X2=X2.dims, Y=Y.dims, dloss=dloss.dims)
    return X1, X2


@MARGIN_RANKING_CRITERION_GRADIENT.cost
def margin_ranking_criterion_gradient_cost(
    op: OpView,
    X1: TensorSpec,
    X2: TensorSpec,
    Y: TensorSpec,
    dloss: TensorSpec,
    dX1: TensorSpec,
    dX2: TensorSpec,
) -> Cost:
    del op
    return streamed((X1, X2, Y, dloss), (dX1, dX2), flops=6 * dX1.size)


@kernel(MARGIN_RANKING_CRITERION_GRADIENT)
def margin_ranking_criterion_gradient_kernel(
    op: OpView, X1: Array, X2: Array, Y: Array, dloss: Array, dX1: Array, dX2: Array
) -> None:
    beyond = lacking(op, X1, X2, Y) < 0
    slope = np.where(beyond, 0, Y.reshape(-1).astype(dloss.dtype) * dloss.reshape(-1))
    dX1[...] = 0 - slope.reshape(dX1.shape)
    dX2[...] = slope.reshape(dX2.shape)


@COSINE_EMBEDDING_CRITERION.infer
def cosine_embedding_criterion_infer(op: OpView, S: TensorSpec, Y: TensorSpec) -> TensorSpec:
    require_as_many(op, "S", S.dims, Y=Y.dims)
    return S


@COSINE_EMBEDDING_CRITERION.cost
def cosine_embedding_criterion_cost(op: OpView, S: TensorSpec, Y: TensorSpec, loss: TensorSpec) -> Cost:
    del op
    return streamed((S, Y), (loss,), flops=3 * loss.size)


@COSINE_EMBEDDING_CRITERION.gradient
def cosine_embedding_criterion_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("CosineEmbeddingCriterionGradient", [g.S, g.Y, g.dloss], [g.dS])


@kernel(COSINE_EMBEDDING_CRITERION)
def cosine_embedding_criterion(op: OpView, S: Array, Y: Array, loss: Array) -> None:
    # A similarity that is NaN costs nothing where rows shall differ, as in Caffe2.
    loss[...] = np.where(Y.reshape(S.shape) == 1, 1 - S, np.fmax(S - S.dtype.type(op.margin), 0))


@COSINE_EMBEDDING_CRITERION_GRADIENT.infer
def cosine_embedding_criterion_gradient_infer(
    op: OpView, S: TensorSpec, Y: TensorSpec, dloss: TensorSpec
) -> TensorSpec:
    require_as_many(op, "S", S.dims, Y=Y.dims, dloss=dloss.dims)
    return S


@COSINE_EMBEDDING_CRITERION_GRADIENT.cost
def cosine_embedding_criterion_gradient_cost(
    op: OpView, S: TensorSpec, Y: TensorSpec, dloss: TensorSpec, dS: TensorSpec
) -> Cost:
    del op
    return streamed((S, Y, dloss), (dS,), flops=2 * dS.size)


@kernel(COSINE_EMBEDDING_CRITERION_GRADIENT)
def cosine_embedding_criterion_gradient_kernel(op: OpView, S: Array, Y: Array, dloss: Array, dS: Array) -> None:
    slope = dloss.reshape(S.shape)
    dS[...] = np.where(Y.reshape(S.shape) == 1, -slope, np.where(S.dtype.type(op.margin) <= S, slope, 0))


def _elements(**each: str) -> RowRule:
    """Return the rule of an operator that makes elements of elements, whole numbers among them."""

    def rule(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
        del op
        return RowProgram(Cut(1, specs["Y"].size), each=each)

    return rule


LACKING = "margin - Y * (X1 - X2)"
PUSH = f"where({LACKING} < 0, 0, Y * dloss)"
row_program(MARGIN_RANKING_CRITERION, _elements(loss=f"max({LACKING}, 0)"))
row_program(MARGIN_RANKING_CRITERION_GRADIENT, _elements(dX1=f"0 - {PUSH}", dX2=PUSH))
row_program(COSINE_EMBEDDING_CRITERION, _elements(loss="where(Y == 1, 1 - S, where(S - margin > 0, S - margin, 0))"))
row_program(COSINE_EMBEDDING_CRITERION_GRADIENT, _elements(dS="where(Y == 1, -dloss, where(margin <= S, dloss, 0))"))
