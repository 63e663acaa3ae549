"""The inverse of the logistic function: Logit. All blobs have one shape S. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    ends,
    formula,
    kernel,
    schema,
    streamed,
)
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

EPS = "how far from 0 and 1 X is kept"

LOGIT = schema(
    "Logit",
    "Y = log(X / (1 - X)), with X kept in [eps, 1 - eps].",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", like="X")],
    args=[arg("eps", float, 1e-6, doc=f"{EPS}, in (0, 0.5)")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Logit", [0.5, 0.75]).round(4)
    array([0.    , 1.0986], dtype=float32)
    """,
)
LOGIT_GRADIENT = schema(
    "LogitGradient",
    "dX = dY / (X * (1 - X)), 0 outside of [eps, 1 - eps].",
    inputs=[blob("X", FLOAT, "*S"), blob("dY", FLOAT, "*S", role=Role.DATA)],
    outputs=[blob("dX", like="X")],
    args=[arg("eps", float, 1e-6, doc=EPS)],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("LogitGradient", [0.5, 2.0], [1.0, 1.0])
    array([4., 0.], dtype=float32)
    """,
)


@LOGIT.validate
def logit_validate(op: OpView) -> None:
    if not 0 < op.eps < 0.5:
        raise op.error(ArgumentError, f"eps = {op.eps}, it must lie between 0 and 0.5")


@LOGIT.cost
def logit_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,), flops=10 * Y.size)


@LOGIT_GRADIENT.cost
def logit_gradient_cost(op: OpView, X: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op
    return streamed((X, dY), (dX,), flops=5 * dX.size)


@LOGIT.gradient
def logit_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("LogitGradient", [g.X, g.dY], [g.dX])


def kept(op: OpView, X: Array) -> tuple[np.float32 | Array, np.float32 | Array]:
    """Return eps and 1 - eps in the type of X."""
    eps = X.dtype.type(np.float32(op.eps))
    return eps, 1 - eps


@kernel(LOGIT)
def logit(op: OpView, X: Array, Y: Array) -> None:
    inside = np.clip(X, *kept(op, X))
    np.log(inside / (1 - inside), out=Y)


@kernel(LOGIT_GRADIENT)
def logit_gradient_kernel(op: OpView, X: Array, dY: Array, dX: Array) -> None:
    low, high = kept(op, X)
    outside = (X < low) | (X > high)
    with np.errstate(divide="ignore", invalid="ignore"):
        dX[...] = np.where(outside, 0, dY / (X * (1 - X)))


INSIDE = "min(max(X, eps), 1 - eps)"
formula(LOGIT, Y=f"log({INSIDE} / (1 - {INSIDE}))")
formula(LOGIT_GRADIENT, dX="where(X < eps, 0, where(X > 1 - eps, 0, dY / (X * (1 - X))))")
