"""Elements and rows that are put into a tensor: Scatter, ScatterAssign. Source: Caffe2."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

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
    schema,
    show_dims,
)
from tazza.ops.shape.axis import product
from tazza.ops.sparse.segment import check_rows
from tazza.tensor import DataType, TensorSpec

NO_GRADIENT = forbidden("it overwrites elements of a tensor")
ASSIGNABLE = INDEX | {DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.UINT8}

SCATTER = schema(
    "Scatter",
    """Y = X, but Y[b, indices[b, i, s], s] = updates[b, i, s]: b counts before `axis`, s behind it.

    X (B, A, S) and indices (b, I, s) are read as three axes, with b <= B and s <= S. The last of several updates of
    one element stays.""",
    inputs=[
        blob("X"),
        blob("indices", INDEX, role=Role.INDEX, doc="(b, I, s), each in [0, A)"),
        blob("updates", "X", role=Role.DATA, doc="of any shape; as many elements as indices are read"),
    ],
    outputs=[blob("Y", like="X")],
    args=[arg("axis", int, 1, doc="an axis of X and of indices; negative ones count from the end of X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("Scatter", [[0, 0, 0], [0, 0, 0]], [[2], [0]], [[7], [8]])
    array([[0, 0, 7],
           [8, 0, 0]], dtype=int32)
    """,
)
SCATTER_ASSIGN = schema(
    "ScatterAssign",
    "Y[indices[k]] = row k of rows, in place of X; other rows stay, and of several for one row the last.",
    inputs=[
        blob("X", ASSIGNABLE, role=Role.PARAMETER, doc="(R, ...)"),
        blob("indices", INDEX, role=Role.INDEX, doc="K indices of any shape, each in [0, R)"),
        blob("rows", "X", role=Role.DATA, doc="as many elements as K rows of X"),
    ],
    outputs=[blob("Y", like="X")],
    must_in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("ScatterAssign", np.array([[1, 2], [3, 4]], np.int32), [0], [[7, 8]])
    array([[7, 8],
           [3, 4]], dtype=int32)
    """,
)


def parted(op: OpView, letter: str, dims: Sequence[int | None], rank: int) -> tuple[int | None, int | None, int | None]:
    """Return how many elements a blob has before, along and behind the axis of an X with `rank` axes.

    Raises:
        ShapeError: X or the blob has no such axis.
    """
    op.require(-rank <= op.axis < rank, f"axis = {op.axis} of an X of rank {rank}")
    axis: int = op.axis % rank
    op.require(axis < len(dims), f"{letter} has the shape {show_dims(dims)}, it has no axis {axis}")
    extent: int | None = dims[axis]
    return product(dims[:axis]), extent, product(dims[axis + 1 :])


def at_most(first: int | None, second: int | None) -> bool:
    """Whether an extent is not above another, as far as both are known."""
    return first is None or second is None or first <= second


@SCATTER.infer
def scatter_infer(op: OpView, X: TensorSpec, indices: TensorSpec, updates: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return X
    whole = parted(op, "X", X.dims, len(X.dims))
    if indices.dims is not None:
        part = parted(op, "indices", indices.dims, len(X.dims))
        relation = f"indices has the shape {show_dims(indices.dims)}, X has {show_dims(X.dims)}"
        fits = at_most(part[0], whole[0]) and at_most(part[2], whole[2])
        op.require(fits, relation, f"before and behind axis {op.axis} it cannot have more than X")
    if indices.dims is not None and updates.dims is not None:
        relation = f"updates has the shape {show_dims(updates.dims)}, indices {show_dims(indices.dims)}"
        op.require(at_most(product(indices.dims), product(updates.dims)), relation, "one update for each index")
    return X


@SCATTER.cost
def scatter_cost(op: OpView, X: TensorSpec, indices: TensorSpec, updates: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    moved = indices.size * Y.dtype.numpy.itemsize
    return Cost(0, X.nbytes + indices.nbytes + min(moved, updates.nbytes), Y.nbytes)


@kernel(SCATTER)
def scatter(op: OpView, X: Array, indices: Array, updates: Array, Y: Array) -> None:
    axis = op.axis % X.ndim
    whole, part = ((math.prod(s[:axis]), s[axis], math.prod(s[axis + 1 :])) for s in (X.shape, indices.shape))
    check_rows(op, indices, whole[1], "indices")
    at = indices.reshape(part)
    Y[...] = X
    before, behind = np.arange(part[0])[:, None, None], np.arange(part[2])
    Y.reshape(whole)[before, at, behind] = updates.reshape(-1)[: at.size].reshape(part)


@SCATTER_ASSIGN.infer
def scatter_assign_infer(op: OpView, X: TensorSpec, indices: TensorSpec, rows: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return X
    op.require(len(X.dims) > 0, "X has rank 0, it must have rows")
    if indices.dims is not None and rows.dims is not None:
        wanted, found = product((*indices.dims, *X.dims[1:])), product(rows.dims)
        relation = f"rows has {found} elements, {show_dims(indices.dims)} rows {show_dims(X.dims[1:])} have {wanted}"
        op.require(None in (wanted, found) or wanted == found, relation, "one row for each index")
    return X


@SCATTER_ASSIGN.cost
def scatter_assign_cost(op: OpView, X: TensorSpec, indices: TensorSpec, rows: TensorSpec, Y: TensorSpec) -> Cost:
    del op, X
    return Cost(0, indices.nbytes + rows.nbytes, rows.nbytes, Y.nbytes)


@kernel(SCATTER_ASSIGN)
def scatter_assign(op: OpView, X: Array, indices: Array, rows: Array, Y: Array) -> None:
    at = indices.reshape(-1)
    check_rows(op, at, len(X), "indices")
    Y[...] = X
    Y[at] = rows.reshape(at.size, *X.shape[1:])
