"""How many elements lie between edges: Histogram."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tazza.errors import ArgumentError, DTypeError
from tazza.operator import Array, Cost, Effects, OpView, arg, blob, forbidden, kernel, schema
from tazza.tensor import DataType, TensorSpec

HISTOGRAM = schema(
    "Histogram",
    """Y[i] = how many elements of all X are at least bin_edges[i] and below bin_edges[i + 1].

    NaN, and what is outside of all edges, counts nowhere.""",
    inputs=[blob("X", frozenset({DataType.FLOAT, DataType.DOUBLE}), variadic=True, doc="of any shapes, of one type")],
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
    other = next((spec.dtype for spec in X if spec.dtype is not X[0].dtype), None)
    if other is not None:
        raise op.error(DTypeError, f"X are of types {X[0].dtype} and {other}, they must be of one")
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
