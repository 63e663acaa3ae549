"""Pooling of bytes: Int8MaxPool and Int8AveragePool, each also with a rectifier behind it.

Letters as in `ops.nn.pool`, always in the order NHWC: X (N, in..., C), Y (N, out..., C). Padding is no element of a
window's maximum; in a mean it counts as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tazza.operator import PER_TENSOR, Array, Effects, OpSchema, OpView, blob, kernel, schema
from tazza.ops.nn.pool import POOL_ARGS, fold_windows, pool_cost, pool_infer, pool_validate, pool_window
from tazza.ops.nn.window import channels_first, half_pairs
from tazza.ops.quantized.int8_conv import NHWC
from tazza.ops.quantized.scale import NO_GRADIENT, SCALE_ARGS, UINT8, quantization_like, requantize
from tazza.tensor import PerTensor, TensorSpec

INT8_POOL_ARGS = (*(NHWC if one.name == "order" else one for one in POOL_ARGS), *SCALE_ARGS)


def int8_pool_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    return replace(pool_infer(op, X), quantization=quantization_like(op, X))


def _max_pooling(*, relu: bool) -> Callable[..., None]:
    def int8_max_pool(op: OpView, X: Array, Y: Array, quantization: Mapping[str, PerTensor]) -> None:
        window, _ = pool_window(op, X.shape)
        x, y = channels_first(op.order, X), channels_first(op.order, Y)
        found = fold_windows(np.maximum, 0, window, x, y.shape[2:])
        before, after = quantization["X"], quantization["Y"]
        if before == after:
            y[...] = np.maximum(found, np.uint8(min(max(after.zero_point, 0), 255))) if relu else found
        else:
            y[...] = requantize(before.real(found), np.float32(1) / np.float32(after.scale), after, relu=relu)

    return int8_max_pool


def _average_pooling(*, relu: bool) -> Callable[..., None]:
    def int8_average_pool(op: OpView, X: Array, Y: Array, quantization: Mapping[str, PerTensor]) -> None:
        window, _ = pool_window(op, X.shape)
        before, after = quantization["X"], quantization["Y"]
        x, y = channels_first(op.order, X).astype(np.int64) - before.zero_point, channels_first(op.order, Y)
        sums = fold_windows(np.add, 0, window, x, y.shape[2:])
        y[...] = requantize(sums, np.float32(before.scale / (after.scale * window.size)), after, relu=relu)

    return int8_average_pool


def _declare(type: str, what: str, compute: Any, result: str) -> OpSchema:
    declared = schema(
        type,
        f"Y = {what} of each window of X, from bytes to bytes. Without scale Y has the scale and the zero point of X.",
        inputs=[blob("X", UINT8, quantization=PER_TENSOR, doc="(N, in..., C)")],
        outputs=[blob("Y", UINT8, quantization=PER_TENSOR, doc="(N, out..., C)")],
        args=INT8_POOL_ARGS,
        effects=Effects.PURE,
        ineffective=half_pairs,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=f"""
        >>> x = run("Int8Quantize", [[[[-8.0], [-4.0]], [[-2.0], [-2.0]]]], Y_scale=0.5, Y_zero_point=20)
        >>> run("{type}", x, kernel=2).data
        array([[[[{result}]]]], dtype=uint8)
        """,
    )
    declared.validate(pool_validate)
    declared.infer(int8_pool_infer)
    declared.cost(pool_cost)
    declared.batched("X")
    kernel(declared)(compute)
    return declared


INT8_MAX_POOL = _declare("Int8MaxPool", "maximum", _max_pooling(relu=False), "16")
INT8_MAX_POOL_RELU = _declare("Int8MaxPoolRelu", "maximum, at least 0,", _max_pooling(relu=True), "20")
INT8_AVERAGE_POOL = _declare("Int8AveragePool", "mean", _average_pooling(relu=False), "12")
INT8_AVERAGE_POOL_RELU = _declare("Int8AveragePoolRelu", "mean, at least 0,", _average_pooling(relu=True), "20")
INT8_POOLS = (INT8_MAX_POOL, INT8_MAX_POOL_RELU, INT8_AVERAGE_POOL, INT8_AVERAGE_POOL_RELU)


def averages(op: OpView) -> bool:
    """Whether a pooling of bytes takes means."""
    return op.type in (INT8_AVERAGE_POOL.type, INT8_AVERAGE_POOL_RELU.type)


def rectifies(op: OpView) -> bool:
    """Whether a pooling of bytes has a rectifier behind it."""
    return op.type in (INT8_MAX_POOL_RELU.type, INT8_AVERAGE_POOL_RELU.type)
