"""Norms of whole tensors, as losses that keep weights small: LpNorm. X has any shape S, Y one element.

With p = 2 it is the sum of squares, without a root.
"""

from __future__ import annotations

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
    arg,
    blob,
    ends,
    kernel,
    row_program,
    schema,
    show_dims,
    streamed,
)
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

ARGS = (
    arg("p", int, 2, choices=(1, 2), doc="1: sum of absolute values; 2: sum of squares"),
    arg("average", bool, False, doc="divide by the number of elements"),
)
ZERO = 1e-12
"""Numbers that are no further from 0 have no sign."""

LP_NORM = schema(
    "LpNorm",
    "Y = sum of |X|^p over all elements, or with `average` their mean.",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", "X", doc="(1)")],
    args=ARGS,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("LpNorm", [[1.0, -2.0], [3.0, 0.0]])
    array([14.], dtype=float32)
    """,
)


def divisor(op: OpView, size: int) -> int:
    """Return by what a sum over so many elements is divided."""
    return max(size, 1) if op.average else 1


@LP_NORM.infer
def lp_norm_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    empty = X.dims is not None and 0 in X.dims
    op.require(not (empty and op.average), "the average of no elements", "X is empty: leave out average")
    return TensorSpec((1,), X.dtype)


@LP_NORM.cost
def lp_norm_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,), flops=2 * X.size)


@LP_NORM.gradient
def lp_norm_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("LpNormGradient", [g.X, g.dY], [g.dX])


@kernel(LP_NORM)
def lp_norm(op: OpView, X: Array, Y: Array) -> None:
    total = np.abs(X).sum() if op.p == 1 else np.square(X).sum()
    Y[...] = total / divisor(op, X.size)


def _normed(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    sums = {"total": Total("sum", "abs(X)" if op.p == 1 else "X * X")}
    return RowProgram(Cut(1, specs["X"].size), sums, row={"Y": "total / count" if op.average else "total"})


row_program(LP_NORM, _normed)


LP_NORM_GRADIENT = schema(
    "LpNormGradient",
    """dX = dY sign(X) for p = 1, 0 where |X| <= 1e-12; 2 dY X for p = 2.

    With `average` it is divided by the number of elements.""",
    inputs=[blob("X", FLOAT, "*S"), blob("dY", "X", role=Role.DATA, doc="(1)")],
    outputs=[blob("dX", "X")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("LpNormGradient", [[1.0, -2.0], [3.0, 0.0]], [2.0], p=1)
    array([[ 2., -2.],
           [ 2.,  0.]], dtype=float32)
    """,
)


@LP_NORM_GRADIENT.infer
def lp_norm_gradient_infer(op: OpView, X: TensorSpec, dY: TensorSpec) -> TensorSpec:
    if dY.dims is not None:
        one = len(dY.dims) == 1 and dY.dims[0] in (1, None)
        op.require(one, f"dY has the shape {show_dims(dY.dims)}, it must be (1)")
    return TensorSpec(X.dims, X.dtype)


@LP_NORM_GRADIENT.cost
def lp_norm_gradient_cost(op: OpView, X: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op
    return streamed((X, dY), (dX,), flops=2 * X.size)


@kernel(LP_NORM_GRADIENT)
def lp_norm_gradient_kernel(op: OpView, X: Array, dY: Array, dX: Array) -> None:
    slope = np.where(np.abs(X) <= ZERO, 0, np.sign(X)) if op.p == 1 else 2 * X
    dX[...] = slope * (dY[0] / divisor(op, X.size))


def _sloped(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    slope = f"where(abs(X) <= {ZERO}, 0, sign(X))" if op.p == 1 else "2 * X"
    row = {"share": "dY / count" if op.average else "dY"}
    return RowProgram(Cut(1, specs["X"].size), row=row, each={"dX": f"{slope} * share"}, lies={"dY": "one"})


row_program(LP_NORM_GRADIENT, _sloped)
