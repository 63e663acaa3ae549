"""The axes of a tensor in another order: Transpose, NCHW2NHWC, NHWC2NCHW.

X has the shape S; axis i of Y is axis `axes[i]` of X. N images, C channels, D... one or more spatial axes.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    arg,
    blob,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.operator.definition import make_argument
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

TRANSPOSABLE = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.INT32, DataType.INT64})


def transpose_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    """Reading X and writing Y is all there is to do."""
    del op
    return streamed((X,), (Y,))


TRANSPOSE = schema(
    "Transpose",
    "Y = X with its axes in the order `axes`, by default in reverse.",
    inputs=[blob("X", TRANSPOSABLE)],
    outputs=[blob("Y", "X")],
    args=[arg("axes", list[int], [], minimum=0, doc="axis of X for each axis of Y; empty for the reverse order")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Transpose", [[1, 2, 3], [4, 5, 6]])
    array([[1, 4],
           [2, 5],
           [3, 6]], dtype=int32)
    """,
)


@TRANSPOSE.validate
def transpose_validate(op: OpView) -> None:
    if sorted(op.axes) != list(range(len(op.axes))):
        raise op.error(ArgumentError, f"axes = {op.axes} is not a permutation of {list(range(len(op.axes)))}")


def transpose_axes(op: OpView, rank: int) -> tuple[int, ...]:
    """Return the axis of X for each axis of Y."""
    return tuple(op.axes) if op.axes else tuple(reversed(range(rank)))


@TRANSPOSE.infer
def transpose_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return TensorSpec(None, X.dtype)
    axes = transpose_axes(op, len(X.dims))
    relation = f"axes = {op.axes} has {len(axes)} axes, X has {len(X.dims)} dimensions {show_dims(X.dims)}"
    op.require(len(axes) == len(X.dims), relation)
    return TensorSpec(tuple(X.dims[axis] for axis in axes), X.dtype)


TRANSPOSE.cost(transpose_cost)


def transposed_back(op: OpView, behind: OpView) -> bool:
    """Whether the axes of the second are those of the first turned round; in reverse is so of itself."""
    there, back = op.axes, behind.axes
    return len(there) == len(back) and [there[axis] for axis in back] == list(range(len(there)))


TRANSPOSE.undone_by("Transpose", when=transposed_back)


def transpose_gradient(g: GradientRequest) -> list[OperatorDef]:
    """Transpose back: the same arguments, but for `axes`, which are turned round."""
    (back,) = g.emit("Transpose", [g.dY], [g.dX])
    axes = cast("list[int]", g.op.axes)
    turned = [axes.index(axis) for axis in range(len(axes))]
    for argument in g.definition.arg:
        back.arg.append(make_argument("axes", turned) if argument.name == "axes" and axes else argument)
    return [back]


TRANSPOSE.gradient(transpose_gradient, copy_arguments=False)


@kernel(TRANSPOSE)
def transpose(op: OpView, X: Array, Y: Array) -> None:
    np.copyto(Y, X.transpose(transpose_axes(op, X.ndim)))


NCHW2NHWC = schema(
    "NCHW2NHWC",
    "Y = X with its channels, axis 1, last.",
    inputs=[blob("X", FLOAT, doc="(N, C, D...)")],
    outputs=[blob("Y", "X", doc="(N, D..., C)")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("NCHW2NHWC", np.arange(4, dtype="f").reshape(1, 2, 1, 2))
    array([[[[0., 2.],
             [1., 3.]]]], dtype=float32)
    """,
)


def image_dims(op: OpView, X: TensorSpec) -> tuple[int | None, ...] | None:
    """Return the shape of a batch of images, or None where nothing is known.

    Raises:
        ShapeError: it has less than three dimensions.
    """
    if X.dims is not None:
        relation = f"X has {len(X.dims)} dimensions {show_dims(X.dims)}, it needs images, channels and one more"
        op.require(len(X.dims) >= 3, relation)
    return None if X.dims is None else tuple(X.dims)


@NCHW2NHWC.infer
def nchw2nhwc_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    dims = image_dims(op, X)
    return TensorSpec(None if dims is None else (dims[0], *dims[2:], dims[1]), X.dtype)


NCHW2NHWC.cost(transpose_cost)
NCHW2NHWC.undone_by("NHWC2NCHW")


@NCHW2NHWC.gradient
def nchw2nhwc_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("NHWC2NCHW", [g.dY], [g.dX])


@kernel(NCHW2NHWC)
def nchw2nhwc(X: Array, Y: Array) -> None:
    np.copyto(Y, np.moveaxis(X, 1, -1))


NHWC2NCHW = schema(
    "NHWC2NCHW",
    "Y = X with its channels, the last axis, as axis 1.",
    inputs=[blob("X", FLOAT, doc="(N, D..., C)")],
    outputs=[blob("Y", "X", doc="(N, C, D...)")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("NHWC2NCHW", np.arange(4, dtype="f").reshape(1, 1, 2, 2))
    array([[[[0., 2.]],
    <BLANKLINE>
            [[1., 3.]]]], dtype=float32)
    """,
)


@NHWC2NCHW.infer
def nhwc2nchw_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    dims = image_dims(op, X)
    return TensorSpec(None if dims is None else (dims[0], dims[-1], *dims[1:-1]), X.dtype)


NHWC2NCHW.cost(transpose_cost)
NHWC2NCHW.undone_by("NCHW2NHWC")


@NHWC2NCHW.gradient
def nhwc2nchw_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("NCHW2NHWC", [g.dY], [g.dX])


@kernel(NHWC2NCHW)
def nhwc2nchw(X: Array, Y: Array) -> None:
    np.copyto(Y, np.moveaxis(X, -1, 1))
