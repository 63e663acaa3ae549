"""Rectifiers of bytes: Int8Relu, Int8LeakyRelu. X and Y have one shape S."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tazza.errors import ArgumentError
from tazza.operator import PER_TENSOR, Array, Cost, Effects, OpView, blob, kernel, schema
from tazza.ops.nn.relu import SLOPE
from tazza.ops.quantized.scale import (
    NO_GRADIENT,
    SCALE_ARGS,
    UINT8,
    given_quantization,
    quantization_like,
    requantize,
)
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


INT8_LEAKY_RELU = schema(
    "Int8LeakyRelu",
    "Y = X where X >= 0, else alpha * X, from bytes to bytes; alpha between 0 and 1.",
    inputs=[blob("X", UINT8, "*S", quantization=PER_TENSOR)],
    outputs=[blob("Y", UINT8, "*S", quantization=PER_TENSOR)],
    args=(SLOPE, *SCALE_ARGS),
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Maas, Hannun, Ng 2013, section 2.2; Caffe2",
    example="""
    >>> x = run("Int8Quantize", [1.0, -2.0], Y_scale=0.5, Y_zero_point=10)
    >>> run("Int8LeakyRelu", x, alpha=0.5, Y_scale=0.25, Y_zero_point=10).data
    array([14,  6], dtype=uint8)
    """,
)


@INT8_LEAKY_RELU.infer
def int8_leaky_relu_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    return replace(X, quantization=given_quantization(op))


@INT8_LEAKY_RELU.cost
def int8_leaky_relu_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(4 * Y.size, X.nbytes, Y.nbytes)  # zero point, product, rounding, zero point


@INT8_LEAKY_RELU.validate
def int8_leaky_relu_validate(op: OpView) -> None:
    if not 0 < op.alpha < 1:
        raise op.error(ArgumentError, f"alpha = {op.alpha}, it must be above 0 and below 1")


INT8_LEAKY_RELU.batched("X")


@kernel(INT8_LEAKY_RELU)
def int8_leaky_relu(op: OpView, X: Array, Y: Array, quantization: Mapping[str, PerTensor]) -> None:
    x, meaning = quantization["X"].real(X), quantization["Y"]
    slopes = np.where(x >= 0, np.float32(1), np.float32(op.alpha))
    Y[...] = requantize(x * slopes, np.float32(1) / np.float32(meaning.scale), meaning)
