"""What is known of a blob without its values: Shape, Size, HasElements, IsEmpty. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.operator import Array, Cost, Effects, OpView, Role, arg, blob, ends, forbidden, kernel, schema, show_dims
from tazza.tensor import DataType, TensorSpec

SHAPE = schema(
    "Shape",
    "Y = the shape of X; with `axes` the extents of these, in that order.",
    inputs=[blob("X", None, "*S", role=Role.SHAPE, doc="of any type")],
    outputs=[blob("Y", DataType.INT64, "R")],
    args=[arg("axes", list[int], [], doc="which extents, from 0 on; empty for all")],
    effects=Effects.PURE,
    no_gradient=forbidden("a shape does not change with the values"),
    source="Caffe2",
    example="""
    >>> run("Shape", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    array([2, 3])
    """,
)


@SHAPE.infer
def shape_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if op.axes and X.dims is not None:
        relation = f"axes = {op.axes} are not all axes of X, which has the shape {show_dims(X.dims)}"
        op.require(all(0 <= axis < len(X.dims) for axis in op.axes), relation, "axes count from 0")
    if not op.axes and X.dims is None:
        return TensorSpec(None, DataType.INT64)
    return TensorSpec((len(op.axes) if op.axes else len(X.dims or ()),), DataType.INT64)


@SHAPE.cost
def shape_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op, X
    return Cost(0, 0, Y.nbytes)


@kernel(SHAPE)
def shape(op: OpView, X: Array, Y: Array) -> None:
    Y[...] = np.array(X.shape, np.int64)[op.axes if op.axes else slice(None)]


SIZE = schema(
    "Size",
    "Y = the number of elements of X.",
    inputs=[blob("X", role=Role.SHAPE, doc="of any type")],
    outputs=[blob("Y", DataType.INT64, "")],
    effects=Effects.PURE,
    no_gradient=ends("a size does not change with the values"),
    source="Caffe2",
    example="""
    >>> run("Size", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    array(6)
    """,
)
HAS_ELEMENTS = schema(
    "HasElements",
    "Y = whether one of X0, X1 ... has elements.",
    inputs=[blob("X", variadic=True, role=Role.SHAPE, doc="each of any type")],
    outputs=[blob("Y", DataType.BOOL, "", host=True)],
    effects=Effects.PURE,
    no_gradient=forbidden("a truth value has none"),
    source="Caffe2",
    example="""
    >>> run("HasElements", [], [7, 8])
    array(True)
    """,
)
IS_EMPTY = schema(
    "IsEmpty",
    "Y = whether X has no elements.",
    inputs=[blob("X", role=Role.SHAPE, doc="of any type")],
    outputs=[blob("Y", DataType.BOOL, "", host=True)],
    effects=Effects.PURE,
    no_gradient=forbidden("a truth value has none"),
    source="Caffe2",
    example="""
    >>> run("IsEmpty", [[], []])
    array(True)
    """,
)


@SIZE.infer
def size_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    del op, X
    return TensorSpec((), DataType.INT64)


@SIZE.cost
def size_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op, X
    return Cost(0, 0, Y.nbytes)


@kernel(SIZE)
def size(X: Array, Y: Array) -> None:
    Y[...] = X.size


@HAS_ELEMENTS.infer
def has_elements_infer(op: OpView, X: tuple[TensorSpec, ...]) -> TensorSpec:
    del op, X
    return TensorSpec((), DataType.BOOL)


@HAS_ELEMENTS.cost
def has_elements_cost(op: OpView, X: tuple[TensorSpec, ...], Y: TensorSpec) -> Cost:
    del op, X
    return Cost(0, 0, Y.nbytes)


@kernel(HAS_ELEMENTS)
def has_elements(X: tuple[Array, ...], Y: Array) -> None:
    Y[...] = any(x.size > 0 for x in X)


@IS_EMPTY.cost
def is_empty_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op, X
    return Cost(0, 0, Y.nbytes)


@kernel(IS_EMPTY)
def is_empty(X: Array, Y: Array) -> None:
    Y[...] = X.size == 0
