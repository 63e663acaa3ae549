"""Convolutions of bytes: Int8Conv, Int8ConvRelu, and Int8FusedConv, to which a compiled net joins the sum behind one.

Letters as in `ops.nn.conv`, always in the order NHWC, and s, z for the scale and zero point of a blob:

    X (N, in..., C)    W (M, k..., C/G)    b (M)    Y (N, out..., M)

    sums[m] = sum over c, k of (X - z_X) (W - z_W) + b        in int32
    Y = round(s_X s_W / s_Y * sums) + z_Y                     in 0 ... 255

b counts in units of s_X s_W, whatever scale it has itself, as in Caffe2. W may have a scale for each of its M channels.
Padding is z_X, which stands for 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tazza.operator import (
    PER_CHANNEL,
    PER_TENSOR,
    Array,
    Cost,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    fused,
    kernel,
    schema,
)
from tazza.ops.nn.conv import CONV_ARGS, conv, conv_cost, conv_infer
from tazza.ops.nn.window import half_pairs
from tazza.ops.quantized.int8_relu import INT8_RELU
from tazza.ops.quantized.scale import (
    INT32,
    NO_GRADIENT,
    SCALE_ARGS,
    UINT8,
    given_quantization,
    multipliers,
    requantize,
    shifted,
)
from tazza.tensor import PerChannel, TensorSpec

NHWC = arg("order", str, "NHWC", choices=("NHWC", "nhwc"), doc="the channels stand last")
INT8_CONV_ARGS = (*(NHWC if one.name == "order" else one for one in CONV_ARGS), *SCALE_ARGS)
INT8_CONV_INPUTS = (
    blob("X", UINT8, quantization=PER_TENSOR, doc="(N, in..., C)"),
    blob("W", UINT8, quantization=PER_TENSOR | PER_CHANNEL, role=Role.PARAMETER, doc="(M, k..., C/G)"),
    blob("b", INT32, quantization=PER_TENSOR | PER_CHANNEL, role=Role.PARAMETER, doc="(M), in units of s_X s_W"),
)
INT8_RESULT = blob("Y", UINT8, quantization=PER_TENSOR, doc="(N, out..., M)")


def check_scales(op: OpView, W: TensorSpec) -> None:
    """Check that scales of W, where it has several, are those of its output channels."""
    axis = W.quantization.axis if isinstance(W.quantization, PerChannel) else 0
    op.require(axis == 0, f"the scales of W vary along axis {axis}", "they may vary along axis 0, its output channels")


def int8_conv_infer(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec) -> TensorSpec:
    check_scales(op, W)
    return replace(conv_infer(op, X, W, b), quantization=given_quantization(op))


def int8_conv_sums(op: OpView, X: Array, W: Array, b: Array, out: tuple[int, ...], meaning: Mapping[str, Any]) -> Array:
    """Return the sums of products, with b, as float64."""
    sums = np.empty(out)
    conv(op, shifted(X, meaning["X"]), shifted(W, meaning["W"]), None, sums)
    return sums + b


def int8_conv_example(type: str, result: str) -> str:
    """Return the example of a convolution."""
    return f"""
    >>> x = run("Int8Quantize", [[[[1.0, -2.0]]]], Y_scale=0.5, Y_zero_point=10)  # one pixel, two channels
    >>> w = run("Int8Quantize", [[[[1.0, 1.0]]], [[[1.0, -1.0]]]], Y_scale=0.25, Y_zero_point=128)
    >>> b = run("Int8GivenIntTensorFill", shape=[2], values=[0, 8], Y_scale=0.125)
    >>> run("{type}", x, w, b, kernel=1, Y_scale=0.5, Y_zero_point=10).data
    array([[[[{result}]]]], dtype=uint8)
    """


INT8_CONV = schema(
    "Int8Conv",
    "Y = X * W + b, convolved, from bytes to bytes.",
    inputs=INT8_CONV_INPUTS,
    outputs=[INT8_RESULT],
    args=INT8_CONV_ARGS,
    effects=Effects.PURE,
    ineffective=half_pairs,
    no_gradient=NO_GRADIENT,
    source="Jacob and others 2018, arXiv 1712.05877, section 2.2; Caffe2",
    example=int8_conv_example("Int8Conv", " 8, 18"),
)
INT8_CONV.infer(int8_conv_infer)
INT8_CONV.cost(conv_cost)
INT8_CONV.batched("X")


@kernel(INT8_CONV)
def int8_conv(op: OpView, X: Array, W: Array, b: Array, Y: Array, quantization: Mapping[str, Any]) -> None:
    sums = int8_conv_sums(op, X, W, b, Y.shape, quantization)
    scale = multipliers(quantization["X"], quantization["W"], quantization["Y"])
    Y[...] = requantize(sums, scale, quantization["Y"])


INT8_CONV_RELU = fused(
    "Int8ConvRelu",
    INT8_CONV,
    INT8_RELU,
    doc="Y = max(X * W + b, 0), convolved, from bytes to bytes.",
    example=int8_conv_example("Int8ConvRelu", "10, 18"),
)

INT8_FUSED_CONV = schema(
    "Int8FusedConv",
    """Y = X * W + b + S, convolved, from bytes to bytes; with `relu` numbers below 0 become 0.

    What a compiled net makes of a convolution and the sum behind it: the result of the convolution alone is not
    rounded.""",
    inputs=[
        *INT8_CONV_INPUTS,
        blob("S", UINT8, like="Y", quantization=PER_TENSOR, role=Role.DATA, doc="of the shape of Y"),
    ],
    outputs=[INT8_RESULT],
    args=[*INT8_CONV_ARGS, arg("relu", bool, False, doc="numbers below 0 become 0")],
    in_place={"Y": "S"},
    effects=Effects.PURE,
    ineffective=half_pairs,
    no_gradient=NO_GRADIENT,
    source="tazza; after Jacob and others 2018, arXiv 1712.05877, appendix A.2",
    example="""
    >>> x = run("Int8Quantize", [[[[1.0, -2.0]]]], Y_scale=0.5, Y_zero_point=10)
    >>> w = run("Int8Quantize", [[[[1.0, 1.0]]]], Y_scale=0.25, Y_zero_point=128)
    >>> b = run("Int8GivenIntTensorFill", shape=[1], values=[0], Y_scale=0.125)
    >>> s = run("Int8Quantize", [[[[4.0]]]], Y_scale=1.0)
    >>> run("Int8FusedConv", x, w, b, s, kernel=1, Y_scale=0.5, Y_zero_point=10).data
    array([[[[16]]]], dtype=uint8)
    """,
)
INT8_FUSED_CONV.batched("X", "S")


@INT8_FUSED_CONV.infer
def int8_fused_conv_infer(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec, S: TensorSpec) -> TensorSpec:
    found = int8_conv_infer(op, X, W, b)
    if found.shape_known and S.shape_known:
        op.require(S.shape == found.shape, f"S has the shape {S.shape}, the convolution gives {found.shape}")
    return found


@INT8_FUSED_CONV.cost
def int8_fused_conv_cost(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec, S: TensorSpec, Y: TensorSpec) -> Cost:
    alone = conv_cost(op, X, W, b, Y)
    return replace(alone, flops=alone.flops + Y.size, bytes_read=alone.bytes_read + S.nbytes)


@kernel(INT8_FUSED_CONV)
def int8_fused_conv(
    op: OpView, X: Array, W: Array, b: Array, S: Array, Y: Array, quantization: Mapping[str, Any]
) -> None:
    sums = int8_conv_sums(op, X, W, b, Y.shape, quantization)
    steps = sums.astype(np.float32) * multipliers(quantization["X"], quantization["W"], quantization["Y"])
    steps += quantization["S"].real(S) / np.float32(quantization["Y"].scale)
    Y[...] = requantize(steps, np.float32(1), quantization["Y"], relu=op.relu)
