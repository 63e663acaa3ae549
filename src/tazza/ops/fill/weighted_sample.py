"""Places that are drawn by weights: WeightedSample, WeightedMultiSampling. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.device import Generator
from tazza.errors import ArgumentError, NumericError, SchemaError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    forbidden,
    kernel,
    not_written,
    schema,
    streamed,
)
from tazza.tensor import DataType, TensorSpec

WEIGHTED_SAMPLE = schema(
    "WeightedSample",
    "place[n] = a column of row n of w, drawn with its weight; value[n] = what v has there.",
    inputs=[
        blob("w", FLOAT, "N C", role=Role.DATA, doc="no row adds up to less than 0"),
        blob("v", FLOAT, "N C", optional=True, role=Role.DATA),
    ],
    outputs=[blob("place", DataType.INT32), blob("value", FLOAT, optional=True)],
    effects=Effects.RANDOM,
    no_gradient=forbidden("places have none"),
    source="Matsumoto, Nishimura 1998 (MT19937)",
    example="""
    >>> run("WeightedSample", [[0.0, 1.0, 0.0]], [[5.0, 6.0, 7.0]], outputs=2)
    (array([[1]], dtype=int32), array([[6.]], dtype=float32))
    """,
)
WEIGHTED_MULTI_SAMPLING = schema(
    "WeightedMultiSampling",
    "Y = places of cdf, each drawn with what its element is more than the one before.",
    inputs=[
        blob("cdf", FLOAT, "C", doc="sums of weights: rising, the last one above 0"),
        blob("like", optional=True, role=Role.SHAPE, doc="has the shape of Y"),
    ],
    outputs=[blob("Y", DataType.INT32)],
    args=[arg("num_samples", int, None, minimum=0, doc="the length of Y, 0 unless told; not beside like")],
    effects=Effects.RANDOM,
    no_gradient=not_written("Caffe2 has none"),
    source="Matsumoto, Nishimura 1998 (MT19937)",
    example="""
    >>> run("WeightedMultiSampling", [0.0, 1.0, 1.0], num_samples=4)
    array([1, 1, 1, 1], dtype=int32)
    """,
)


@WEIGHTED_SAMPLE.validate
def weighted_sample_validate(op: OpView) -> None:
    if len(op.input_letters) != len(op.output_letters):
        message = f"{len(op.input_letters)} inputs and {len(op.output_letters)} outputs"
        raise op.error(SchemaError, message, "there are values where there is a v")


@WEIGHTED_SAMPLE.infer
def weighted_sample_infer(op: OpView, w: TensorSpec, v: TensorSpec | None) -> tuple[TensorSpec, ...]:
    del v
    dims = None if w.dims is None else (0,) if 0 in w.dims else (w.dims[0], 1)
    if w.dims is not None and None in w.dims:
        dims = None
    return (TensorSpec(dims, DataType.INT32), TensorSpec(dims, DataType.FLOAT))[: len(op.output_letters)]


@WEIGHTED_SAMPLE.cost
def weighted_sample_cost(op: OpView, w: TensorSpec, place: TensorSpec, **others: TensorSpec | None) -> Cost:
    del op, others
    return streamed((w,), (place,), flops=2 * w.size)


@WEIGHTED_MULTI_SAMPLING.validate
def weighted_multi_sampling_validate(op: OpView) -> None:
    if op.has_input("like") and op.given("num_samples"):
        raise op.error(ArgumentError, f"num_samples = {op.num_samples} is given, and an input too", "drop one of them")


@WEIGHTED_MULTI_SAMPLING.infer
def weighted_multi_sampling_infer(op: OpView, cdf: TensorSpec, like: TensorSpec | None) -> TensorSpec:
    if cdf.dims is None or cdf.dims[0] is None:
        return TensorSpec(None, DataType.INT32)
    if cdf.dims[0] == 0:
        return TensorSpec((0,), DataType.INT32)
    count = 0 if op.num_samples is None else op.num_samples
    return TensorSpec((count,) if like is None else like.dims, DataType.INT32)


@WEIGHTED_MULTI_SAMPLING.cost
def weighted_multi_sampling_cost(op: OpView, cdf: TensorSpec, Y: TensorSpec, **others: TensorSpec | None) -> Cost:
    del op, others
    return streamed((cdf,), (Y,), flops=Y.size * cdf.size.bit_length())


def draw(op: OpView, random: Generator, sums: Array, count: int, name: str) -> Array:
    """Return `count` places, by sums of weights.

    Raises:
        NumericError: the last sum is negative, or no number.
    """
    last = float(sums[-1])
    if not 0 <= last < np.inf:
        raise op.error(NumericError, f"{name} adds up to {last}", "weights add up to a number from 0 on")
    drawn = random.uniform(count, 0.0, last)
    return np.minimum(np.searchsorted(sums, drawn), sums.size - 1)


@kernel(WEIGHTED_SAMPLE)
def weighted_sample(
    op: OpView, random: Generator, w: Array, v: Array | None, place: Array, value: Array | None
) -> None:
    if w.size == 0:
        return
    for n, row in enumerate(w):
        place[n] = draw(op, random, np.cumsum(row, dtype=np.float32), 1, f"row {n} of w")
    if v is not None and value is not None:
        value[...] = np.take_along_axis(v, place, axis=1)


@kernel(WEIGHTED_MULTI_SAMPLING)
def weighted_multi_sampling(op: OpView, random: Generator, cdf: Array, Y: Array) -> None:
    if Y.size:
        Y[...] = draw(op, random, cdf, Y.size, "cdf").reshape(Y.shape)
