"""Ids of examples: lists of them united, and where each id stands: MergeIdLists, KeySplit. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.errors import ArgumentError, NumericError
from tazza.operator import (
    INDEX,
    Array,
    DynamicOutput,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    not_written,
    pairs,
    schema,
)
from tazza.ops.shape.axis import agree, require_one_type, require_within
from tazza.tensor import DataType, TensorSpec

OUTPUTS_MAX = 2**20

MERGE_ID_LISTS = schema(
    "MergeIdLists",
    """Y = for each of N examples the ids that stand in any of its lists, each once and in order.

    A list k has lengths (N) and ids (as many as these add up to, or more).""",
    inputs=[
        blob("lengths", DataType.INT32, "_", variadic=True, role=Role.INDEX, doc="(N): ids of each example"),
        blob("ids", INDEX, "_", variadic=True, role=Role.DATA, doc="of one type"),
    ],
    outputs=[blob("Y_lengths", DataType.INT32), blob("Y", dynamic=True)],
    relations=[pairs("lengths", "ids")],
    effects=Effects.PURE,
    no_gradient=ends("ids have no gradient"),
    source="Caffe2",
    example="""
    >>> run("MergeIdLists", [2, 0], np.array([7, 5]), [1, 2], np.array([5, 9, 8]))
    (array([2, 2], dtype=int32), array([5, 7, 8, 9]))
    """,
)
KEY_SPLIT = schema(
    "KeySplit",
    """Y[k] = where k stands in X, in order; one Y for each key below `categorical_limit`.

    A Y more stays empty.""",
    inputs=[blob("X", DataType.INT64, doc="keys of any shape, which is not looked at, in [0, categorical_limit)")],
    outputs=[blob("Y", DataType.INT32, variadic=True, dynamic=True)],
    args=[arg("categorical_limit", int, minimum=1, maximum=OUTPUTS_MAX, doc="how many keys there are")],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Caffe2",
    example="""
    >>> [one.tolist() for one in run("KeySplit", np.array([0, 1, 0]), outputs=2, categorical_limit=2)]
    [[0, 2], [1]]
    """,
)


@MERGE_ID_LISTS.infer
def merge_id_lists_infer(
    op: OpView, lengths: tuple[TensorSpec, ...], ids: tuple[TensorSpec, ...]
) -> tuple[TensorSpec, TensorSpec]:
    first = None if lengths[0].dims is None else lengths[0].dims[0]
    for k, spec in enumerate(lengths):
        found = None if spec.dims is None else spec.dims[0]
        op.require(
            agree(first, found), f"lengths{k} has {found} elements, lengths0 has {first}", "one for each example"
        )
    return TensorSpec((first,), DataType.INT32), TensorSpec((None,), require_one_type(op, "ids", ids))


@kernel(MERGE_ID_LISTS)
def merge_id_lists(
    op: OpView, lengths: tuple[Array, ...], ids: tuple[Array, ...], Y_lengths: Array, Y: DynamicOutput
) -> None:
    N = Y_lengths.size
    for k, (own, values) in enumerate(zip(lengths, ids, strict=True)):
        _check_lengths(op, k, own, values.size)
    examples = np.concatenate([np.repeat(np.arange(N), own) for own in lengths])
    values = np.concatenate([one[: own.sum()] for own, one in zip(lengths, ids, strict=True)])
    order = np.lexsort((values, examples))
    examples, values = examples[order], values[order]
    new = np.ones(values.size, bool)
    new[1:] = (np.diff(examples) != 0) | (values[1:] != values[:-1])
    Y_lengths[...] = np.bincount(examples[new], minlength=N)
    Y.allocate((int(new.sum()),))[...] = values[new]


def _check_lengths(op: OpView, k: int, lengths: Array, count: int) -> None:
    require_within(op, f"lengths{k}", lengths, 0)
    total = int(lengths.sum(dtype=np.int64))
    if total > count:
        raise op.error(NumericError, f"lengths{k} add up to {total}, and ids{k} has {count} elements")


@KEY_SPLIT.validate
def key_split_validate(op: OpView) -> None:
    outputs = len(op.output_letters)
    if outputs < op.categorical_limit:
        message = f"categorical_limit = {op.categorical_limit} keys for {outputs} outputs"
        raise op.error(ArgumentError, message, "one output for each key")


@KEY_SPLIT.infer
def key_split_infer(op: OpView, X: TensorSpec) -> tuple[TensorSpec, ...]:
    del X
    return (TensorSpec((None,), DataType.INT32),) * len(op.output_letters)


@kernel(KEY_SPLIT)
def key_split(op: OpView, X: Array, Y: tuple[DynamicOutput, ...]) -> None:
    require_within(op, "X", X, 0, op.categorical_limit)
    keys = X.reshape(-1)
    order = np.argsort(keys, kind="stable")
    bounds = np.searchsorted(keys[order], np.arange(len(Y) + 1))
    for k, out in enumerate(Y):
        out.allocate((int(bounds[k + 1] - bounds[k]),))[...] = order[bounds[k] : bounds[k + 1]]
