"""Rows of bytes with scale and bias in a tensor of their own: FloatToRowwiseQuantized8Bits and back.

A row is all that one number of the first axis has: X is (N, S...), scale_bias (N, 2). Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpView, Role, blob, kernel, schema, streamed
from tazza.ops.embedding.row_conversion import NO_GRADIENT
from tazza.ops.embedding.row_format import bounds
from tazza.ops.shape.axis import product
from tazza.tensor import DataType, TensorSpec

LEAST_RANGE = 1e-10
"""A row whose numbers are not further apart has the scale 1."""

FLOAT_TO_ROWWISE_QUANTIZED_8BITS = schema(
    "FloatToRowwiseQuantized8Bits",
    "Y = round((X - bias) / scale) of each row, from 0 to 255; bias is its least number, scale a 255th of its range.",
    inputs=[blob("X", FLOAT, "N *S", doc="rows are not empty")],
    outputs=[blob("Y", DataType.UINT8, "N *S"), blob("scale_bias", FLOAT, doc="(N, 2)")],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("FloatToRowwiseQuantized8Bits", [[0.0, 1.0, 255.0]])
    (array([[  0,   1, 255]], dtype=uint8), array([[1., 0.]], dtype=float32))
    """,
)
ROWWISE_8BIT_QUANTIZED_TO_FLOAT = schema(
    "Rowwise8BitQuantizedToFloat",
    "Y = X * scale + bias, both of each row.",
    inputs=[
        blob("X", DataType.UINT8, "N *S"),
        blob("scale_bias", FLOAT, "N P", role=Role.DATA, doc="P = 2: scale and bias of each row"),
    ],
    outputs=[blob("Y", FLOAT, "N *S")],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("Rowwise8BitQuantizedToFloat", np.array([[0, 1, 255]], np.uint8), [[2.0, 1.0]])
    array([[  1.,   3., 511.]], dtype=float32)
    """,
)


@FLOAT_TO_ROWWISE_QUANTIZED_8BITS.infer
def float_to_rowwise_quantized_8bits_infer(op: OpView, X: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    N = None if X.dims is None else X.dims[0]
    if X.dims is not None:
        empty = product(X.dims[1:]) == 0 and N != 0
        op.require(not empty, "rows of X have no numbers", "the least of none is not known")
    return TensorSpec(X.dims, DataType.UINT8), TensorSpec((N, 2), DataType.FLOAT)


@FLOAT_TO_ROWWISE_QUANTIZED_8BITS.cost
def float_to_rowwise_quantized_8bits_cost(op: OpView, X: TensorSpec, Y: TensorSpec, scale_bias: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y, scale_bias), flops=6 * X.size)


@ROWWISE_8BIT_QUANTIZED_TO_FLOAT.infer
def rowwise_8bit_quantized_to_float_infer(op: OpView, X: TensorSpec, scale_bias: TensorSpec) -> TensorSpec:
    check_pairs(op, scale_bias)
    return TensorSpec(X.dims, DataType.FLOAT)


@ROWWISE_8BIT_QUANTIZED_TO_FLOAT.cost
def rowwise_8bit_quantized_to_float_cost(op: OpView, X: TensorSpec, scale_bias: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X, scale_bias), (Y,), flops=2 * Y.size)


def check_pairs(op: OpView, scale_bias: TensorSpec) -> None:
    """Check that each row has a scale and a bias.

    Raises:
        ShapeError: it has not.
    """
    if scale_bias.dims is not None:
        P = scale_bias.dims[1]
        op.require(P in (None, 2), f"rows of scale_bias have {P} numbers", "scale and bias are 2")


def decoded(codes: Array, pairs: Array) -> Array:
    """Return the numbers (N, S...) of codes, by scales and biases (N, 2)."""
    scale, bias = (pairs[:, i].reshape(-1, *[1] * (codes.ndim - 1)) for i in range(2))
    return codes * scale + bias


@kernel(FLOAT_TO_ROWWISE_QUANTIZED_8BITS)
def float_to_rowwise_quantized_8bits(X: Array, Y: Array, scale_bias: Array) -> None:
    if X.size == 0:
        return
    rows = X.reshape(len(X), -1)
    with np.errstate(all="ignore"):
        low, high = bounds(rows, first=False)
        scale = np.where(high - low > LEAST_RANGE, (high - low) / np.float32(255), np.float32(1))
        codes = np.floor((rows - low) / scale + np.float32(0.5))  # halves go up
        Y[...] = np.where(np.isfinite(codes), np.clip(codes, 0, 255), 0).reshape(X.shape)
    scale_bias[...] = np.concatenate([scale, low], axis=1)


@kernel(ROWWISE_8BIT_QUANTIZED_TO_FLOAT)
def rowwise_8bit_quantized_to_float(X: Array, scale_bias: Array, Y: Array) -> None:
    Y[...] = decoded(X, scale_bias)
