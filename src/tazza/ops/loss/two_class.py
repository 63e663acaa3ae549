"""One probability as that of two classes: MakeTwoClass. Source: Caffe2."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    blob,
    ends,
    kernel,
    schema,
    streamed,
)
from tazza.operator.row_program import Cut, RowProgram, row_program
from tazza.ops.shape.axis import agree
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

MAKE_TWO_CLASS = schema(
    "MakeTwoClass",
    "Y[..., 0] = 1 - X, Y[..., 1] = X.",
    inputs=[blob("X", FLOAT, doc="the probability of class 1")],
    outputs=[blob("Y", "X", doc="(*S, 2)")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("MakeTwoClass", [0.25, 1.0])
    array([[0.75, 0.25],
           [0.  , 1.  ]], dtype=float32)
    """,
)
MAKE_TWO_CLASS_GRADIENT = schema(
    "MakeTwoClassGradient",
    "dX = dY[..., 1] - dY[..., 0].",
    inputs=[blob("dY", FLOAT, doc="(*S, 2)")],
    outputs=[blob("dX", "dY", doc="S")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("MakeTwoClassGradient", [[3.0, 5.0]])
    array([2.], dtype=float32)
    """,
)


@MAKE_TWO_CLASS.infer
def make_two_class_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    del op
    return TensorSpec(None if X.dims is None else (*X.dims, 2), X.dtype)


@MAKE_TWO_CLASS.cost
def make_two_class_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,), flops=X.size)


@MAKE_TWO_CLASS.gradient
def make_two_class_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("MakeTwoClassGradient", [g.dY], [g.dX])


@kernel(MAKE_TWO_CLASS)
def make_two_class(X: Array, Y: Array) -> None:
    np.subtract(1, X, out=Y[..., 0])
    Y[..., 1] = X


@MAKE_TWO_CLASS_GRADIENT.infer
def make_two_class_gradient_infer(op: OpView, dY: TensorSpec) -> TensorSpec:
    if dY.dims is None:
        return dY
    last = dY.dims[-1] if dY.dims else None
    op.require(len(dY.dims) > 0 and agree(last, 2), f"the last extent of dY is {last}", "it must be 2, for two classes")
    return TensorSpec(dY.dims[:-1], dY.dtype)


@MAKE_TWO_CLASS_GRADIENT.cost
def make_two_class_gradient_cost(op: OpView, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op
    return streamed((dY,), (dX,), flops=dX.size)


@kernel(MAKE_TWO_CLASS_GRADIENT)
def make_two_class_gradient_kernel(dY: Array, dX: Array) -> None:
    np.subtract(dY[..., 1], dY[..., 0], out=dX)


def _paired(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    del op
    return RowProgram(Cut(1, specs["X"].size), each={"other": "1 - X", "own": "X"}, pairs={"Y": ("other", "own")})


def _differences(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    del op
    return RowProgram(Cut(1, specs["dX"].size), each={"dX": "own - other"}, pairs={"dY": ("other", "own")})


row_program(MAKE_TWO_CLASS, _paired)
row_program(MAKE_TWO_CLASS_GRADIENT, _differences)
