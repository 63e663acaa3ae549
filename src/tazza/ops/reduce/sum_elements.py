"""Sums over all elements of a tensor: SumElements, SumElementsInt, SumSqrElements. X has any shape S, Y rank 0."""

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
    forbidden,
    kernel,
    not_written,
    row_program,
    schema,
    streamed,
)
from tazza.operator.row_program import RowRule
from tazza.ops.shape.axis import require_one_element
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

AVERAGE = arg("average", bool, False, doc="divide by the number of elements; 0 where there are none")


def scalar_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    """Y is one number of the type of X."""
    del op
    return TensorSpec((), X.dtype)


def scalar_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    """One addition an element."""
    del op
    return streamed((X,), (Y,), flops=X.size)


SUM_ELEMENTS = schema(
    "SumElements",
    "Y = sum of all elements of X, or with `average` their mean.",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", "X")],
    args=[AVERAGE],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("SumElements", [[1.0, 2.0], [3.0, 4.0]], average=True)
    array(2.5, dtype=float32)
    """,
)
SUM_ELEMENTS.infer(scalar_infer)
SUM_ELEMENTS.cost(scalar_cost)


@SUM_ELEMENTS.gradient
def sum_elements_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("SumElementsGradient", [g.X, g.dY], [g.dX])


def divisor(op: OpView, X: Array) -> int:
    """Return by what a sum over X is divided."""
    return max(X.size, 1) if op.average else 1


@kernel(SUM_ELEMENTS)
def sum_elements(op: OpView, X: Array, Y: Array) -> None:
    Y[...] = np.sum(X) / divisor(op, X)


def _summed(text: str) -> RowRule:
    """Return the rule of a sum over all elements, or of their mean."""

    def rule(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
        sums = {"total": Total("sum", text)}
        return RowProgram(Cut(1, specs["X"].size), sums, row={"Y": "total / count" if op.average else "total"})

    return rule


row_program(SUM_ELEMENTS, _summed("X"))


SUM_ELEMENTS_GRADIENT = schema(
    "SumElementsGradient",
    "dX = dY, everywhere, with `average` divided by the number of elements of X.",
    inputs=[
        blob("X", None, "*S", role=Role.SHAPE, doc="of any type"),
        blob("dY", FLOAT, doc="one element, of any rank"),
    ],
    outputs=[blob("dX", "dY", "*S")],
    args=[AVERAGE],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("SumElementsGradient", [7.0, 8.0], [6.0], average=True)
    array([3., 3.], dtype=float32)
    """,
)


@SUM_ELEMENTS_GRADIENT.infer
def sum_elements_gradient_infer(op: OpView, X: TensorSpec, dY: TensorSpec) -> TensorSpec:
    require_one_element(op, "dY", dY.dims)
    return TensorSpec(X.dims, dY.dtype)


@SUM_ELEMENTS_GRADIENT.cost
def sum_elements_gradient_cost(op: OpView, X: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op, X
    return streamed((dY,), (dX,))


@kernel(SUM_ELEMENTS_GRADIENT)
def sum_elements_gradient_kernel(op: OpView, X: Array, dY: Array, dX: Array) -> None:
    dX[...] = dY.reshape(()) / divisor(op, X)


def _spread(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    row = {"share": "dY / count" if op.average else "dY"}
    return RowProgram(Cut(1, specs["dX"].size), row=row, each={"dX": "share"}, lies={"dY": "one"})


row_program(SUM_ELEMENTS_GRADIENT, _spread)


SUM_ELEMENTS_INT = schema(
    "SumElementsInt",
    "Y = sum of all elements of X, which wraps around where int32 does not hold it.",
    inputs=[blob("X", DataType.INT32, "*S")],
    outputs=[blob("Y", "X")],
    effects=Effects.PURE,
    no_gradient=forbidden("integers have no derivative"),
    source="Caffe2",
    example="""
    >>> run("SumElementsInt", [[1, 2], [3, 4]])
    array(10, dtype=int32)
    """,
)
SUM_ELEMENTS_INT.infer(scalar_infer)
SUM_ELEMENTS_INT.cost(scalar_cost)


@kernel(SUM_ELEMENTS_INT)
def sum_elements_int(X: Array, Y: Array) -> None:
    Y[...] = np.sum(X, dtype=X.dtype)


SUM_SQR_ELEMENTS = schema(
    "SumSqrElements",
    "Y = sum of X * X over all elements, or with `average` their mean.",
    inputs=[blob("X", frozenset({DataType.FLOAT, DataType.DOUBLE}), "*S")],
    outputs=[blob("Y", "X")],
    args=[AVERAGE],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Caffe2",
    example="""
    >>> run("SumSqrElements", [[1.0, 2.0], [3.0, 4.0]])
    array(30., dtype=float32)
    """,
)
SUM_SQR_ELEMENTS.infer(scalar_infer)


@SUM_SQR_ELEMENTS.cost
def sum_sqr_elements_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,), flops=2 * X.size)


@kernel(SUM_SQR_ELEMENTS)
def sum_sqr_elements(op: OpView, X: Array, Y: Array) -> None:
    Y[...] = np.sum(np.square(X)) / divisor(op, X)


row_program(SUM_SQR_ELEMENTS, _summed("X * X"))
