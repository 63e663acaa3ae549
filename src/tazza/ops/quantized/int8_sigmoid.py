"""Sigmoid of bytes: Int8Sigmoid. X and Y have one shape S."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from tazza.operator import PER_TENSOR, Array, Cost, Effects, OpView, blob, kernel, schema
from tazza.ops.quantized.int8_softmax import STEP
from tazza.ops.quantized.scale import NO_GRADIENT, UINT8, given_quantization, requantize, scale_args
from tazza.tensor import PerTensor, TensorSpec

INT8_SIGMOID = schema(
    "Int8Sigmoid",
    """Y = 1 / (1 + exp(-X)), from bytes to bytes.

    1 is 255 / 256 where Y has the scale that it has without arguments.""",
    inputs=[blob("X", UINT8, "*S", quantization=PER_TENSOR)],
    outputs=[blob("Y", UINT8, "*S", quantization=PER_TENSOR)],
    args=scale_args(STEP),
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> x = run("Int8Quantize", [-100.0, 0.0, 100.0], Y_scale=0.5, Y_zero_point=128)
    >>> run("Int8Sigmoid", x).data
    array([  0, 128, 255], dtype=uint8)
    """,
)
INT8_SIGMOID.batched("X")


@INT8_SIGMOID.infer
def int8_sigmoid_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    return replace(X, quantization=given_quantization(op))


@INT8_SIGMOID.cost
def int8_sigmoid_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(6 * Y.size, X.nbytes, Y.nbytes)  # zero point, scale, exponential, sum, quotient, rounding


@kernel(INT8_SIGMOID)
def int8_sigmoid(X: Array, Y: Array, quantization: Mapping[str, PerTensor]) -> None:
    meaning = quantization["Y"]
    with np.errstate(over="ignore"):
        found = 1 / (1 + np.exp(-quantization["X"].real(X)))
    Y[...] = requantize(found, np.float32(1) / np.float32(meaning.scale), meaning)
