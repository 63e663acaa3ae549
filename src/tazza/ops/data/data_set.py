"""Data sets that are checked, cut and made longer: CheckDatasetConsistency, TrimDataset, Append, AtomicAppend.

A data set is a tree of fields (`ops.data.fields`), each a tensor X[k].
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

import numpy as np

from tazza.errors import DTypeError
from tazza.operator import (
    Array,
    Effects,
    OpView,
    Role,
    arg,
    as_many,
    blob,
    each,
    forbidden,
    host_kernel,
    not_written,
    schema,
)
from tazza.ops.control.mutex import MUTEX, Mutex
from tazza.ops.data.fields import FIELDS, check_columns, read_tree
from tazza.tensor import Blob, DataType, Tensor, TensorSpec

NO_GRADIENT = forbidden("data has no gradient")
GROWTH = 2
"""How much room a tensor gets that has none left, in what it needs: appending row by row copies each a few times."""

CHECK_DATASET_CONSISTENCY = schema(
    "CheckDatasetConsistency",
    "Fails unless the fields X of a domain have as many rows as the lengths above them add up to.",
    inputs=[blob("X", variadic=True)],
    args=[FIELDS],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("CheckDatasetConsistency", np.array([2, 1], np.int32), [7, 8, 9], fields=["ids:lengths", "ids:values"])
    ()
    """,
)
TRIM_DATASET = schema(
    "TrimDataset",
    "Y = the rows of the first records of the fields X: of as many as are a multiple of `multiple_of`.",
    inputs=[blob("X", variadic=True, role=Role.STATE)],
    outputs=[blob("Y", variadic=True, dynamic=True)],
    must_in_place={"Y": each("X")},
    relations=[as_many("Y", "X")],
    args=[FIELDS, arg("multiple_of", int, 1, minimum=1, doc="records")],
    effects=Effects.STATE,
    no_gradient=not_written("Caffe2 has none"),
    source="Caffe2",
    example="""
    >>> run("TrimDataset", [5, 6, 7], fields=["x"], multiple_of=2)
    array([5, 6], dtype=int32)
    """,
)


@CHECK_DATASET_CONSISTENCY.validate
def check_dataset_consistency_validate(op: OpView) -> None:
    read_tree(op, op.fields)


TRIM_DATASET.validate(check_dataset_consistency_validate)


@host_kernel(CHECK_DATASET_CONSISTENCY)
def check_dataset_consistency(op: OpView, X: tuple[Blob, ...]) -> None:
    tree, columns = read_tree(op, op.fields), [one.tensor().plain() for one in X]
    check_columns(op, tree, columns)
    limits = tree.limits(columns)
    for field, column, domain in zip(tree.fields, columns, tree.domains, strict=True):
        op.require(
            len(column) == limits[domain],
            f"field {field.name!r} has {len(column)} rows, another one of its domain has {limits[domain]}",
        )
    top = limits[0]
    ends = tree.span(op, columns, [0] * len(limits), 0 if top is None else top).ends
    for position, end, limit in zip(tree.counting, ends[1:], limits[1:], strict=True):
        op.require(end == limit, f"{tree.fields[position].name!r} adds up to {end}, its fields have {limit} rows")


@TRIM_DATASET.infer
def trim_dataset_infer(op: OpView, X: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    for field, one in zip(read_tree(op, op.fields).fields, X, strict=False):
        if field.counts and one.dtype is not DataType.INT32:
            raise op.error(DTypeError, f"field {field.name!r} is {one.dtype}, lengths are int32")
    return tuple(TensorSpec(None if one.dims is None else (None, *one.dims[1:]), one.dtype) for one in X)


@host_kernel(TRIM_DATASET)
def trim_dataset(op: OpView, Y: tuple[Blob, ...]) -> None:
    tree, columns = read_tree(op, op.fields), [one.tensor().plain() for one in Y]
    check_columns(op, tree, columns)
    limits = tree.limits(columns)
    top = limits[0] if limits[0] is not None else 0
    count = top // op.multiple_of * op.multiple_of
    ends = tree.span(op, columns, [0] * len(limits), count).ends
    if count == top:
        return
    for target, column, domain in zip(Y, columns, tree.domains, strict=True):
        target.tensor().assign(np.array(column[: ends[domain]]))


APPEND = schema(
    "Append",
    "Y = the rows of A, then those of B; Y is A. An A without rows takes shape and element type of B.",
    inputs=[blob("A", role=Role.STATE), blob("B", role=Role.DATA)],
    outputs=[blob("Y", dynamic=True)],
    must_in_place={"Y": "A"},
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("Append", [[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]])
    array([[1., 2.],
           [3., 4.],
           [5., 6.]], dtype=float32)
    """,
)
ATOMIC_APPEND = schema(
    "AtomicAppend",
    "Y[k] = the rows of A[k], then those of B[k], as `Append`: for all k or none, while nobody else holds the mutex.",
    inputs=[
        blob("mutex", type_name=MUTEX, role=Role.STATE),
        blob("A", variadic=True, role=Role.STATE),
        blob("B", variadic=True, role=Role.DATA),
    ],
    outputs=[blob("Y", variadic=True, dynamic=True)],
    must_in_place={"Y": each("A")},
    relations=[as_many("B", "A"), as_many("Y", "A")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> mutex = run("CreateMutex")
    >>> run("AtomicAppend", mutex, [1], [[0.5]], [2, 3], [[1.5]], outputs=2)[0]
    array([1, 2, 3], dtype=int32)
    """,
)


@APPEND.infer
def append_infer(op: OpView, A: TensorSpec, B: TensorSpec) -> TensorSpec:
    del op, A  # without rows it may have any shape
    return TensorSpec(None if B.dims is None else (None, *B.dims[1:]), B.dtype)


@ATOMIC_APPEND.infer
def atomic_append_infer(
    op: OpView, mutex: object, A: Sequence[TensorSpec], B: Sequence[TensorSpec]
) -> tuple[TensorSpec, ...]:
    del mutex
    return tuple(append_infer(op, first, second) for first, second in zip(A, B, strict=True))


@host_kernel(APPEND)
def append(op: OpView, Y: Blob, B: Blob) -> None:
    _append(op, [Y], [B], None)


@host_kernel(ATOMIC_APPEND)
def atomic_append(op: OpView, mutex: Blob, Y: tuple[Blob, ...], B: tuple[Blob, ...]) -> None:
    _append(op, Y, B, mutex.get(Mutex))


def _append(op: OpView, Y: Sequence[Blob], B: Sequence[Blob], mutex: Mutex | None) -> None:
    """Append every B to its Y, once it is clear that all of them fit."""
    with nullcontext() if mutex is None else mutex:
        pairs = [(target.tensor(), source.tensor().plain()) for target, source in zip(Y, B, strict=True)]
        for (tensor, rows), target, source in zip(pairs, Y, B, strict=True):
            _check_rows(op, target.name, tensor.spec, source.name, rows)
        for tensor, rows in pairs:
            extend(tensor, rows)


def _check_rows(op: OpView, name: str, spec: TensorSpec, source: str, rows: Array) -> None:
    op.require(rows.ndim > 0, f"{source!r} has rank 0, it has rows")
    if spec.shape and spec.shape[0] == 0:
        return
    op.require(
        len(spec.shape) == rows.ndim and tuple(spec.shape[1:]) == rows.shape[1:],
        f"rows of {name!r} {spec.shape} and {source!r} {rows.shape} differ",
    )
    if spec.dtype.numpy != rows.dtype:
        raise op.error(DTypeError, f"{name!r} is {spec.dtype.label}, {source!r} is {rows.dtype}")


def extend(tensor: Tensor, rows: Array) -> None:
    """Put rows behind those of a tensor; one without rows takes shape and element type of these.

    Where there is no room left, it gets more than it needs.
    """
    before = tensor.plain()
    if len(before) == 0 or not tensor.place.is_host or tensor.storage.share_count > 1:
        tensor.assign(np.concatenate([before, rows]) if len(before) else rows)
        return
    dims = (len(before) + len(rows), *before.shape[1:])
    needed = tensor.spec.dtype.itemsize * int(np.prod(dims))
    if needed > tensor.storage.capacity_bytes - tensor.offset_bytes:
        kept = before.copy()
        tensor.resize((GROWTH * dims[0], *dims[1:]))
        tensor.array[: len(kept)] = kept
    tensor.resize(dims)
    tensor.array[len(before) :] = rows
    tensor.mark_written()
