"""Rows divided among P shards by an index of each: Partition, LengthsPartition.

Shard p gets the rows whose index leaves p when it is divided by P; P follows from the number of outputs, which are all
of shard 0 first, then those of shard 1. Letters: `index` (I...), of which each element has a row of every further X
(I..., *S); with lengths N segments of these.

Source: Caffe2.
"""

from __future__ import annotations

import math

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import SchemaError
from tazza.operator import (
    INDEX,
    Array,
    BlobSpec,
    Cost,
    DynamicOutput,
    Effects,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    ends,
    family,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.sparse.segment import starts_of
from tazza.tensor import DataType, TensorSpec

LENGTHS = blob(
    "lengths", DataType.INT32, role=Role.INDEX, doc="N, in any shape: rows of each segment, one behind the other"
)


def _rows(op: OpView, i: int, index: TensorSpec, X: TensorSpec) -> TensorSpec:
    """Return what a shard gets of one X."""
    if X.dims is None or index.dims is None:
        return TensorSpec(None, X.dtype)
    own = X.dims[: len(index.dims)]
    relation = f"X{i} has the shape {show_dims(X.dims)}, index {show_dims(index.dims)}"
    enough = len(own) == len(index.dims) and all(
        have is None or need is None or have >= need for have, need in zip(own, index.dims, strict=True)
    )
    op.require(enough, relation, "each index has a row of X")
    return TensorSpec((None, *X.dims[len(own) :]), X.dtype)


def _divide(op: OpView, index: Array, X: tuple[Array, ...], Y: list[DynamicOutput], shards: int) -> list[Array]:
    """Write indices and rows of each shard, and return which these are."""
    flat = index.reshape(-1)
    found: list[Array] = []
    each = len(Y) // shards
    for p in range(shards):
        mine = np.flatnonzero(flat % shards == p)
        values = [flat // shards if op.pack_first_input else flat]
        values += [x.reshape(math.prod(x.shape[: index.ndim]), *x.shape[index.ndim :]) for x in X]
        for out, value in zip(Y[p * each : (p + 1) * each], values, strict=True):
            np.take(value, mine, axis=0, out=out.allocate((mine.size, *value.shape[1:])))
        found.append(mine)
    return found


def partition(op: OpView, index: Array, X: tuple[Array, ...], Y: tuple[DynamicOutput, ...]) -> None:
    _divide(op, index, X, list(Y), len(Y) // (1 + len(X)))


def lengths_partition(
    op: OpView, lengths: Array, index: Array, X: tuple[Array, ...], Y: tuple[DynamicOutput, ...]
) -> None:
    each = 2 + len(X)
    starts = starts_of(op, "lengths", lengths.reshape(-1), index.size, "indices")
    others = [out for i, out in enumerate(Y) if i % each]
    for p, mine in enumerate(_divide(op, index, X, others, len(Y) // each)):
        Y[p * each].allocate((lengths.size,))[...] = np.diff(np.searchsorted(mine, starts))


@dataclass(frozen=True, slots=True)
class Partition:
    """What is divided beside the index and its rows: text, letters before the index, shape of the index, example."""

    doc: str
    before: tuple[BlobSpec, ...]
    index: str | None
    example: str


@family(
    {
        "Partition": Partition(
            "For each shard its indices and its rows of each X.",
            (),
            None,
            """
    >>> run("Partition", [4, 7, 6], [1.0, 2.0, 3.0], pack_first_input=1, outputs=4)
    (array([2, 3], dtype=int32), array([1., 3.], dtype=float32), array([3], dtype=int32), array([2.], dtype=float32))
    """,
        ),
        "LengthsPartition": Partition(
            "For each shard how many rows of each segment it gets, its indices and its rows of each X.",
            (LENGTHS,),
            "I",
            """
    >>> run("LengthsPartition", [1, 2], [4, 7, 6], outputs=4)
    (array([1, 1], dtype=int32), array([4, 6], dtype=int32), array([0, 1], dtype=int32), array([7], dtype=int32))
    """,
        ),
    }
)
def partitions(type: str, row: Partition) -> OpSchema:
    """Rows divided among shards."""
    made = schema(
        type,
        row.doc,
        inputs=[
            *row.before,
            blob("index", INDEX, row.index, role=Role.INDEX, doc="divided by P; negative ones leave what floors leave"),
            blob(
                "X", variadic=True, optional=True, role=Role.DATA, doc="(I..., *S), of any type; more rows are not read"
            ),
        ],
        outputs=[blob("Y", variadic=True, dynamic=True, doc="P times as many as inputs")],
        args=[arg("pack_first_input", bool, False, doc="give the quotient of an index, not the index")],
        effects=Effects.PURE,
        no_gradient=ends("Caffe2 ends the backward pass here"),
        source="Caffe2",
        example=row.example,
    )

    @made.validate
    def validate(op: OpView) -> None:
        inputs, outputs = len(op.definition.input), len(op.definition.output)
        if outputs % inputs:
            message = f"there are {outputs} outputs for {inputs} inputs"
            raise op.error(SchemaError, message, "each shard has an output for each input")

    @made.infer
    def infer(
        op: OpView, index: TensorSpec, X: tuple[TensorSpec, ...], lengths: TensorSpec | None = None
    ) -> tuple[TensorSpec, ...]:
        one = [TensorSpec((None,), index.dtype), *(_rows(op, i, index, spec) for i, spec in enumerate(X))]
        if lengths is not None:
            one.insert(0, TensorSpec((None,), lengths.dtype))
        return tuple(one) * (len(op.definition.output) // len(one))

    @made.cost
    def cost(op: OpView, index: TensorSpec, X: tuple[TensorSpec, ...], **others: object) -> Cost:
        del op, others
        return streamed((index, *X), (index, *X), flops=index.size)

    if row.before:
        kernel(made)(lengths_partition)
    else:
        kernel(made)(partition)
    return made
