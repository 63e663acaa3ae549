"""Softmax of bytes: Int8Softmax. X and Y have one shape S."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.operator import PER_TENSOR, Array, Cost, Effects, OpView, blob, kernel, schema
from tazza.ops.nn.softmax import AXIS
from tazza.ops.quantized.scale import NO_GRADIENT, UINT8, given_quantization, requantize, scale_args
from tazza.ops.shape.axis import axes_from, cut
from tazza.tensor import DataType, PerTensor, TensorSpec

STEP = 1 / 256
"""Shares of a whole lie from 0 to 1."""

INT8_SOFTMAX = schema(
    "Int8Softmax",
    """Y = exp(X) / sum of exp(X), the sum over all dimensions from `axis` on, from bytes to bytes.

    A share of 1 is 255 / 256 where Y has the scale that it has without arguments.""",
    inputs=[blob("X", UINT8, "*S", quantization=PER_TENSOR)],
    outputs=[blob("Y", UINT8, "*S", quantization=PER_TENSOR)],
    args=[AXIS, *scale_args(STEP)],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Goodfellow, Bengio, Courville 2016, sections 4.1 and 6.2.2.3; Caffe2",
    example="""
    >>> x = run("Int8Quantize", [[0.0, 0.0], [100.0, 0.0]], Y_scale=0.5)
    >>> run("Int8Softmax", x).data
    array([[128, 128],
           [255,   0]], dtype=uint8)
    """,
)


@INT8_SOFTMAX.infer
def int8_softmax_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is not None:
        cut(op, "axis", "X", X.dims)
    return TensorSpec(X.dims, DataType.UINT8, quantization=given_quantization(op))


@INT8_SOFTMAX.cost
def int8_softmax_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(6 * Y.size, X.nbytes, Y.nbytes)  # maximum, difference, exponential, sum, quotient, rounding


@kernel(INT8_SOFTMAX)
def int8_softmax(op: OpView, X: Array, Y: Array, quantization: Mapping[str, PerTensor]) -> None:
    columns, meaning = axes_from(op.axis, X.ndim), quantization["Y"]
    below = X.astype(np.int32) - X.max(axis=columns, keepdims=True, initial=0)
    shares = np.exp(below.astype(np.float32) * np.float32(quantization["X"].scale))
    shares /= shares.sum(axis=columns, keepdims=True)
    Y[...] = requantize(shares, np.float32(1) / np.float32(meaning.scale), meaning)
