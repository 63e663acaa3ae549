"""FusedConvDepthwise: a 1x1 convolution and the depthwise one behind it. Graph rewriting makes it.

Letters as in `ops.conv`; C channels come in, M are between and go out. With `inner` and `epilogue` formulas of y,

    H = inner(y = conv(X, W, b))                 (N, M, in...), 1x1: each pixel by itself
    Y = epilogue(y = conv(H, V, c))              (N, M, out...), each channel by itself; window arguments are those of V

Nets widen before they look around (Sandler et al. 2018, arXiv 1801.04381), so H is several times larger than X.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, Expression, OpView, Role, arg, blob, kernel, schema, show_dims
from tazza.ops.nn.conv import CONV_ARGS, conv, conv_cost, conv_infer, require_bias
from tazza.ops.nn.fused import NO_GRADIENT, check_formula, epilogue_of
from tazza.ops.nn.window import Window, channels_first, channels_first_dims, half_pairs
from tazza.tensor import TensorSpec

FUSED_CONV_DEPTHWISE = schema(
    "FusedConvDepthwise",
    "Y = epilogue(conv(inner(conv(X, W, b)), V, c)): a 1x1 convolution, then a depthwise one of what it gives.",
    inputs=[
        blob("X", FLOAT, doc="(N, C, in...), NHWC: (N, in..., C)"),
        blob("W", "X", role=Role.PARAMETER, doc="(M, C, 1...), NHWC: (M, 1..., C)"),
        blob("b", "X", role=Role.PARAMETER, doc="(M)"),
        blob("V", "X", role=Role.PARAMETER, doc="(M, 1, k...), NHWC: (M, k..., 1)"),
        blob("c", "X", role=Role.PARAMETER, doc="(M)"),
    ],
    outputs=[blob("Y", "X", doc="(N, M, out...), NHWC: (N, out..., M)")],
    args=[
        *CONV_ARGS,
        arg("inner", str, "y", doc="formula over y, what the first convolution gives"),
        arg("epilogue", str, "y", doc="formula over y, what the second convolution gives"),
    ],
    effects=Effects.PURE,
    ineffective=half_pairs,
    no_gradient=NO_GRADIENT,
    source="tazza",
    example="""
    >>> X, W = np.arange(9.0, dtype="f").reshape(1, 1, 3, 3), np.array([1, 2], "f").reshape(2, 1, 1, 1)
    >>> V, none = np.ones((2, 1, 2, 2), "f"), np.zeros(2, "f")
    >>> run("FusedConvDepthwise", X, W, none, V, none, kernel=2, group=2, inner="max(y - 4, 0)").reshape(2, 2, 2)
    array([[[ 0.,  1.],
            [ 5.,  8.]],
    <BLANKLINE>
           [[ 6., 10.],
            [24., 32.]]], dtype=float32)
    """,
)


@FUSED_CONV_DEPTHWISE.validate
def fused_conv_depthwise_validate(op: OpView) -> None:
    for argument in ("inner", "epilogue"):
        check_formula(op, argument, {"y"})


def inner_of(op: OpView) -> Expression:
    """Return the formula between the convolutions, over y."""
    return Expression.parse(op.inner)


def inner_spec(op: OpView, X: TensorSpec, W: TensorSpec) -> TensorSpec:
    """Return the spec of H, row-major; checks that W is 1x1 and fits."""
    if X.dims is None or W.dims is None:
        return TensorSpec(None, X.dtype)
    rank = Window.of(op).rank + 2
    for letter, spec in (("X", X.dims), ("W", W.dims)):
        op.require(len(spec) == rank, f"{letter} has {len(spec)} dimensions {show_dims(spec)}, V's kernel needs {rank}")
    (N, C, *image), (M, taken, *kernel) = channels_first_dims(op.order, X.dims), channels_first_dims(op.order, W.dims)
    op.require(set(kernel) <= {1, None}, f"W has the kernel size {show_dims(kernel)}, the first convolution is 1x1")
    op.require(None in (C, taken) or C == taken, f"X has {C} channels, W takes {taken}")
    return TensorSpec((N, *image, M) if op.order.upper() == "NHWC" else (N, M, *image), X.dtype)


@FUSED_CONV_DEPTHWISE.infer
def fused_conv_depthwise_infer(
    op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec, V: TensorSpec, c: TensorSpec
) -> TensorSpec:
    H = inner_spec(op, X, W)
    if H.dims is not None:
        M = channels_first_dims(op.order, H.dims)[1]
        op.require(M is None or op.group == M, f"group is {op.group}, W has {M} output channels", "each is a group")
        require_bias(op, b, M)
        if V.dims is not None:
            op.require(None in (M, V.dims[0]) or V.dims[0] == M, f"V has {V.dims[0]} output channels, W has {M}")
    return conv_infer(op, H, V, c, ("H", "V", "c"))


FUSED_CONV_DEPTHWISE.batched("X")


@FUSED_CONV_DEPTHWISE.cost
def fused_conv_depthwise_cost(
    op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec, V: TensorSpec, c: TensorSpec, Y: TensorSpec
) -> Cost:
    H = inner_spec(op, X, W)
    first, second = conv_cost(op, X, W, b, H), conv_cost(op, H, V, c, Y)
    flops = first.flops + second.flops + inner_of(op).flops * H.size + epilogue_of(op).flops * Y.size
    parameters = first.parameter_bytes + second.parameter_bytes
    return Cost(flops, X.nbytes + parameters, Y.nbytes, parameters)


@kernel(FUSED_CONV_DEPTHWISE)
def fused_conv_depthwise(op: OpView, X: Array, W: Array, b: Array, V: Array, c: Array, Y: Array) -> None:
    x, w = channels_first(op.order, X), channels_first(op.order, W)
    # (M, C) x (N, C, in...) -> (N, M, in...)
    h = np.einsum("mc,nc...->nm...", w.reshape(w.shape[:2]), x, optimize=True)
    h += b.reshape(-1, *[1] * (h.ndim - 2))
    H, y = np.empty(h.shape if X is x else np.moveaxis(h, 1, -1).shape, X.dtype), np.empty_like(Y)
    np.copyto(channels_first(op.order, H), inner_of(op).evaluate({"y": h}), casting="same_kind")
    conv(op, H, V, c, y)
    np.copyto(Y, epilogue_of(op).evaluate({"y": y}), casting="same_kind")
