"""Tensors in a row as one value: CreateTensorVector, TensorVectorSize, ConcatTensorVector, CollectTensor."""

from __future__ import annotations

import numpy as np

from tazza.device import Generator
from tazza.operator import (
    Array,
    Effects,
    Operator,
    OpView,
    Role,
    arg,
    as_many,
    blob,
    each,
    forbidden,
    host_kernel,
    schema,
)
from tazza.ops.data.reservoir import drawn_place
from tazza.tensor import Blob, DataType
from tazza.tensor.blob import blob_type

VECTOR = "std::unique_ptr<std::vector<caffe2::Tensor> >"
NO_GRADIENT = forbidden("a row of tensors is no tensor")


@blob_type(VECTOR)
class TensorVector:
    """Tensors in a row; none of them is written any more."""

    def __init__(self) -> None:
        self.tensors: list[Array] = []

    def __len__(self) -> int:
        return len(self.tensors)


ON_VECTOR = blob("vector", type_name=VECTOR, role=Role.STATE)

CREATE_TENSOR_VECTOR = schema(
    "CreateTensorVector",
    """vector = a new row without tensors.

    A blob that has something in it already is given the new row instead.""",
    outputs=[blob("vector", type_name=VECTOR)],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> len(run("CreateTensorVector"))
    0
    """,
)


@host_kernel(CREATE_TENSOR_VECTOR)
def create_tensor_vector(vector: Blob) -> None:
    vector.set(TensorVector())


TENSOR_VECTOR_SIZE = schema(
    "TensorVectorSize",
    "size = how many tensors are in the row.",
    inputs=[ON_VECTOR],
    outputs=[blob("size", DataType.INT32, "", host=True)],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("TensorVectorSize", run("CreateTensorVector"))
    array(0, dtype=int32)
    """,
)


@host_kernel(TENSOR_VECTOR_SIZE)
def tensor_vector_size(vector: Blob, size: Blob) -> None:
    size.tensor().assign(np.array(len(vector.get(TensorVector)), np.int32))


CONCAT_TENSOR_VECTOR = schema(
    "ConcatTensorVector",
    "Y = the rows of all tensors, one behind the other; they agree beyond their first extent, and in element type.",
    inputs=[ON_VECTOR],
    outputs=[blob("Y", dynamic=True)],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> vector = run("CreateTensorVector")
    >>> _ = run("CollectTensor", vector, [[1, 2], [3, 4]], num_to_collect=2)
    >>> run("ConcatTensorVector", vector).tolist()
    [[1, 2], [3, 4]]
    """,
)


@CONCAT_TENSOR_VECTOR.infer
def concat_tensor_vector_infer(op: OpView, vector: object) -> None:
    del op, vector  # what is in the row is known when it is there


@host_kernel(CONCAT_TENSOR_VECTOR)
def concat_tensor_vector(op: OpView, vector: Blob, Y: Blob) -> None:
    tensors = vector.get(TensorVector).tensors
    op.require(len(tensors) > 0, "there is no tensor in the row, so that nobody knows what Y is")
    op.require(all(one.ndim > 0 for one in tensors), "a tensor has rank 0, it has rows")
    kinds = {(one.shape[1:], one.dtype) for one in tensors}
    op.require(len(kinds) == 1, f"tensors differ beyond their first extent: {sorted(map(str, kinds))}")
    Y.put(np.concatenate(tensors))


COLLECT_TENSOR = schema(
    "CollectTensor",
    """collected[k] = vector[k] with a copy of X[k]; all at the same place, or none.

    The first `num_to_collect` are kept; from then on the one of run n (from 0) takes the place of one of these with
    probability num_to_collect / (n + 1), so that each is among them equally likely.""",
    inputs=[
        blob("vector", type_name=VECTOR, variadic=True, role=Role.STATE),
        blob("X", variadic=True, role=Role.DATA),
    ],
    outputs=[blob("collected", type_name=VECTOR, variadic=True)],
    must_in_place={"collected": each("vector")},
    relations=[as_many("X", "vector"), as_many("collected", "vector")],
    args=[arg("num_to_collect", int, minimum=1, doc="most tensors to keep")],
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Vitter 1985, algorithm R",
    example="""
    >>> vector = run("CreateTensorVector")
    >>> _ = run("CollectTensor", vector, [5, 6], num_to_collect=3)
    >>> len(vector)
    1
    """,
)


@host_kernel(COLLECT_TENSOR)
class CollectTensor:
    """Counts its runs."""

    def __init__(self, operator: Operator) -> None:
        del operator
        self._visited = 0

    def run(self, op: OpView, random: Generator, collected: tuple[Blob, ...], X: tuple[Blob, ...]) -> None:
        place = drawn_place(op, random, self._visited)
        self._visited += 1
        if place is None:
            return
        rows = [target.get(TensorVector).tensors for target in collected]
        for row, source in zip(rows, X, strict=True):
            copy = np.array(source.tensor().plain())
            op.require(place <= len(row), f"a row has {len(row)} tensors, this one is number {place}")
            row[place : place + 1] = [copy]
