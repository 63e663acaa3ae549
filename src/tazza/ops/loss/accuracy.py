"""How often the highest scores name the label: Accuracy, MultiClassAccuracy. N rows, D classes."""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    HALVES,
    Array,
    Cost,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    forbidden,
    kernel,
    schema,
    streamed,
)
from tazza.ops.loss.cross_entropy import check_labels
from tazza.ops.shape.axis import product
from tazza.tensor import DataType, TensorSpec

ACCURACY = schema(
    "Accuracy",
    """accuracy = the part of the rows n whose label is among the `top_k` highest of the scores X[n].

    Equal scores rank by index. A label that is no class, and one whose score is NaN, counts as missed. Without rows
    the accuracy is NaN.""",
    inputs=[
        blob("X", FLOAT, "N D", elsewhere=HALVES, doc="scores"),
        blob("label", DataType.INT32, "N", role=Role.INDEX),
    ],
    outputs=[blob("accuracy", FLOAT, "")],
    args=[arg("top_k", int, 1, minimum=1, doc="how many of the highest scores count")],
    effects=Effects.PURE,
    no_gradient=forbidden("it is a step function of the scores"),
    source="Caffe2",
    example="""
    >>> run("Accuracy", [[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]], [1, 1, 0])
    array(0.6666667, dtype=float32)
    """,
)


@kernel(ACCURACY)
def accuracy(op: OpView, X: Array, label: Array, accuracy: Array) -> None:
    N, D = len(X), int(X.shape[1])
    score = np.full((N, 1), np.nan, X.dtype)  # of a label that is no class
    valid = (label >= 0) & (label < D)
    score[valid, 0] = X[valid, label[valid]]
    earlier = np.arange(D) < label.reshape(N, 1)
    ahead = np.count_nonzero((X > score) | ((X == score) & earlier), axis=1)
    hits = np.count_nonzero((ahead < op.top_k) & ~np.isnan(score[:, 0]))
    accuracy[...] = hits / N if N > 0 else np.nan


MULTI_CLASS_ACCURACY = schema(
    "MultiClassAccuracy",
    """amounts[d] = how many rows n have the label d; accuracies[d] = the part of them whose highest score is X[n, d].

    Of equal scores the first one counts as the highest; NaN is passed over. Without rows of a class its accuracy is
    0.""",
    inputs=[
        blob("X", FLOAT, doc="(N, D...): scores, of which the first D of a row are looked at"),
        blob("label", DataType.INT32, role=Role.INDEX, doc="at least N, each in [0, D)"),
    ],
    outputs=[blob("accuracies", "X", doc="(D)"), blob("amounts", DataType.INT32, doc="(D)")],
    effects=Effects.PURE,
    no_gradient=forbidden("it is a step function of the scores"),
    source="Caffe2",
    example="""
    >>> run("MultiClassAccuracy", [[0.1, 0.9], [0.8, 0.2], [0.5, 0.5]], [1, 0, 1])
    (array([1. , 0.5], dtype=float32), array([1, 2], dtype=int32))
    """,
)


@MULTI_CLASS_ACCURACY.infer
def multi_class_accuracy_infer(op: OpView, X: TensorSpec, label: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    if X.dims is None:
        return TensorSpec((None,), X.dtype), TensorSpec((None,), DataType.INT32)
    op.require(len(X.dims) > 1, f"X has the rank {len(X.dims)}, it must have rows of scores")
    N, D = X.dims[:2]
    op.require(N == 0 or D != 0, f"X has {N} rows without scores", "nothing is the highest of nothing")
    given = None if label.dims is None else product(label.dims)
    op.require(N is None or given is None or given >= N, f"{given} labels for {N} rows of X", "one label for each row")
    return TensorSpec((D,), X.dtype), TensorSpec((D,), DataType.INT32)


@MULTI_CLASS_ACCURACY.cost
def multi_class_accuracy_cost(
    op: OpView, X: TensorSpec, label: TensorSpec, accuracies: TensorSpec, amounts: TensorSpec
) -> Cost:
    del op
    return streamed((X, label), (accuracies, amounts), flops=X.size)


@kernel(MULTI_CLASS_ACCURACY)
def multi_class_accuracy(op: OpView, X: Array, label: Array, accuracies: Array, amounts: Array) -> None:
    N, D = X.shape[:2]
    own = check_labels(op, label.reshape(-1)[:N], D)
    if N > 0:
        scores = X.reshape(N, -1).reshape(-1)[: N * D].reshape(N, D)
        highest = np.where(np.isnan(scores), -np.inf, scores).argmax(axis=1)
        amounts[...] = np.bincount(own, minlength=D)
        accuracies[...] = np.bincount(own[highest == own], minlength=D) / np.maximum(amounts, 1)
    else:
        amounts[...], accuracies[...] = 0, 0
