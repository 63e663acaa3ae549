"""Percentiles of values by tables of samples: blobs of Percentile, arguments of BisectPercentile.

Letters: N rows of D features, X and Y (N, D). Feature d has lengths[d] samples, which lie one feature behind the other
and are sorted by value within one. Below the first sample Y is 0, above the last one 1; between two samples it lies on
the line from the upper percentile of the one to the lower percentile of the other.

Source: Caffe2.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import agree, product, require_within
from tazza.tensor import DataType, TensorSpec

NO_GRADIENT = ends("Caffe2 ends it here")

PERCENTILE = schema(
    "Percentile",
    """Y = the percentile of each value of X among the samples of its feature; at the value of a sample, its own.

    Of samples of one value the first counts. Without samples Y is 1, of NaN 0.""",
    inputs=[
        blob("X", FLOAT, "N D"),
        blob("samples", FLOAT, "M 2", role=Role.PARAMETER, doc="value and percentile of each sample"),
        blob("lengths", DataType.INT32, role=Role.INDEX, doc="D elements of any shape, with the sum M"),
    ],
    outputs=[blob("Y", like="X")],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> samples = np.array([[10.0, 0.0], [20.0, 0.5], [40.0, 1.0]], "f")
    >>> run("Percentile", [[15.0], [20.0], [50.0]], samples, np.array([3], "i"))
    array([[0.25],
           [0.5 ],
           [1.  ]], dtype=float32)
    """,
)
BISECT_PERCENTILE = schema(
    "BisectPercentile",
    """Y = the percentile of each value of X among the samples of its feature; at the value of a sample, its own.

    Of samples of one value the last counts. NaN stays NaN.""",
    inputs=[blob("X", FLOAT, "N D")],
    outputs=[blob("Y", like="X")],
    args=[
        arg("percentile_raw", list[float], [], doc="values of the samples, all features one behind the other"),
        arg("percentile_mapping", list[float], [], doc="their percentiles"),
        arg("percentile_lower", list[float], [], doc="the percentile to which a line from below leads"),
        arg("percentile_upper", list[float], [], doc="the percentile from which a line to above leads"),
        arg("lengths", list[int], [], doc="D numbers of samples, each at least 1"),
    ],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> table = {"percentile_raw": [10.0, 20.0], "percentile_mapping": [0.25, 0.75], "lengths": [2]}
    >>> lines = {"percentile_lower": [0.0, 0.5], "percentile_upper": [0.5, 1.0]}
    >>> run("BisectPercentile", [[10.0], [15.0], [30.0]], **table, **lines)
    array([[0.25],
           [0.5 ],
           [1.  ]], dtype=float32)
    """,
)


@PERCENTILE.infer
def percentile_infer(op: OpView, X: TensorSpec, samples: TensorSpec, lengths: TensorSpec) -> TensorSpec:
    del samples
    if X.dims is not None and lengths.dims is not None:
        relation = f"lengths has the shape {show_dims(lengths.dims)}, X has {X.dims[1]} features"
        op.require(agree(product(lengths.dims), X.dims[1]), relation, "each feature has a number of samples")
    return X


@PERCENTILE.cost
def percentile_cost(op: OpView, X: TensorSpec, samples: TensorSpec, lengths: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X, samples, lengths), (Y,), flops=X.size * (5 + samples.size.bit_length()))


def features(lengths: Array) -> Iterator[tuple[int, slice]]:
    """Yield each feature with where its samples lie."""
    stops = np.cumsum(lengths, dtype=np.int64)
    return ((d, slice(int(stop - n), int(stop))) for d, (stop, n) in enumerate(zip(stops, lengths, strict=True)))


@kernel(PERCENTILE)
def percentile(op: OpView, X: Array, samples: Array, lengths: Array, Y: Array) -> None:
    counts = lengths.reshape(-1)
    require_within(op, "lengths", lengths, 0, hint="a feature has no fewer than 0 samples")
    total = int(counts.sum())
    op.require(total == len(samples), f"the sum of lengths is {total}, there are {len(samples)} samples")
    for d, part in features(counts):
        Y[:, d] = by_samples(X[:, d], *samples[part].T)


def by_samples(x: Array, values: Array, percentiles: Array) -> Array:
    """Return percentiles; x is (N), the samples are sorted."""
    if values.size == 0:
        return np.ones_like(x)
    above = np.minimum(np.searchsorted(values, x), len(values) - 1)  # the first sample that is not below x
    found = between(x, values, percentiles, percentiles, np.maximum(above - 1, 0), above)
    found = np.where(x == values[above], percentiles[above], found)
    return np.where(x > values[-1], 1, np.where(x >= values[0], found, 0))


def between(x: Array, values: Array, lower: Array, upper: Array, first: Array, second: Array) -> Array:
    """Return what lies on the lines from `upper` of the first samples to `lower` of the second ones."""
    with np.errstate(all="ignore"):
        share = (x.astype(np.float64) - values[first]) / (values[second].astype(np.float64) - values[first])
        return upper[first] + share * (lower[second].astype(np.float64) - upper[first])


@BISECT_PERCENTILE.validate
def bisect_percentile_validate(op: OpView) -> None:
    count = len(op.percentile_raw)
    for name in ("percentile_mapping", "percentile_lower", "percentile_upper"):
        if len(op.arguments[name]) != count:
            relation = f"{name} has {len(op.arguments[name])} elements, percentile_raw has {count}"
            raise op.error(ArgumentError, relation, "each sample has one")
    if sum(op.lengths) != count:
        raise op.error(ArgumentError, f"the sum of lengths is {sum(op.lengths)}, percentile_raw has {count} elements")
    if any(length < 1 for length in op.lengths):
        raise op.error(ArgumentError, f"lengths = {op.lengths}, each must be at least 1")


@BISECT_PERCENTILE.infer
def bisect_percentile_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is not None:
        count = len(op.lengths)
        op.require(agree(X.dims[1], count), f"X has {X.dims[1]} features, lengths has {count} elements")
    return X


@BISECT_PERCENTILE.cost
def bisect_percentile_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    return streamed((X,), (Y,), flops=X.size * (5 + len(op.percentile_raw).bit_length()))


@kernel(BISECT_PERCENTILE)
def bisect_percentile(op: OpView, X: Array, Y: Array) -> None:
    names = ("percentile_raw", "percentile_mapping", "percentile_lower", "percentile_upper")
    table = np.array([op.arguments[name] for name in names], np.float32)
    for d, part in features(np.array(op.lengths, np.int64)):
        x, (values, percentiles, lower, upper) = X[:, d], table[:, part]
        below = np.maximum(np.searchsorted(values, x, side="right") - 1, 0)  # the last sample that is not above x
        found = between(x, values, lower, upper, below, np.minimum(below + 1, len(values) - 1))
        found = np.where(x == values[below], percentiles[below], found)
        found = np.where(x > values[-1], 1, np.where(x < values[0], 0, found))
        Y[:, d] = np.where(np.isnan(x), x, found)
