"""The same elements in another shape: Reshape, Flatten, FlattenToVec, Squeeze, ExpandDims, ResizeLike.

X has the shape S, Y another shape with as many elements, in the same (row-major) order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import (
    INDEX,
    Array,
    Cost,
    Dims,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    forbidden,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.operator.told import tells
from tazza.ops.shape.axis import RANK_MAX, agree, product, unknown_dims
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

RESHAPE = schema(
    "Reshape",
    """Y = X in the shape that `shape` or the input new_shape says; old_shape = S.

    A size of -1, of which there may be one, is what is left for it; 0 takes over the size that X has at that place. In
    an empty X, 0 means 0, and -1 too.""",
    inputs=[
        blob("X"),
        blob("new_shape", INDEX, optional=True, host=True, role=Role.SHAPE, doc="the new shape, one-dimensional"),
    ],
    outputs=[
        blob("Y", "X"),
        blob("old_shape", host=True, doc="int64, or the type of new_shape"),
    ],
    args=[arg("shape", list[int], None, minimum=-1, doc="the new shape, when there is no input new_shape")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Reshape", [[1, 2, 3], [4, 5, 6]], shape=[-1, 2])
    (array([[1, 2],
           [3, 4],
           [5, 6]], dtype=int32), array([2, 3]))
    """,
)


@RESHAPE.validate
def reshape_validate(op: OpView) -> None:
    if op.has_input("new_shape") == (op.shape is not None):
        raise op.error(
            ArgumentError,
            "no shape" if op.shape is None else f"shape = {op.shape} is given, and an input new_shape too",
            hint="give either the argument shape or the input new_shape",
        )
    if op.shape is not None and op.shape.count(-1) > 1:
        raise op.error(ArgumentError, f"shape = {op.shape} leaves more than one size open", hint="give all but one")


@RESHAPE.infer
def reshape_infer(op: OpView, X: TensorSpec, new_shape: TensorSpec | None) -> tuple[TensorSpec, TensorSpec]:
    rank = None if X.dims is None else len(X.dims)
    old_shape = TensorSpec((rank,), DataType.INT64 if new_shape is None else new_shape.dtype)
    if new_shape is None:
        return TensorSpec(reshaped(op, X.dims, op.shape), X.dtype), old_shape
    if new_shape.dims is not None:
        relation = f"new_shape has the shape {show_dims(new_shape.dims)}, it must be a list of sizes"
        op.require(len(new_shape.dims) == 1, relation)
    value = op.value_of("new_shape")
    if value is not None:
        return TensorSpec(reshaped(op, X.dims, value.tolist()), X.dtype), old_shape
    count = None if new_shape.dims is None else new_shape.dims[0]
    return TensorSpec(unknown_dims(op, "new_shape", count), X.dtype), old_shape


def reshaped(op: OpView, dims: Sequence[int | None] | None, sizes: Sequence[int]) -> Dims | None:
    """Return the shape that `sizes` mean for a blob of shape `dims`.

    Raises:
        ShapeError: it has another number of elements, or leaves more than one size open.
    """
    op.require(len(sizes) <= RANK_MAX, f"the shape has {len(sizes)} sizes, a tensor has at most {RANK_MAX} dimensions")
    relation = f"the shape {list(sizes)}"
    op.require(all(size >= -1 for size in sizes), f"{relation} has a size below -1")
    op.require(list(sizes).count(-1) <= 1, f"{relation} leaves more than one size open", "give all but one")
    if dims is None:
        return tuple(None if size < 1 else size for size in sizes)
    total = product(dims)
    taken = [dims[i] if size == 0 and total != 0 and i < len(dims) else size for i, size in enumerate(sizes)]
    rest = product([size for size in taken if size != -1])
    if total is None or rest is None:
        return tuple(None if size == -1 else size for size in taken)
    relation = f"X {show_dims(dims)} has {total} elements, {relation}"
    if -1 not in taken:
        op.require(rest == total, f"{relation} has {rest}")
        return tuple(taken)
    op.require(rest != 0 or total == 0, f"{relation} has none")
    op.require(rest == 0 or total % rest == 0, f"{relation} a multiple of {rest}")
    left = 0 if rest == 0 else total // rest
    return tuple(left if size == -1 else size for size in taken)


@RESHAPE.cost
def reshape_cost(op: OpView, X: TensorSpec, new_shape: TensorSpec | None, Y: TensorSpec, old_shape: TensorSpec) -> Cost:
    del op
    return streamed((X, new_shape), (Y, old_shape))


def reshape_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("Reshape", [g.dY, g.old_shape], [g.dX, f"_{g.dX}_dims"])


tells(RESHAPE, lambda op, specs: {"old_shape": specs[0].shape})
RESHAPE.gradient(reshape_gradient, copy_arguments=False)  # back to old_shape, whatever the arguments were


@kernel(RESHAPE)
def reshape(X: Array, Y: Array, old_shape: Array) -> None:
    old_shape[...] = X.shape
    np.copyto(Y, X.reshape(Y.shape))


def regroup(X: Array, Y: Array) -> None:
    """Y = X in the shape of Y."""
    np.copyto(Y, X.reshape(Y.shape))


def regroup_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    """Reading X and writing Y is all there is to do."""
    del op
    return streamed((X,), (Y,))


def back_to_shape_of_x(g: GradientRequest) -> list[OperatorDef]:
    """Give dY the shape of X, by ResizeLike."""
    return g.emit("ResizeLike", [g.dY, g.X], [g.dX])


FLATTEN = schema(
    "Flatten",
    """Y = X as a matrix: (product of the sizes before `axis`, product of those from it on).

    The product of no sizes is 1.""",
    inputs=[blob("X")],
    outputs=[blob("Y", "X")],
    args=[arg("axis", int, 1, minimum=0, doc="the first axis that goes into the columns")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Flatten", [[[1, 2], [3, 4]]], axis=2)
    array([[1, 2],
           [3, 4]], dtype=int32)
    """,
)


@FLATTEN.infer
def flatten_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return TensorSpec((None, None), X.dtype)
    relation = f"axis = {op.axis} is behind the last of X, which has {len(X.dims)} dimensions {show_dims(X.dims)}"
    op.require(op.axis <= len(X.dims), relation, "axis counts from 0; the number of dimensions makes one column")
    return TensorSpec((product(X.dims[: op.axis]), product(X.dims[op.axis :])), X.dtype)


FLATTEN.cost(regroup_cost)
FLATTEN.gradient(back_to_shape_of_x)
kernel(FLATTEN)(regroup)


FLATTEN_TO_VEC = schema(
    "FlattenToVec",
    "Y = X as a vector. X has at least one dimension.",
    inputs=[blob("X")],
    outputs=[blob("Y", "X")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("FlattenToVec", [[1, 2], [3, 4]])
    array([1, 2, 3, 4], dtype=int32)
    """,
)


@FLATTEN_TO_VEC.infer
def flatten_to_vec_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return TensorSpec((None,), X.dtype)
    op.require(len(X.dims) >= 1, "X has 0 dimensions, it needs at least 1", "use Reshape with shape=[1]")
    return TensorSpec((product(X.dims),), X.dtype)


FLATTEN_TO_VEC.cost(regroup_cost)
FLATTEN_TO_VEC.gradient(back_to_shape_of_x)
kernel(FLATTEN_TO_VEC)(regroup)


def some_dims(op: OpView) -> None:
    """Refuse an empty list of axes."""
    if not op.dims:
        raise op.error(ArgumentError, "dims = [] names no axis", hint="give at least one")


SQUEEZE = schema(
    "Squeeze",
    "Y = X without the axes `dims`, whose size is 1. An axis may be named twice.",
    inputs=[blob("X")],
    outputs=[blob("Y", "X")],
    args=[arg("dims", list[int], minimum=0, doc="axes of X to drop, counted from 0")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Squeeze", [[[1], [2]]], dims=[0, 2])
    array([1, 2], dtype=int32)
    """,
)


@SQUEEZE.infer
def squeeze_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return TensorSpec(None, X.dtype)
    op.require(
        max(op.dims) < len(X.dims), f"dims = {op.dims}, X has {len(X.dims)} dimensions {show_dims(X.dims)} to drop from"
    )
    for axis in cast("list[int]", op.dims):
        op.require(agree(X.dims[axis], 1), f"axis {axis} of X {show_dims(X.dims)} has the size {X.dims[axis]}, not 1")
    return TensorSpec(tuple(size for axis, size in enumerate(X.dims) if axis not in op.dims), X.dtype)


@SQUEEZE.gradient
def squeeze_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("ExpandDims", [g.dY], [g.dX])


SQUEEZE.validate(some_dims)
SQUEEZE.cost(regroup_cost)
kernel(SQUEEZE)(regroup)


EXPAND_DIMS = schema(
    "ExpandDims",
    "Y = X with new axes of size 1, which are the axes `dims` of Y. An axis may be named twice.",
    inputs=[blob("X")],
    outputs=[blob("Y", "X")],
    args=[arg("dims", list[int], minimum=0, doc="axes of Y to add, counted from 0")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("ExpandDims", [1, 2], dims=[0, 2]).shape
    (1, 2, 1)
    """,
)


@EXPAND_DIMS.infer
def expand_dims_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return TensorSpec(None, X.dtype)
    rank = len(X.dims) + len(op.dims)
    relation = f"dims = {op.dims} with X of {len(X.dims)} dimensions {show_dims(X.dims)} gives Y {rank} dimensions"
    op.require(max(op.dims) < rank, relation, "dims are axes of Y, counted from 0")
    shape = list(X.dims)
    for axis in sorted(set(op.dims)):
        shape.insert(axis, 1)
    return TensorSpec(tuple(shape), X.dtype)


@EXPAND_DIMS.gradient
def expand_dims_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("Squeeze", [g.dY], [g.dX])


EXPAND_DIMS.validate(some_dims)
EXPAND_DIMS.cost(regroup_cost)
kernel(EXPAND_DIMS)(regroup)


RESIZE_LIKE = schema(
    "ResizeLike",
    "Y = X in the shape of another tensor with as many elements. The element type stays.",
    inputs=[blob("X"), blob("like", role=Role.SHAPE, doc="has the shape; its elements do not count")],
    outputs=[blob("Y", "X")],
    args=[arg("axis", int, 0, doc="no effect; the gradient of Flatten brings it")],
    effects=Effects.PURE,
    no_gradient=forbidden("it is itself what gradients of others are made of, as in Caffe2"),
    source="Caffe2",
    example="""
    >>> run("ResizeLike", [1, 2, 3, 4], [[0.0, 0.0], [0.0, 0.0]])
    array([[1, 2],
           [3, 4]], dtype=int32)
    """,
)


@RESIZE_LIKE.infer
def resize_like_infer(op: OpView, X: TensorSpec, like: TensorSpec) -> TensorSpec:
    if X.dims is not None and like.dims is not None:
        relation = f"X {show_dims(X.dims)} has not as many elements as like {show_dims(like.dims)}"
        op.require(agree(product(X.dims), product(like.dims)), relation)
    return TensorSpec(like.dims, X.dtype)


@RESIZE_LIKE.cost
def resize_like_cost(op: OpView, X: TensorSpec, like: TensorSpec, Y: TensorSpec) -> Cost:
    del op, like
    return streamed((X,), (Y,))


kernel(RESIZE_LIKE)(regroup)
