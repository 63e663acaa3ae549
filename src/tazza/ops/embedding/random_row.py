"""Rows in 1, 2, 4 or 8 bits that are rounded by chance: FloatToFusedRandRowwiseQuantized and back.

A row of D numbers takes 10 + T bytes, T = ceil(D / K) with K codes in a byte:

    bits, K * T - D, least number, greatest number (float32 each), T bytes; code k * T + t is code k of byte t

    x = least + code * gap      gap = (greatest - least) / (2^bits - 1) + 1e-8

Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.device import Generator
from tazza.errors import NumericError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    DynamicOutput,
    Effects,
    OpView,
    arg,
    blob,
    kernel,
    schema,
    streamed,
)
from tazza.ops.embedding.row_conversion import NO_GRADIENT
from tazza.tensor import DataType, TensorSpec

HEAD = 10
"""Bytes of a row before its codes."""
WIDTHS = (1, 2, 4, 8)
LEAST_GAP = np.float32(1e-8)

FLOAT_TO_FUSED_RAND_ROWWISE_QUANTIZED = schema(
    "FloatToFusedRandRowwiseQuantized",
    "Y = rows of X in few bits, rounded up or down by chance so that the mean is right, or to the nearest.",
    inputs=[blob("X", FLOAT, "N D")],
    outputs=[blob("Y", DataType.UINT8, doc="(N, 10 + T)")],
    args=[
        arg("bitwidth", int, 8, choices=WIDTHS, doc="bits of a code"),
        arg("random", bool, True, doc="by chance; else to the nearest, halves to even"),
    ],
    effects=Effects.RANDOM,
    no_gradient=NO_GRADIENT,
    source="Matsumoto, Nishimura 1998 (MT19937)",
    example="""
    >>> run("FloatToFusedRandRowwiseQuantized", [[0.0, 1.0, 3.0]], bitwidth=2, random=0)[0].tolist()
    [2, 1, 0, 0, 0, 0, 0, 0, 64, 64, 52]
    """,
)
FUSED_RAND_ROWWISE_QUANTIZED_TO_FLOAT = schema(
    "FusedRandRowwiseQuantizedToFloat",
    "Y = the numbers of rows in few bits; the first row says how many bits, and how many numbers.",
    inputs=[blob("X", DataType.UINT8, "N B", doc="at least one row")],
    outputs=[blob("Y", FLOAT, dynamic=True, doc="(N, D)")],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> row = [2, 1, 0, 0, 0, 0, 0, 0, 64, 64, 52]
    >>> run("FusedRandRowwiseQuantizedToFloat", np.array([row], np.uint8)).round(3)
    array([[0., 1., 3.]], dtype=float32)
    """,
)


@FLOAT_TO_FUSED_RAND_ROWWISE_QUANTIZED.infer
def float_to_fused_rand_rowwise_quantized_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    N, D = (None, None) if X.dims is None else X.dims
    return TensorSpec((N, None if D is None else HEAD + -(-D * op.bitwidth // 8)), DataType.UINT8)


@FLOAT_TO_FUSED_RAND_ROWWISE_QUANTIZED.cost
def float_to_fused_rand_rowwise_quantized_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,), flops=8 * X.size)


@FUSED_RAND_ROWWISE_QUANTIZED_TO_FLOAT.infer
def fused_rand_rowwise_quantized_to_float_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    N, B = (None, None) if X.dims is None else X.dims
    op.require(N != 0, "X has no rows", "the first one says how many numbers a row has")
    op.require(B is None or B >= HEAD, f"rows of X have {B} bytes", f"bits, extents and bounds take {HEAD}")
    return TensorSpec((N, None), DataType.FLOAT)


@FUSED_RAND_ROWWISE_QUANTIZED_TO_FLOAT.cost
def fused_rand_rowwise_quantized_to_float_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,), flops=2 * Y.size)


@kernel(FLOAT_TO_FUSED_RAND_ROWWISE_QUANTIZED)
def float_to_fused_rand_rowwise_quantized(op: OpView, random: Generator, X: Array, Y: Array) -> None:
    (N, D), top, T = X.shape, 2**op.bitwidth - 1, Y.shape[1] - HEAD
    low = np.fmin.reduce(X, axis=1, keepdims=True, initial=np.float32(np.inf))
    high = np.fmax.reduce(X, axis=1, keepdims=True, initial=np.float32(-np.inf))
    with np.errstate(all="ignore"):
        steps = (X - low) / ((high - low) / np.float32(top) + LEAST_GAP)
    rounded = np.floor(steps + random.uniform(X.size).reshape(X.shape)) if op.random else np.rint(steps)
    K = 8 // op.bitwidth
    codes = np.zeros((N, K * T), np.uint8)
    codes[:, :D] = np.where(np.isnan(rounded), top, np.clip(rounded, 0, top))
    shifts = np.arange(K, dtype=np.uint8)[:, None] * np.uint8(op.bitwidth)
    Y[:, 0], Y[:, 1] = op.bitwidth, K * T - D
    Y[:, 2:HEAD] = np.concatenate([low, high], axis=1).view(np.uint8)
    Y[:, HEAD:] = np.bitwise_or.reduce(codes.reshape(N, K, T) << shifts, axis=1)


@kernel(FUSED_RAND_ROWWISE_QUANTIZED_TO_FLOAT)
def fused_rand_rowwise_quantized_to_float(op: OpView, X: Array, Y: DynamicOutput) -> None:
    bits, left, T = int(X[0, 0]), int(X[0, 1]), X.shape[1] - HEAD
    if bits not in WIDTHS:
        raise op.error(
            NumericError, f"X[0, 0] is {bits}, it must be one of {WIDTHS}", "it says how many bits codes have"
        )
    K, N = 8 // bits, len(X)
    if left > K * T:
        raise op.error(
            NumericError, f"X[0, 1] is {left}, and there is room for {K * T} codes", "it says how many are not used"
        )
    low, high = np.split(np.ascontiguousarray(X[:, 2:HEAD]).view(np.float32), 2, axis=1)
    shifts = np.arange(K, dtype=np.uint8)[:, None] * np.uint8(bits)
    codes = (X[:, None, HEAD:] >> shifts) & np.uint8(2**bits - 1)  # (N, K, T)
    D = K * T - left
    with np.errstate(all="ignore"):
        gap = (high - low) / np.float32(2**bits - 1) + LEAST_GAP
        Y.allocate((N, D))[...] = low + codes.reshape(N, K * T)[:, :D] * gap
