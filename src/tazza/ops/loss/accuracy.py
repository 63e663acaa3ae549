"""How often the highest scores name the label: Accuracy. N rows, D classes."""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Effects, OpView, Role, arg, blob, forbidden, kernel, schema
from tazza.tensor import DataType

ACCURACY = schema(
    "Accuracy",
    """accuracy = the part of the rows n whose label is among the `top_k` highest of the scores X[n].

    Equal scores rank by index. A label that is no class, and one whose score is NaN, counts as missed. Without rows
    the accuracy is NaN.""",
    inputs=[blob("X", FLOAT, "N D", doc="scores"), blob("label", DataType.INT32, "N", role=Role.INDEX)],
    outputs=[blob("accuracy", "X", "")],
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
