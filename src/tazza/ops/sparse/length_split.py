"""Lengths that are divided, and lengths that are one: LengthsSplit, LengthsToShape. N segments. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.errors import ArgumentError, NumericError, SchemaError
from tazza.operator import (
    INDEX,
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
)
from tazza.ops.shape.axis import require_within
from tazza.tensor import DataType, TensorSpec

LENGTHS = blob("lengths", DataType.INT32, "N", role=Role.INDEX, doc="rows of each segment, not negative")
COUNTS = INDEX | {DataType.BOOL, DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16}

LENGTHS_SPLIT = schema(
    "LengthsSplit",
    "Y = each length as n lengths that add up to it, of which the first ones may be larger by 1.",
    inputs=[
        LENGTHS,
        blob("n", COUNTS, optional=True, role=Role.SHAPE, doc="a list of one element, which wins over the argument"),
    ],
    outputs=[blob("Y", DataType.INT32, doc="(N * n)")],
    args=[arg("n_split", int, 0, doc="n, at least 1; needed without the input")],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Caffe2",
    example="""
    >>> run("LengthsSplit", [5, 0], n_split=3)
    array([2, 2, 1, 0, 0, 0], dtype=int32)
    """,
)


@LENGTHS_SPLIT.validate
def lengths_split_validate(op: OpView) -> None:
    if not op.has_input("n") and not op.given("n_split"):
        raise op.error(SchemaError, "there is no n", "give the argument n_split, or a second input")
    if op.given("n_split") and op.n_split < 1 and not op.has_input("n"):
        raise op.error(ArgumentError, f"argument 'n_split' = {op.n_split} is below 1")


@LENGTHS_SPLIT.infer
def lengths_split_infer(op: OpView, lengths: TensorSpec, n: TensorSpec | None) -> TensorSpec:
    if n is not None and n.dims is not None:
        op.require(tuple(n.dims) in ((1,), (None,)), "n must be a list of one element")
    given = op.value_of("n") if n is not None else np.array([op.n_split])
    if given is None or lengths.dims is None or lengths.dims[0] is None:
        return TensorSpec((None,), DataType.INT32)
    count = int(given.reshape(()))
    if count < 1:
        raise op.error(NumericError, f"n is {count}, it must be at least 1")
    return TensorSpec((lengths.dims[0] * count,), DataType.INT32)


@LENGTHS_SPLIT.cost
def lengths_split_cost(op: OpView, lengths: TensorSpec, Y: TensorSpec, **others: object) -> Cost:
    del op, others
    return Cost(Y.size, lengths.nbytes, Y.nbytes)


@kernel(LENGTHS_SPLIT)
def lengths_split(op: OpView, lengths: Array, Y: Array) -> None:
    require_within(op, "lengths", lengths, 0)
    if lengths.size:
        count = Y.size // lengths.size
        Y[...] = (lengths[:, None] // count + (np.arange(count) < lengths[:, None] % count)).reshape(-1)


LENGTHS_TO_SHAPE = schema(
    "LengthsToShape",
    "Y = [N, the length that all segments have].",
    inputs=[LENGTHS],
    outputs=[blob("Y", DataType.INT32)],
    effects=Effects.PURE,
    no_gradient=forbidden("whole numbers have no gradient"),
    source="Caffe2",
    example="""
    >>> run("LengthsToShape", [4, 4, 4])
    array([3, 4], dtype=int32)
    """,
)


@LENGTHS_TO_SHAPE.infer
def lengths_to_shape_infer(op: OpView, lengths: TensorSpec) -> TensorSpec:
    empty = lengths.dims is not None and lengths.dims[0] == 0
    op.require(not empty, "there are no lengths", "of none nobody knows the length")
    return TensorSpec((2,), DataType.INT32)


@kernel(LENGTHS_TO_SHAPE)
def lengths_to_shape(op: OpView, lengths: Array, Y: Array) -> None:
    require_within(op, "lengths", lengths, 0)
    if (lengths != lengths[0]).any():
        at = int((lengths != lengths[0]).argmax())
        raise op.error(NumericError, f"lengths[{at}] is {lengths[at]}, and lengths[0] is {lengths[0]}", "all are equal")
    Y[...] = lengths.size, lengths[0]
