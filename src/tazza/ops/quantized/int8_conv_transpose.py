"""Transposed convolution of bytes: Int8ConvTranspose.

Letters as in `ops.nn.conv_transpose`, always in the order NHWC; for s, z and sums see `int8_conv`.

    X (N, in..., C)    W (C, k..., M)    b (M)    Y (N, out..., M)

There are no groups, as in Caffe2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tazza.operator import PER_TENSOR, Array, Effects, OpView, Role, blob, kernel, schema
from tazza.ops.nn.conv_transpose import (
    CONV_TRANSPOSE_ARGS,
    conv_transpose,
    conv_transpose_cost,
    conv_transpose_infer,
    conv_transpose_validate,
    without_effect,
)
from tazza.ops.quantized.int8_conv import INT8_RESULT, NHWC
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
from tazza.tensor import PerTensor, TensorSpec

INT8_CONV_TRANSPOSE = schema(
    "Int8ConvTranspose",
    "Y = what a convolution with W does to its input when dX is made from X, plus b, from bytes to bytes.",
    inputs=[
        blob("X", UINT8, quantization=PER_TENSOR, doc="(N, in..., C)"),
        blob("W", UINT8, quantization=PER_TENSOR, role=Role.PARAMETER, doc="(C, k..., M)"),
        blob(
            "b", INT32, "L", quantization=PER_TENSOR, role=Role.PARAMETER, doc="in units of s_X s_W; the first M count"
        ),
    ],
    outputs=[INT8_RESULT],
    args=(
        *(NHWC if one.name == "order" else one for one in CONV_TRANSPOSE_ARGS if one.name != "group"),
        *SCALE_ARGS,
    ),
    effects=Effects.PURE,
    ineffective=without_effect,
    no_gradient=NO_GRADIENT,
    source="Dumoulin, Visin 2016, arXiv 1603.07285, section 4; Jacob and others 2018, arXiv 1712.05877; Caffe2",
    example="""
    >>> x = run("Int8Quantize", [[[[1.0], [2.0]]]], Y_scale=0.5, Y_zero_point=10)
    >>> w = run("Int8Quantize", [[[[3.0], [4.0]]]], Y_scale=0.25, Y_zero_point=128)
    >>> b = run("Int8GivenIntTensorFill", shape=[1], values=[8], Y_scale=0.125)
    >>> run("Int8ConvTranspose", x, w, b, kernels=[1, 2], Y_zero_point=5).data.ravel()
    array([ 9, 16, 14], dtype=uint8)
    """,
)
INT8_CONV_TRANSPOSE.validate(conv_transpose_validate)
INT8_CONV_TRANSPOSE.cost(conv_transpose_cost)
INT8_CONV_TRANSPOSE.batched("X")


@INT8_CONV_TRANSPOSE.infer
def int8_conv_transpose_infer(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec) -> TensorSpec:
    found = conv_transpose_infer(op, X, W, None)
    M, L = (None if spec.dims is None else spec.dims[-1] for spec in (found, b))
    op.require(M is None or L is None or L >= M, f"b has {L} elements, W gives {M} output channels")
    return replace(found, quantization=given_quantization(op))


@kernel(INT8_CONV_TRANSPOSE)
def int8_conv_transpose(
    op: OpView, X: Array, W: Array, b: Array, Y: Array, quantization: Mapping[str, PerTensor]
) -> None:
    sums = np.empty(Y.shape)
    conv_transpose(op, shifted(X, quantization["X"]), shifted(W, quantization["W"]), None, sums)
    scale = multipliers(quantization["X"], quantization["W"], quantization["Y"])
    Y[...] = requantize(sums + b[: Y.shape[-1]], scale, quantization["Y"])
