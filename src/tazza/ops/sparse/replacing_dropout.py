"""Segments of ids that one id replaces by chance: SparseDropoutWithReplacement.

Letters: N segments of K ids, one behind the other, each of which stays with probability 1 - `ratio`. Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.device import Generator
from tazza.operator import (
    Array,
    Cost,
    DynamicOutput,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    schema,
)
from tazza.ops.sparse.segment import starts_of
from tazza.tensor import DataType, TensorSpec

REPLACING_DROPOUT = schema(
    "SparseDropoutWithReplacement",
    """Y = the ids of segments that stay; each other segment, an empty one too, becomes one id `replacement_value`.

    A seeded operator drops what Caffe2 drops.""",
    inputs=[
        blob("X", DataType.INT64, "K", role=Role.INDEX, doc="ids"),
        blob("lengths", DataType.INT32, "N", role=Role.INDEX, doc="ids of each segment"),
    ],
    outputs=[
        blob("Y", DataType.INT64, dynamic=True),
        blob("new_lengths", DataType.INT32, "N", doc="ids of each segment in Y"),
    ],
    args=[
        arg("ratio", float, 0.0, minimum=0, maximum=1, doc="probability of a segment to be replaced"),
        arg("replacement_value", int, 0, doc="the id that stands for what was dropped"),
    ],
    effects=Effects.RANDOM,
    no_gradient=ends("whole numbers have no gradient"),
    source="Caffe2",
    example="""
    >>> run("SparseDropoutWithReplacement", np.array([5, 6, 7]), [2, 1], ratio=1.0, replacement_value=-1)
    (array([-1, -1]), array([1, 1], dtype=int32))
    """,
)


@REPLACING_DROPOUT.infer
def replacing_dropout_infer(op: OpView, X: TensorSpec, lengths: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    del op
    return TensorSpec((None,), X.dtype), TensorSpec(lengths.dims, lengths.dtype)


@REPLACING_DROPOUT.cost
def replacing_dropout_cost(op: OpView, X: TensorSpec, lengths: TensorSpec, **others: object) -> Cost:
    del op, others
    return Cost(lengths.size, X.nbytes + lengths.nbytes, X.nbytes + lengths.nbytes)


@kernel(REPLACING_DROPOUT)
def replacing_dropout(
    op: OpView, random: Generator, X: Array, lengths: Array, Y: DynamicOutput, new_lengths: Array
) -> None:
    starts_of(op, "lengths", lengths, X.size, "ids")
    keep = random.bernoulli(lengths.size, 1 - op.ratio)
    new_lengths[...] = np.where(keep, lengths, 1)
    ids = Y.allocate((int(new_lengths.sum(dtype=np.int64)),))
    ids[...] = op.replacement_value
    ids[np.repeat(keep, new_lengths)] = X[np.repeat(keep, lengths)]
