"""What pairs of one session cost that a score puts in the wrong order: PairWiseLoss.

N scores X belong to M sessions, one behind the other; without lengths to one. Labels say what ranks above what. Over
the pairs i < j of a session whose labels differ, with s = 1 where label[i] > label[j] and else -1:

    Y = the mean of log(1 + exp(-s (X[i] - X[j])))
    dX[i] -= dY s sigmoid(-s (X[i] - X[j])) / pairs,    dX[j] += the same

A session without such pairs costs nothing. Source: Burges et al. 2005, section 3; Caffe2.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

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
    show_dims,
)
from tazza.ops.shape.axis import agree, product
from tazza.ops.sparse.segment import starts_of
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

X = blob("X", FLOAT, doc="(N, 1...): scores; of rank 0 it has none")
LABEL = blob("label", "X", role=Role.DATA, doc="(N) or (N, 1): what is larger ranks above")
LENGTHS = blob("lengths", DataType.INT32, "M", optional=True, role=Role.INDEX, doc="scores of each session")

PAIR_WISE_LOSS = schema(
    "PairWiseLoss",
    "Y[m] = the mean of log(1 + exp(lower - higher)) over the pairs of scores whose labels differ, 0 without any.",
    inputs=[X, LABEL, LENGTHS],
    outputs=[blob("Y", "X", doc="(M), (1) without lengths; (0) where there are no scores")],
    effects=Effects.PURE,
    source="Burges et al. 2005, section 3; Caffe2",
    example="""
    >>> run("PairWiseLoss", [3.0, 3.0, 8.0], [1.0, 0.0, 7.0], [2, 1])
    array([0.6931472, 0.       ], dtype=float32)
    """,
)
PAIR_WISE_LOSS_GRADIENT = schema(
    "PairWiseLossGradient",
    "dX = dY[m] times the derivative of the loss of session m.",
    inputs=[X, LABEL, blob("dY", "X", role=Role.DATA, doc="one for each session"), LENGTHS],
    outputs=[blob("dX", like="X")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("PairWiseLossGradient", [3.0, 3.0], [1.0, 0.0], [2.0])
    array([-1.,  1.], dtype=float32)
    """,
)


def score_count(op: OpView, X: TensorSpec, label: TensorSpec) -> int | None:
    """Return N, as far as known; checks X and label against each other."""
    if X.dims is None:
        return None
    N = X.dims[0] if X.dims else 0
    if N != 0:
        single = agree(product(X.dims[1:]), 1)
        op.require(single, f"X has the shape {show_dims(X.dims)}, its rows must have one element")
        if label.dims is not None:
            flat = len(label.dims) == 1 or (len(label.dims) == 2 and agree(label.dims[1], 1))
            op.require(flat, f"label has the shape {show_dims(label.dims)}, it must be (N) or (N, 1)")
            op.require(agree(label.dims[0], N), f"{label.dims[0]} labels for {N} scores", "one label for each score")
    return N


def sessions(N: int | None, lengths: TensorSpec | None) -> int | None:
    """Return M, as far as known."""
    if N is None:
        return None
    if N == 0:
        return 0
    return 1 if lengths is None else None if lengths.dims is None else lengths.dims[0]


def pairs(op: OpView, X: Array, label: Array, lengths: Array | None) -> Iterator[tuple[int, Array, Array, Array]]:
    """Yield for each session its number, and of its pairs the places in X and s.

    Raises:
        NumericError: a length is negative, or the lengths do not add up to N.
    """
    N = X.size if X.ndim > 0 else 0
    given = np.array([N]) if lengths is None else lengths
    own = label.reshape(-1)
    for m, (begin, end) in enumerate(pairwise(starts_of(op, "lengths", given, N, "scores"))):
        first, second = np.triu_indices(end - begin, 1)
        first, second = first + begin, second + begin
        unlike = own[first] != own[second]
        first, second = first[unlike], second[unlike]
        yield m, first, second, np.where(own[first] > own[second], 1, -1).astype(X.dtype)


def pair_wise_loss_cost(op: OpView, X: TensorSpec, **others: TensorSpec | None) -> Cost:
    del op
    written = sum(spec.nbytes for letter, spec in others.items() if letter in ("Y", "dX") and spec is not None)
    read = sum(spec.nbytes for letter, spec in others.items() if letter not in ("Y", "dX") and spec is not None)
    lengths = others["lengths"]
    M = 1 if lengths is None else max(lengths.size, 1)
    return Cost(20 * X.size**2 // (2 * M), X.nbytes + read, written)


PAIR_WISE_LOSS.cost(pair_wise_loss_cost)
PAIR_WISE_LOSS_GRADIENT.cost(pair_wise_loss_cost)


@PAIR_WISE_LOSS.infer
def pair_wise_loss_infer(op: OpView, X: TensorSpec, label: TensorSpec, lengths: TensorSpec | None) -> TensorSpec:
    return TensorSpec((sessions(score_count(op, X, label), lengths),), X.dtype)


@PAIR_WISE_LOSS.gradient
def pair_wise_loss_gradient(g: GradientRequest) -> list[OperatorDef]:
    lengths = [g.lengths] if g.op.has_input("lengths") else []
    return g.emit("PairWiseLossGradient", [g.X, g.label, g.dY, *lengths], [g.dX])


@kernel(PAIR_WISE_LOSS)
def pair_wise_loss(op: OpView, X: Array, label: Array, lengths: Array | None, Y: Array) -> None:
    x = X.reshape(-1)
    for m, i, j, s in pairs(op, X, label, lengths) if Y.size else ():
        Y[m] = np.logaddexp(0, s * (x[j] - x[i])).sum() / max(s.size, 1)


@PAIR_WISE_LOSS_GRADIENT.infer
def pair_wise_loss_gradient_infer(
    op: OpView, X: TensorSpec, label: TensorSpec, dY: TensorSpec, lengths: TensorSpec | None
) -> TensorSpec:
    N = score_count(op, X, label)
    M = sessions(N, lengths)
    if N != 0 and dY.dims is not None:
        one_each = len(dY.dims) == 1 and agree(dY.dims[0], M)
        op.require(one_each, f"dY has the shape {show_dims(dY.dims)} for {M} sessions", "one for each")
    return X


@kernel(PAIR_WISE_LOSS_GRADIENT)
def pair_wise_loss_gradient_kernel(
    op: OpView, X: Array, label: Array, dY: Array, lengths: Array | None, dX: Array
) -> None:
    x, slope = X.reshape(-1), np.zeros(dX.size)
    for m, i, j, s in pairs(op, X, label, lengths) if X.ndim and X.size else ():
        each = s / (1 + np.exp(s * (x[i] - x[j]))) * (dY[m] / max(s.size, 1))
        slope += np.bincount(j, each, x.size) - np.bincount(i, each, x.size)
    dX[...] = slope.reshape(dX.shape)
