"""Local response normalization across channels: LRN.

Letters: N images, C channels, H, W image size, n = `size` the window. X, Y, scale, dY and dX have one shape: (N, C, H,
W), or with NHWC (N, H, W, C). The window of channel c is c - (n - 1) // 2 ... c + n // 2, cut at the ends; n is its
full length there too.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from tazza.operator import (
    FLOAT,
    HALVES,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    arg,
    blob,
    ends,
    kernel,
    schema,
    show_dims,
)
from tazza.ops.nn.channel import ORDER
from tazza.ops.nn.window import channels_first
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

ARGS = (
    arg("size", int, minimum=1, doc="n: how many neighbouring channels are summed"),
    arg("alpha", float, 0.0, doc="weight of the mean square"),
    arg("beta", float, 0.0, doc="exponent"),
    arg("bias", float, 1.0, doc="added to the mean square"),
    ORDER,
)

LRN = schema(
    "LRN",
    "Y = X * scale^-beta with scale[c] = bias + alpha / size * (sum of X * X over the window of c).",
    inputs=[blob("X", FLOAT, elsewhere=HALVES, doc="(N, C, H, W), NHWC: (N, H, W, C)")],
    outputs=[blob("Y", like="X"), blob("scale", like="X", optional=True)],
    args=ARGS,
    effects=Effects.PURE,
    source="Krizhevsky, Sutskever, Hinton 2012, section 3.3, with alpha divided by size as in Caffe",
    example="""
    >>> X = np.array([1, 2, 3], "f").reshape(1, 3, 1, 1)
    >>> run("LRN", X, size=1, alpha=1.0, beta=1.0, bias=0.0).ravel()
    array([1.        , 0.5       , 0.33333334], dtype=float32)
    """,
)


LRN.batched("X")


@LRN.infer
def lrn_infer(op: OpView, X: TensorSpec) -> tuple[TensorSpec, ...]:
    if X.dims is not None:
        relation = f"X has {len(X.dims)} dimensions {show_dims(X.dims)}, it must have 4"
        op.require(len(X.dims) == 4, relation, "X must be (N, C, H, W) or, with order NHWC, (N, H, W, C)")
    return tuple(TensorSpec(X.dims, X.dtype) for _ in op.output_letters)


@LRN.cost
def lrn_cost(op: OpView, X: TensorSpec, Y: TensorSpec, scale: TensorSpec | None) -> Cost:
    flops = (op.size + 4) * Y.size  # squares, their sum, alpha, bias, power, product
    return Cost(flops, X.nbytes, Y.nbytes + (0 if scale is None else scale.nbytes))


@LRN.gradient
def lrn_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("LRNGradient", [g.X, g.Y, g.dY], [g.dX])


@kernel(LRN)
def lrn(op: OpView, X: Array, Y: Array, scale: Array | None) -> None:
    x = channels_first(op.order, X)
    s = _scale(op, x)
    np.multiply(x, s**-op.beta, out=channels_first(op.order, Y))
    if scale is not None:
        channels_first(op.order, scale)[...] = s


LRN_GRADIENT = schema(
    "LRNGradient",
    """dX[i] = dY[i] * scale[i]^-beta - 2 alpha beta / size * X[i] * (sum of dY * Y / scale over the c that see i).

    A window of even size is not symmetric: channel i is seen by i - n // 2 ... i + (n - 1) // 2. scale is computed
    again.""",
    inputs=[blob("X", FLOAT, "A B C D", elsewhere=HALVES), blob("Y", "X", "A B C D"), blob("dY", "X", "A B C D")],
    outputs=[blob("dX", like="X")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    # For even sizes and NHWC Caffe2 sums over the window of i itself, which is wrong.
    source="derivative of the forward operator",
    example="""
    >>> X = np.array([1, 2], "f").reshape(1, 2, 1, 1)
    >>> run("LRNGradient", X, 1 / X, X + 1, size=1, alpha=1.0, beta=1.0, bias=0.0).ravel()
    array([-2.  , -0.75], dtype=float32)
    """,
)


@LRN_GRADIENT.cost
def lrn_gradient_cost(op: OpView, X: TensorSpec, Y: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    return Cost((2 * op.size + 9) * X.size, X.nbytes + Y.nbytes + dY.nbytes, dX.nbytes)


@kernel(LRN_GRADIENT)
def lrn_gradient_kernel(op: OpView, X: Array, Y: Array, dY: Array, dX: Array) -> None:
    x, y, dy, dx = (channels_first(op.order, array) for array in (X, Y, dY, dX))
    s = _scale(op, x)
    n = op.size
    through = _window_sum(dy * y / s, before=n // 2, after=(n - 1) // 2)
    dx[...] = dy * s**-op.beta - 2 * op.alpha * op.beta / n * x * through


def _scale(op: OpView, x: Array) -> Array:
    """Return scale of x (N, C, H, W) in float64."""
    squares = np.square(x, dtype=np.float64)
    return op.bias + op.alpha / op.size * _window_sum(squares, before=(op.size - 1) // 2, after=op.size // 2)


def _window_sum(x: Array, *, before: int, after: int) -> Array:
    """Return the sum of each channel of (N, C, H, W) with so many before it and after it, of those that there are."""
    if x.size == 0:
        return x
    before, after = min(before, x.shape[1] - 1), min(after, x.shape[1] - 1)
    padded = np.pad(x, ((0, 0), (before, after), (0, 0), (0, 0)))
    return sliding_window_view(padded, before + after + 1, axis=1).sum(axis=-1)
