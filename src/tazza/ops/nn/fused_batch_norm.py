"""The gradient of batch normalization with an epilogue behind it: FusedSpatialBNGradient. Graph rewriting makes it.

Letters as in `batch_norm`: Z is what SpatialBN gives. For Y = epilogue(Z) the gradient operator of the epilogue gives
dZ from dY and Y, which depends on Z alone, and Z on X: nobody needs to keep Z or Y, and dZ is never stored.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, Expression, OpView, Role, arg, blob, kernel, schema
from tazza.ops.nn.batch_norm import (
    SPATIAL_BN_GRADIENT,
    spatial_bn_gradient_cost,
    spatial_bn_gradient_infer,
    spatial_bn_gradient_validate,
    spatial_bn_gradients,
)
from tazza.ops.nn.fused import NO_GRADIENT, TRAINS, check_formula
from tazza.ops.nn.window import channels_first
from tazza.tensor import TensorSpec

X, SCALE, DY, MEAN, INV_STD = SPATIAL_BN_GRADIENT.inputs[:5]

FUSED_SPATIAL_BN_GRADIENT = schema(
    "FusedSpatialBNGradient",
    """dX, dscale and dbias of SpatialBN for dZ = prologue(dy = dY, y = Z), with Z what SpatialBN gives for X.""",
    inputs=[X, SCALE, blob("bias", FLOAT, role=Role.PARAMETER, doc="(C)"), DY, MEAN, INV_STD],
    outputs=SPATIAL_BN_GRADIENT.outputs,
    args=[
        *{**SPATIAL_BN_GRADIENT.args, **TRAINS}.values(),
        arg("prologue", str, "dy", doc="formula over dy and y"),
    ],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="tazza; Ioffe, Szegedy 2015, section 3",
    example="""
    >>> X, one = np.array([[1.0], [3.0]], "f"), np.ones(1, "f")
    >>> dY = np.array([[7.0], [1.0]], "f")
    >>> run("FusedSpatialBNGradient", X, one, 0 * one, dY, 2 * one, one, prologue="where(y > 0, dy, 0)")[1]
    array([1.], dtype=float32)
    """,
)


@FUSED_SPATIAL_BN_GRADIENT.validate
def fused_spatial_bn_gradient_validate(op: OpView) -> None:
    spatial_bn_gradient_validate(op)
    check_formula(op, "prologue", {"dy", "y"})


@FUSED_SPATIAL_BN_GRADIENT.infer
def fused_spatial_bn_gradient_infer(
    op: OpView, X: TensorSpec, dY: TensorSpec, **vectors: TensorSpec | None
) -> tuple[TensorSpec, ...]:
    return spatial_bn_gradient_infer(op, X, dY, **vectors)


@FUSED_SPATIAL_BN_GRADIENT.cost
def fused_spatial_bn_gradient_cost(
    op: OpView, X: TensorSpec, scale: TensorSpec, dY: TensorSpec, dX: TensorSpec, **vectors: TensorSpec | None
) -> Cost:
    return spatial_bn_gradient_cost(op, X, scale, dY, dX, **vectors) + Cost(
        (2 + prologue_of(op).flops) * X.size, scale.nbytes
    )


def prologue_of(op: OpView) -> Expression:
    """Return the prologue, over dy and y."""
    return Expression.parse(op.prologue)


@kernel(FUSED_SPATIAL_BN_GRADIENT)
def fused_spatial_bn_gradient(
    op: OpView,
    X: Array,
    scale: Array,
    bias: Array,
    dY: Array,
    mean: Array,
    inv_std: Array,
    dX: Array,
    dscale: Array,
    dbias: Array,
) -> None:
    x = channels_first(op.order, X)
    slope, base, mu = (np.reshape(one, (-1, *[1] * (x.ndim - 2))) for one in (scale * inv_std, bias, mean))
    z = (x - mu) * slope + base  # (N, C, S...)
    dz = np.empty_like(dY)
    values = {"dy": channels_first(op.order, dY), "y": z}
    np.copyto(channels_first(op.order, dz), prologue_of(op).evaluate(values), casting="same_kind")
    spatial_bn_gradients(op, X, scale, dz, mean, inv_std, None, None, dX, dscale, dbias)
