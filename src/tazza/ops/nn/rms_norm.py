"""Normalization by the root of the mean square: RMSNorm.

Letters: X is cut at `axis` into rows `lead...` and columns `inner...`; n is the number of elements of a row. X, Y, dY
and dX have one shape (lead..., inner...), rrms is (lead...), gamma and beta have n elements of any shape.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tazza.operator import (
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
    streamed,
)
from tazza.ops.nn.layer_norm import REAL, require_columns
from tazza.ops.reduce.moment import mean_over
from tazza.ops.shape.axis import cut, matrix, require_as_many
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

ARGS = (
    arg("axis", int, 1, doc="the dimensions from here on are normalized together"),
    arg("eps", float, 0.0, doc="added to the mean square"),
)
ROW = (1,)

RMS_NORM = schema(
    "RMSNorm",
    "Y = gamma * X * rrms + beta, with rrms = 1 / sqrt(mean of X * X in the row + eps).",
    inputs=[
        blob("X", REAL, doc="(lead..., inner...), of at least 2 dimensions"),
        blob("gamma", "X", role=Role.PARAMETER, doc="n elements"),
        blob("beta", "X", role=Role.PARAMETER, doc="n elements"),
    ],
    outputs=[blob("Y", like="X"), blob("rrms", "X", doc="(lead...)")],
    args=ARGS,
    effects=Effects.PURE,
    source="Zhang, Sennrich 2019, arXiv 1910.07467",
    example="""
    >>> Y, rrms = run("RMSNorm", [[1.0, 7.0]], [5.0, 10.0], [0.0, 1.0], outputs=2)
    >>> Y, rrms
    (array([[ 1., 15.]], dtype=float32), array([0.2], dtype=float32))
    """,
)
RMS_NORM_GRADIENT = schema(
    "RMSNormGradient",
    """dX = rrms * (dZ - Z * mean of dZ * Z), dgamma = sum of dY * Z over rows, dbeta = sum of dY over rows.

    Z is X * rrms, dZ is dY * gamma.""",
    inputs=[
        blob("dY", REAL, doc="as many elements as X"),
        blob("X", "dY"),
        blob("gamma", "dY", role=Role.PARAMETER),
        blob("rrms", "dY", doc="one element for each row"),
    ],
    outputs=[blob("dX", like="X"), blob("dgamma", like="gamma"), blob("dbeta", like="gamma")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("RMSNormGradient", [[1.0, 0.0]], [[2.0, 2.0]], [4.0, 1.0], [0.5], outputs=3)
    (array([[ 1., -1.]], dtype=float32), array([1., 0.], dtype=float32), array([1., 0.], dtype=float32))
    """,
)


@RMS_NORM.infer
def rms_norm_infer(op: OpView, X: TensorSpec, gamma: TensorSpec, beta: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    rows = _rows(op, X)
    require_columns(op, X, gamma=gamma, beta=beta)
    return X, TensorSpec(rows, X.dtype)


RMS_NORM.batched("X", when=lambda op: op.axis >= 1)


@RMS_NORM.cost
def rms_norm_cost(
    op: OpView, X: TensorSpec, gamma: TensorSpec, beta: TensorSpec, Y: TensorSpec, rrms: TensorSpec
) -> Cost:
    del op
    parameters = gamma.nbytes + beta.nbytes
    return Cost(5 * X.size, X.nbytes + parameters, Y.nbytes + rrms.nbytes, parameters)


@RMS_NORM.gradient
def rms_norm_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("RMSNormGradient", [g.dY, g.X, g.gamma, g.rrms], [g.dX, g.dgamma, g.dbeta])


@kernel(RMS_NORM)
def rms_norm(op: OpView, X: Array, gamma: Array, beta: Array, Y: Array, rrms: Array) -> None:
    x = matrix(op, "axis", X).astype(np.float64)  # (lead, n)
    scale = 1 / np.sqrt(mean_over(x * x, ROW) + op.eps)
    Y[...] = (x * scale * gamma.reshape(-1) + beta.reshape(-1)).reshape(Y.shape)
    rrms[...] = scale.reshape(rrms.shape)


def _matrix(op: OpView, X: TensorSpec) -> tuple[int, int]:
    """Return the extents of X as rows and columns."""
    axis = op.axis % len(X.shape)
    return math.prod(X.shape[:axis]), math.prod(X.shape[axis:])


def _normalized(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    return RowProgram(
        Cut(*_matrix(op, specs["X"])),
        {"squares": Total("sum", "X * X")},
        {"rrms": "1 / sqrt(squares / count + eps)"},
        {"Y": "X * rrms * gamma + beta"},
        {"gamma": "along", "beta": "along"},
    )


row_program(RMS_NORM, _normalized)


@RMS_NORM_GRADIENT.infer
def rms_norm_gradient_infer(
    op: OpView, dY: TensorSpec, X: TensorSpec, gamma: TensorSpec, rrms: TensorSpec
) -> tuple[TensorSpec, TensorSpec, TensorSpec]:
    require_columns(op, X, gamma=gamma)
    require_as_many(op, "X", X.dims, dY=dY.dims)
    require_as_many(op, "the rows of X", _rows(op, X), rrms=rrms.dims)
    return X, gamma, gamma


@RMS_NORM_GRADIENT.cost
def rms_norm_gradient_cost(
    op: OpView,
    dY: TensorSpec,
    X: TensorSpec,
    gamma: TensorSpec,
    rrms: TensorSpec,
    dX: TensorSpec,
    dgamma: TensorSpec,
    dbeta: TensorSpec,
) -> Cost:
    del op
    return streamed((dY, X, gamma, rrms), (dX, dgamma, dbeta), flops=10 * X.size)


@kernel(RMS_NORM_GRADIENT)
def rms_norm_gradient_kernel(
    op: OpView, dY: Array, X: Array, gamma: Array, rrms: Array, dX: Array, dgamma: Array, dbeta: Array
) -> None:
    x = matrix(op, "axis", X).astype(np.float64)
    dy, scale = dY.reshape(x.shape), rrms.reshape(-1, 1)
    z, dz = x * scale, dy * gamma.reshape(-1).astype(np.float64)
    dX[...] = (scale * (dz - z * mean_over(dz * z, ROW))).reshape(dX.shape)
    dgamma[...] = (dy * z).sum(axis=0).reshape(dgamma.shape)
    dbeta[...] = dy.sum(axis=0, dtype=np.float64).reshape(dbeta.shape)


def _rows(op: OpView, X: TensorSpec) -> tuple[int | None, ...] | None:
    """Return the extents of rrms.

    Raises:
        ShapeError: X has less than two dimensions.
    """
    if X.dims is None:
        return None
    op.require(len(X.dims) >= 2, f"X has {len(X.dims)} dimensions, it needs at least 2")
    return cut(op, "axis", "X", X.dims)[0]


def _gradients(op: OpView, specs: Mapping[str, TensorSpec]) -> tuple[RowProgram, ...]:
    """Of columns, which are summed over rows; then of rows."""
    M, N = _matrix(op, specs["X"])
    columns = {"dgamma": Total("sum", "dY * X * rrms"), "dbeta": Total("sum", "dY")}
    dots, mean = {"dots": Total("sum", "dY * gamma * X")}, {"mean": "dots * rrms * rrms / count"}
    each = {"dX": "rrms * (dY * gamma - X * mean)"}
    return (
        RowProgram(Cut(1, M, N), columns, lies={"rrms": "along"}),
        RowProgram(Cut(M, N), dots, mean, each, {"rrms": "row", "gamma": "along"}),
    )


row_program(RMS_NORM_GRADIENT, _gradients)
