"""Pooling by the p-norm: LpPool. Letters and windows as in `ops.nn.pool`; x are the elements of the image in a window.

    Y = (sum of |x|^p)^(1/p)        dX = sum over windows of dY * x * |x|^(p - 2) / Y^(p - 1)

As in Caffe2, dX is NaN where Y is 0, and for p < 2 where x is 0.

Source: Gulcehre, Cho, Pascanu, Bengio 2014, section 2; Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpView, arg, blob, ends, kernel, schema
from tazza.ops.nn.pool import (
    POOL_ARGS,
    clipped_pool_window,
    fold_windows,
    pool_cost,
    pool_gradient,
    pool_gradient_infer,
    pool_infer,
    pool_validate,
    pool_window,
)
from tazza.ops.nn.window import channels_first, half_pairs
from tazza.tensor import TensorSpec

POWER_FLOPS = 10
"""Operations for each element of a window: two powers, a product and a quotient."""

LP_ARGS = (*POOL_ARGS, arg("p", float, 2.0, doc="of the norm; 1 adds what elements are, large ones tell the largest"))

LP_POOL = schema(
    "LpPool",
    "Y[n, c, p] = (sum over k of |X[n, c, p * stride + k - pad]|^p)^(1/p), over all k that lie in the image.",
    inputs=[blob("X", FLOAT, doc="(N, C, in...), NHWC: (N, in..., C)")],
    outputs=[blob("Y", "X", doc="(N, C, out...), NHWC: (N, out..., C)")],
    args=LP_ARGS,
    effects=Effects.PURE,
    ineffective=half_pairs,
    source="Gulcehre, Cho, Pascanu, Bengio 2014, arXiv 1311.1780, section 2; Caffe2",
    example="""
    >>> run("LpPool", [[[3.0, -4.0, 0.0]]], kernels=[2])
    array([[[5., 4.]]], dtype=float32)
    """,
)
LP_POOL.validate(pool_validate)
LP_POOL.infer(pool_infer)
LP_POOL.batched("X")
LP_POOL.cost(pool_cost)
LP_POOL.gradient(pool_gradient)


@kernel(LP_POOL)
def lp_pool(op: OpView, X: Array, Y: Array) -> None:
    window, _ = pool_window(op, X.shape)
    x, y, p = channels_first(op.order, X), channels_first(op.order, Y), X.dtype.type(op.p)
    y[...] = fold_windows(np.add, 0, window, np.abs(x) ** p, y.shape[2:]) ** (1 / p)


LP_POOL_GRADIENT = schema(
    "LpPoolGradient",
    "dX = dY * X * |X|^(p - 2) / Y^(p - 1), summed over windows.",
    inputs=[blob("X", FLOAT), blob("Y", "X"), blob("dY", "X")],
    outputs=[blob("dX", like="X")],
    args=LP_ARGS,
    effects=Effects.PURE,
    ineffective=half_pairs,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("LpPoolGradient", [[[3.0, -4.0, 8.0]]], [[[5.0, 8.0]]], [[[5.0, 8.0]]], kernels=[2])
    array([[[ 3., -8.,  8.]]], dtype=float32)
    """,
)
LP_POOL_GRADIENT.validate(pool_validate)
LP_POOL_GRADIENT.infer(pool_gradient_infer)


@LP_POOL_GRADIENT.cost
def lp_pool_gradient_cost(op: OpView, X: TensorSpec, Y: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    flops = POWER_FLOPS * Y.size * clipped_pool_window(op, X.shape).size
    return Cost(flops, X.nbytes + Y.nbytes + dY.nbytes, dX.nbytes)


@kernel(LP_POOL_GRADIENT)
def lp_pool_gradient(op: OpView, X: Array, Y: Array, dY: Array, dX: Array) -> None:
    window, _ = pool_window(op, X.shape)
    x, y, dy, dx = (channels_first(op.order, array) for array in (X, Y, dY, dX))
    p = X.dtype.type(op.p)
    slope, share = x * np.abs(x) ** (p - 2), dy / y ** (p - 1)
    dx[...] = 0
    for _, windows, places in window.all_touches(x.shape[2:], y.shape[2:]):
        into = dx[(..., *places)]
        into += slope[(..., *places)] * share[(..., *windows)]
