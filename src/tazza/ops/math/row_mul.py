"""A number for each row: RowMul multiplies rows by them, ReduceTailSum sums each row.

Letters: M rows, S... the extents of a row. X, Y are (M, S...), of rank 1 at least; w has M elements of any shape.

Source: Caffe2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Cut,
    Effects,
    GradientRequest,
    OpView,
    Role,
    RowProgram,
    Total,
    blob,
    kernel,
    not_written,
    row_program,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import agree, product
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

ROW_MUL = schema(
    "RowMul",
    "Y = w * X, with one element of w for each row of X.",
    inputs=[blob("X", FLOAT, "M *S"), blob("w", "X", role=Role.DATA, doc="M elements")],
    outputs=[blob("Y", like="X")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("RowMul", [[1.0, 2.0], [3.0, 4.0]], [10.0, 100.0])
    array([[ 10.,  20.],
           [300., 400.]], dtype=float32)
    """,
)
REDUCE_TAIL_SUM = schema(
    "ReduceTailSum",
    "Y = the sum of each row of X.",
    inputs=[blob("X", FLOAT, "M *S")],
    outputs=[blob("Y", "X", "M")],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none"),
    source="Caffe2",
    example="""
    >>> run("ReduceTailSum", [[1.0, 2.0], [3.0, 4.0]])
    array([3., 7.], dtype=float32)
    """,
)


@ROW_MUL.infer
def row_mul_infer(op: OpView, X: TensorSpec, w: TensorSpec) -> TensorSpec:
    if X.dims is not None and w.dims is not None:
        relation = f"w has the shape {show_dims(w.dims)}, X has {X.dims[0]} rows"
        op.require(agree(product(w.dims), X.dims[0]), relation, "w has one element for each row")
    return X


@ROW_MUL.cost
def row_mul_cost(op: OpView, X: TensorSpec, w: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X, w), (Y,), flops=Y.size)


@ROW_MUL.gradient
def row_mul_gradient(g: GradientRequest) -> list[OperatorDef]:
    products = f"{g.dw}before_aggregate"
    return [
        *g.emit("RowMul", [g.dY, g.w], [g.dX]),
        *g.emit("Mul", [g.dY, g.X], [products]),
        *g.emit("ReduceTailSum", [products], [g.dw]),
    ]


@kernel(ROW_MUL)
def row_mul(X: Array, w: Array, Y: Array) -> None:
    np.multiply(X, w.reshape(-1, *(1,) * (X.ndim - 1)), out=Y)


@REDUCE_TAIL_SUM.cost
def reduce_tail_sum_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,), flops=X.size)


@kernel(REDUCE_TAIL_SUM)
def reduce_tail_sum(X: Array, Y: Array) -> None:
    Y[...] = X.sum(axis=tuple(range(1, X.ndim)))


def _rows(X: TensorSpec) -> Cut:
    return Cut(X.shape[0], math.prod(X.shape[1:]))


def _scaled(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    del op
    return RowProgram(_rows(specs["X"]), each={"Y": "X * w"}, lies={"w": "row"})


def _summed(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    del op
    return RowProgram(_rows(specs["X"]), {"Y": Total("sum", "X")})


row_program(ROW_MUL, _scaled)
row_program(REDUCE_TAIL_SUM, _summed)
