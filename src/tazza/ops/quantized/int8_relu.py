"""Rectifier of bytes: Int8Relu. X and Y have one shape S."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tazza.operator import PER_TENSOR, Array, Effects, OpView, blob, kernel, schema
from tazza.ops.quantized.scale import NO_GRADIENT, SCALE_ARGS, UINT8, quantization_like, requantize
from tazza.tensor import PerTensor, TensorSpec

INT8_RELU = schema(
    "Int8Relu",
    "Y = max(X, 0) from bytes to bytes. Without arguments Y has the scale and the zero point of X.",
    inputs=[blob("X", UINT8, "*S", quantization=PER_TENSOR)],
    outputs=[blob("Y", UINT8, "*S", quantization=PER_TENSOR)],
    args=SCALE_ARGS,
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("Int8Relu", run("Int8Quantize", [1.0, -2.0], Y_scale=0.5, Y_zero_point=10)).data
    array([12, 10], dtype=uint8)
    """,
)


@INT8_RELU.infer
def int8_relu_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    return replace(X, quantization=quantization_like(op, X))


INT8_RELU.batched("X")


@kernel(INT8_RELU)
def int8_relu(X: Array, Y: Array, quantization: Mapping[str, PerTensor]) -> None:
    meaning = quantization["Y"]
    if meaning == quantization["X"]:
        np.maximum(X, np.uint8(min(max(meaning.zero_point, 0), 255)), out=Y)
    else:
        Y[...] = requantize(quantization["X"].real(X), np.float32(1) / np.float32(meaning.scale), meaning, relu=True)
