"""Pooling of bytes: Int8MaxPool and Int8AveragePool, each also with a rectifier behind it.

Letters as in `ops.nn.pool`, always in the order NHWC: X (N, in..., C), Y (N, out..., C). Padding is no element of a
window's maximum; in a mean it counts as 0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import (
    PER_TENSOR,
    Array,
    Effects,
    OpSchema,
    OpView,
    blob,
    family,
    fused,
    kernel,
    schema,
)
from tazza.ops.nn.pool import POOL_ARGS, fold_windows, pool_cost, pool_infer, pool_validate, pool_window
from tazza.ops.nn.window import channels_first, half_pairs
from tazza.ops.quantized.int8_conv import NHWC
from tazza.ops.quantized.int8_relu import INT8_RELU
from tazza.ops.quantized.scale import NO_GRADIENT, SCALE_ARGS, UINT8, quantization_like, requantize
from tazza.tensor import PerTensor, TensorSpec

INT8_POOL_ARGS = (*(NHWC if one.name == "order" else one for one in POOL_ARGS), *SCALE_ARGS)


def int8_pool_doc(what: str) -> str:
    """Return what a pooling does."""
    return (
        f"Y = {what} of each window of X, from bytes to bytes. Without scale Y has the scale and the zero point of X."
    )


def int8_pool_example(type: str, result: str) -> str:
    """Return the example of a pooling."""
    return f"""
    >>> x = run("Int8Quantize", [[[[-8.0], [-4.0]], [[-2.0], [-2.0]]]], Y_scale=0.5, Y_zero_point=20)
    >>> run("{type}", x, kernel=2).data
    array([[[[{result}]]]], dtype=uint8)
    """


def int8_pool_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    return replace(pool_infer(op, X), quantization=quantization_like(op, X))


def int8_max_pool(op: OpView, X: Array, Y: Array, quantization: Mapping[str, PerTensor]) -> None:
    window, _ = pool_window(op, X.shape)
    x, y = channels_first(op.order, X), channels_first(op.order, Y)
    found = fold_windows(np.maximum, 0, window, x, y.shape[2:])
    before, after = quantization["X"], quantization["Y"]
    if before == after:
        y[...] = found
    else:
        y[...] = requantize(before.real(found), np.float32(1) / np.float32(after.scale), after)


def int8_average_pool(op: OpView, X: Array, Y: Array, quantization: Mapping[str, PerTensor]) -> None:
    window, _ = pool_window(op, X.shape)
    before, after = quantization["X"], quantization["Y"]
    x, y = channels_first(op.order, X).astype(np.int64) - before.zero_point, channels_first(op.order, Y)
    sums = fold_windows(np.add, 0, window, x, y.shape[2:])
    y[...] = requantize(sums, np.float32(before.scale / (after.scale * window.size)), after)


@dataclass(frozen=True, slots=True)
class Int8Pooling:
    """What tells one pooling from another."""

    what: str
    compute: Callable[..., None]
    result: str
    """Text of `Y` in the example, and with a rectifier behind."""
    rectified: str = "20"


@family(
    {
        "Int8MaxPool": Int8Pooling("maximum", int8_max_pool, "16"),
        "Int8AveragePool": Int8Pooling("mean", int8_average_pool, "12"),
    }
)
def int8_pools(type: str, row: Int8Pooling) -> OpSchema:
    """A pooling of bytes."""
    made = schema(
        type,
        int8_pool_doc(row.what),
        inputs=[blob("X", UINT8, quantization=PER_TENSOR, doc="(N, in..., C)")],
        outputs=[blob("Y", UINT8, quantization=PER_TENSOR, doc="(N, out..., C)")],
        args=INT8_POOL_ARGS,
        effects=Effects.PURE,
        ineffective=half_pairs,
        no_gradient=NO_GRADIENT,
        source="Caffe2",
        example=int8_pool_example(type, row.result),
    )
    made.validate(pool_validate)
    made.infer(int8_pool_infer)
    made.cost(pool_cost)
    made.batched("X")
    kernel(made)(row.compute)
    return made


@family({"Int8MaxPoolRelu": int8_pools.rows["Int8MaxPool"], "Int8AveragePoolRelu": int8_pools.rows["Int8AveragePool"]})
def int8_pool_relus(type: str, row: Int8Pooling) -> OpSchema:
    """A pooling of bytes with a rectifier behind it."""
    return fused(
        type,
        int8_pools[type.removesuffix("Relu")],
        INT8_RELU,
        doc=int8_pool_doc(f"{row.what}, at least 0,"),
        example=int8_pool_example(type, row.rectified),
    )


def averages(op: OpView) -> bool:
    """Whether a pooling of bytes takes means."""
    return {**int8_pools.rows, **int8_pool_relus.rows}[op.type].compute is int8_average_pool


def rectifies(op: OpView) -> bool:
    """Whether a pooling of bytes has a rectifier behind it."""
    return op.type in int8_pool_relus
