"""The average precision of the latest predictions: APMeter. N samples, D classes."""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Effects, Operator, OpView, Role, arg, blob, forbidden, host_kernel, schema
from tazza.ops.shape.axis import product
from tazza.tensor import Blob, DataType, TensorSpec

AP_METER = schema(
    "APMeter",
    """AP[d] = the average precision of the samples that are kept, by their scores for class d: 0 without one of it.

    Samples stand in falling order of their scores, equal ones in the order they came. The precision at a place is the
    sum of the labels up to there over their number, and AP its mean over the samples whose label is 1. A run brings N
    samples, of which the last `buffer_size` are kept, beside as many of earlier runs as there is room for. To make
    room, those with the highest scores are dropped first, class by class, as in Caffe2.""",
    inputs=[
        blob("X", FLOAT, doc="(N, D...): scores, of which the first N * D are looked at"),
        blob("label", DataType.INT32, role=Role.INDEX, doc="as many; 1: the sample is of the class"),
    ],
    outputs=[blob("AP", "X", doc="(D)", host=True)],
    args=[arg("buffer_size", int, 1000, minimum=0, doc="how many samples are kept")],
    effects=Effects.STATE,
    no_gradient=forbidden("it measures a model"),
    source="Everingham et al. 2010, section 4.2; Caffe2",
    example="""
    >>> run("APMeter", [[0.9, 0.1], [0.8, 0.6]], [[0, 0], [1, 1]])
    array([0.5, 1. ], dtype=float32)
    """,
)


def class_count(op: OpView, X: TensorSpec, label: TensorSpec) -> int | None:
    """Return D, as far as known; checks X and label against each other."""
    if X.dims is None:
        return None
    op.require(len(X.dims) > 1, f"X has the rank {len(X.dims)}, it must be (N, D)")
    wanted = product(X.dims[:2])
    given = None if label.dims is None else product(label.dims)
    op.require(wanted is None or given is None or given >= wanted, f"{given} labels for {wanted} scores")
    return X.dims[1]


@AP_METER.infer
def ap_meter_infer(op: OpView, X: TensorSpec, label: TensorSpec) -> TensorSpec:
    return TensorSpec((class_count(op, X, label),), X.dtype)


def average_precision(truth: Array) -> Array:
    """Return the mean precision of each column at its ones, in their order; 0 where there are none."""
    places = np.arange(1, len(truth) + 1)[:, None]
    found = truth == 1
    return (found * (np.cumsum(truth, axis=0) / places)).sum(axis=0) / np.maximum(found.sum(axis=0), 1)


@host_kernel(AP_METER)
class APMeter:
    """Keeps scores and labels, each column in falling order of its scores."""

    def __init__(self, operator: Operator) -> None:
        self._scores: Array = np.zeros((0, 0), np.float32)
        self._labels: Array = np.zeros((0, 0), np.int32)

    def run(self, op: OpView, X: Blob, label: Blob, AP: Blob) -> None:
        class_count(op, X.tensor().spec, label.tensor().spec)
        scores = X.tensor().plain()
        N, D = scores.shape[:2]
        if self._scores.size == 0:
            self._scores, self._labels = np.zeros((0, D), np.float32), np.zeros((0, D), np.int32)
        op.require(D == self._scores.shape[1], f"X has {D} classes, before it had {self._scores.shape[1]}")
        drop = max(0, len(self._scores) + min(N, op.buffer_size) - op.buffer_size)
        latest = slice(max(0, N - op.buffer_size), None)

        def joined(kept: Array, came: Array) -> Array:
            return np.concatenate([kept[drop:], came.reshape(-1)[: N * D].reshape(N, D)[latest]])

        scores, labels = joined(self._scores, scores), joined(self._labels, label.tensor().plain())
        order = np.argsort(-scores, axis=0, kind="stable")
        self._scores = np.take_along_axis(scores, order, axis=0)
        self._labels = np.take_along_axis(labels, order, axis=0)
        AP.tensor().assign(average_precision(self._labels).astype(np.float32))
