"""Shape: the extents of a blob as a list of int64, or those of some `axes`."""

from __future__ import annotations

import numpy as np

from tazza.operator import Array, Cost, Effects, OpView, Role, arg, blob, forbidden, kernel, schema, show_dims
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
