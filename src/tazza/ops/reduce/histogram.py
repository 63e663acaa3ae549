"""How many elements lie between edges: given ones (Histogram), found ones (SelfBinningHistogram), over all runs.

The last is AccumulateHistogram, whose edges have one distance.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from tazza.errors import ArgumentError, NumericError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    Operator,
    OpView,
    arg,
    blob,
    forbidden,
    host_kernel,
    kernel,
    schema,
)
from tazza.ops.shape.axis import require_one_type
from tazza.tensor import Blob, DataType, TensorSpec

BEYOND = 1e-4
"""So much of the range of the elements lies between the largest one and the last edge."""

SEVERAL = blob("X", frozenset({DataType.FLOAT, DataType.DOUBLE}), variadic=True, doc="of any shapes, of one type")

HISTOGRAM = schema(
    "Histogram",
    """Y[i] = how many elements of all X are at least bin_edges[i] and below bin_edges[i + 1].

    NaN, and what is outside of all edges, counts nowhere.""",
    inputs=[SEVERAL],
    outputs=[blob("Y", DataType.INT64)],
    args=[arg("bin_edges", list[float], doc="B + 1 numbers in rising order, of float32")],
    effects=Effects.PURE,
    no_gradient=forbidden("counts are whole numbers"),
    source="Caffe2",
    example="""
    >>> run("Histogram", [0.5, 1.0, 7.0], bin_edges=[0.0, 1.0, 2.0])
    array([1, 1])
    """,
)


@HISTOGRAM.validate
def histogram_validate(op: OpView) -> None:
    edges = op.bin_edges  # programs look for these two messages
    if len(edges) < 2:
        raise op.error(ArgumentError, f"Number of bin edges must be greater than or equal to 2, not {len(edges)}")
    for i, (low, high) in enumerate(pairwise(edges)):
        if not low < high:
            relation = f"bin_edges[{i + 1}] = {high:g} is not above bin_edges[{i}] = {low:g}"
            raise op.error(ArgumentError, f"bin_edges must be a strictly increasing sequence of values: {relation}")


@HISTOGRAM.infer
def histogram_infer(op: OpView, X: tuple[TensorSpec, ...]) -> TensorSpec:
    require_one_type(op, "X", X)
    return TensorSpec((len(op.bin_edges) - 1,), DataType.INT64)


@HISTOGRAM.cost
def histogram_cost(op: OpView, X: tuple[TensorSpec, ...], Y: TensorSpec) -> Cost:
    elements = sum(spec.size for spec in X)
    return Cost(elements * len(op.bin_edges).bit_length(), sum(spec.nbytes for spec in X), Y.nbytes)


@kernel(HISTOGRAM)
def histogram(op: OpView, X: tuple[Array, ...], Y: Array) -> None:
    edges = np.array(op.bin_edges, np.float32)
    Y[...] = 0
    for x in X:
        within = x[(x >= edges[0]) & (x < edges[-1])]
        Y[...] += np.bincount(np.searchsorted(edges, within, side="right") - 1, minlength=len(edges) - 1)


BUCKETS_MAX = 2**27
"""More buckets than these are taken for a mistake: an operator keeps a number of each."""

SELF_BINNING_HISTOGRAM = schema(
    "SelfBinningHistogram",
    """edges = num_bins + 1 numbers from the smallest to just above the largest element of all X.

    counts = how many elements are at least an edge and below the next one; behind the last edge is none.

    Edges have one distance, or with bin_spacing = "logarithmic" one ratio; then they begin at `logspace_start` at
    least, and what is below the first one counts as if it stood there.""",
    inputs=[SEVERAL],
    outputs=[blob("edges", "X"), blob("counts", DataType.INT64)],
    args=[
        arg("num_bins", int, 0, maximum=BUCKETS_MAX, doc="at least 1; has to be given"),
        arg("bin_spacing", str, "linear", choices=("linear", "logarithmic"), doc="of the edges"),
        arg("logspace_start", float, 1e-24, doc="above 0"),
        arg("abs", bool, False, doc="look at the sizes of the elements"),
    ],
    effects=Effects.PURE,
    no_gradient=forbidden("counts are whole numbers"),
    source="Caffe2",
    example="""
    >>> edges, counts = run("SelfBinningHistogram", [0.0, 1.0, 8.0], num_bins=2, outputs=2)
    >>> edges, counts
    (array([0.    , 4.0004, 8.0008], dtype=float32), array([2, 1, 0]))
    """,
)


@SELF_BINNING_HISTOGRAM.validate
def self_binning_validate(op: OpView) -> None:
    if op.num_bins < 1:
        raise op.error(ArgumentError, f"num_bins = {op.num_bins}, it must be at least 1")
    if not op.logspace_start > 0:
        raise op.error(ArgumentError, f"logspace_start = {op.logspace_start:g}, it must be above 0")


@SELF_BINNING_HISTOGRAM.infer
def self_binning_infer(op: OpView, X: tuple[TensorSpec, ...]) -> tuple[TensorSpec, TensorSpec]:
    edges = op.num_bins + 1
    return TensorSpec((edges,), require_one_type(op, "X", X)), TensorSpec((edges,), DataType.INT64)


@SELF_BINNING_HISTOGRAM.cost
def self_binning_cost(op: OpView, X: tuple[TensorSpec, ...], edges: TensorSpec, counts: TensorSpec) -> Cost:
    elements = sum(spec.size for spec in X)
    work = elements * (3 + op.num_bins.bit_length())
    return Cost(work, sum(spec.nbytes for spec in X), edges.nbytes + counts.nbytes)


@kernel(SELF_BINNING_HISTOGRAM)
def self_binning_histogram(op: OpView, X: tuple[Array, ...], edges: Array, counts: Array) -> None:
    x = np.concatenate([one.reshape(-1) for one in X])
    x = np.abs(x) if op.abs else x
    x = x[~np.isnan(x)]
    edges[...], counts[...] = 0, 0
    if x.size == 0:
        return
    ratios = op.bin_spacing == "logarithmic"
    least = op.logspace_start if ratios else -math.inf
    low, high = max(float(x.min()), least), max(float(x.max()), least)
    last = high + (high - low) * BEYOND
    edges[...] = (np.geomspace if ratios else np.linspace)(low, last, op.num_bins + 1)
    bins = np.searchsorted(edges, x, side="right") - 1 if high > low else np.zeros(x.size, np.int64)
    counts[...] = np.bincount(np.maximum(bins, 0), minlength=counts.size)


ACCUMULATE_HISTOGRAM = schema(
    "AccumulateHistogram",
    """now = how many elements of X lie in each bucket, all = the same over all runs of the operator.

    The first bucket is that of what is below `lower_bound`, the last that of what is not below `upper_bound`; between
    them lie `num_buckets` of one width.""",
    inputs=[blob("X", FLOAT, doc="of any shape, without NaN")],
    outputs=[blob("now", DataType.INT64), blob("all", DataType.INT64)],
    args=[
        arg("lower_bound", float, 0.0, doc="where the second bucket begins"),
        arg("upper_bound", float, 1.0, doc="where the last bucket begins"),
        arg("num_buckets", int, 1, minimum=1, maximum=BUCKETS_MAX, doc="how many lie between the two"),
    ],
    effects=Effects.STATE,
    no_gradient=forbidden("counts are whole numbers"),
    source="Caffe2",
    example="""
    >>> run("AccumulateHistogram", [-1.0, 0.0, 1.0, 9.0, 10.0], upper_bound=10.0, num_buckets=2, outputs=2)
    (array([1, 2, 1, 1]), array([1, 2, 1, 1]))
    """,
)


@ACCUMULATE_HISTOGRAM.validate
def accumulate_validate(op: OpView) -> None:
    width = op.upper_bound - op.lower_bound
    if not np.isfinite(width):
        raise op.error(ArgumentError, f"upper_bound - lower_bound is {width:g}, buckets have a width")


@ACCUMULATE_HISTOGRAM.infer
def accumulate_infer(op: OpView, X: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    del X
    counts = TensorSpec((op.num_buckets + 2,), DataType.INT64)
    return counts, counts


@ACCUMULATE_HISTOGRAM.cost
def accumulate_cost(op: OpView, X: TensorSpec, now: TensorSpec, all: TensorSpec) -> Cost:
    del op
    return Cost(2 * X.size, X.nbytes, now.nbytes + all.nbytes)


def bucket_counts(op: OpView, X: Array) -> Array:
    """Return how many elements lie in each bucket.

    Raises:
        NumericError: one is NaN, which has no bucket.
    """
    x = X.reshape(-1)
    if np.isnan(x).any():
        raise op.error(NumericError, f"X[{int(np.isnan(x).argmax())}] is NaN, which lies in no bucket")
    low, high = np.float32(op.lower_bound), np.float32(op.upper_bound)
    width = (high - low) / np.float32(op.num_buckets)
    buckets = np.where(x < low, 0, op.num_buckets + 1)
    within = (x >= low) & (x < high)
    buckets[within] = np.minimum((x[within] - low) / width + 1, op.num_buckets + 1)
    return np.bincount(buckets, minlength=op.num_buckets + 2)


@host_kernel(ACCUMULATE_HISTOGRAM)
class AccumulateHistogram:
    """Holds what was counted."""

    def __init__(self, operator: Operator) -> None:
        self._counts = np.zeros(operator.op.num_buckets + 2, np.int64)

    def run(self, op: OpView, X: Blob, now: Blob, all: Blob) -> None:
        counts = bucket_counts(op, X.tensor().plain())
        self._counts += counts
        now.tensor().assign(counts)
        all.tensor().assign(self._counts)
