"""Losses from values: AveragedLoss. X and dX have one shape S; a loss has rank 0."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cut,
    Effects,
    GradientRequest,
    OpView,
    Role,
    RowProgram,
    Total,
    blob,
    ends,
    kernel,
    row_program,
    schema,
)
from tazza.ops.shape.axis import require_one_element
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

AVERAGED_LOSS = schema(
    "AveragedLoss",
    "loss = the mean of all elements of X; 0 where X is empty.",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("loss", "X", "")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("AveragedLoss", [[1.0, 2.0], [3.0, 6.0]])
    array(3., dtype=float32)
    """,
)


@AVERAGED_LOSS.gradient
def averaged_loss_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("AveragedLossGradient", [g.X, g.dloss], [g.dX])


@kernel(AVERAGED_LOSS)
def averaged_loss(X: Array, loss: Array) -> None:
    loss[...] = X.mean() if X.size > 0 else 0


def _mean(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    del op
    return RowProgram(Cut(1, specs["X"].size), {"total": Total("sum", "X")}, {"loss": "total / count"})


row_program(AVERAGED_LOSS, _mean)


AVERAGED_LOSS_GRADIENT = schema(
    "AveragedLossGradient",
    "dX = dloss / the number of elements of X, everywhere.",
    inputs=[
        blob("X", None, "*S", role=Role.SHAPE, doc="of any type"),
        blob("dloss", FLOAT, role=Role.DATA, doc="one element, of any rank"),
    ],
    outputs=[blob("dX", "dloss", "*S")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("AveragedLossGradient", [1.0, 2.0], np.float32(1))
    array([0.5, 0.5], dtype=float32)
    """,
)


@AVERAGED_LOSS_GRADIENT.infer
def averaged_loss_gradient_infer(op: OpView, X: TensorSpec, dloss: TensorSpec) -> TensorSpec:
    require_one_element(op, "dloss", dloss.dims)
    return TensorSpec(X.dims, dloss.dtype)


@kernel(AVERAGED_LOSS_GRADIENT)
def averaged_loss_gradient_kernel(dloss: Array, dX: Array) -> None:
    np.copyto(dX, dloss.reshape(()) / max(dX.size, 1))


def _shares(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    del op
    return RowProgram(
        Cut(1, specs["dX"].size), row={"share": "dloss / count"}, each={"dX": "share"}, lies={"dloss": "one"}
    )


row_program(AVERAGED_LOSS_GRADIENT, _shares)
