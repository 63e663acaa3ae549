"""Sums of bytes: Int8Add and Int8Sum, which is the same, and with a rectifier behind it Int8AddRelu and Int8SumRelu.

A, B and C have one shape S, and each a scale and a zero point of its own.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.operator import (
    PER_TENSOR,
    Array,
    Effects,
    OpSchema,
    OpView,
    Role,
    blob,
    family,
    fused,
    kernel,
    schema,
)
from tazza.ops.quantized.int8_relu import INT8_RELU
from tazza.ops.quantized.scale import NO_GRADIENT, SCALE_ARGS, UINT8, given_quantization, requantize
from tazza.tensor import DataType, PerTensor, TensorSpec


def int8_add_infer(op: OpView, A: TensorSpec, B: TensorSpec) -> TensorSpec:
    dims = B.dims if A.dims is None else A.dims
    return TensorSpec(dims, DataType.UINT8, quantization=given_quantization(op))


def int8_add(A: Array, B: Array, C: Array, quantization: Mapping[str, PerTensor]) -> None:
    a, b, meaning = (quantization[letter] for letter in "ABC")
    C[...] = requantize(a.real(A) + b.real(B), np.float32(1) / np.float32(meaning.scale), meaning)


EXAMPLE = """
>>> a = run("Int8Quantize", [1.0, -2.0], Y_scale=0.5, Y_zero_point=10)
>>> b = run("Int8Quantize", [0.5, 0.5], Y_scale=0.25)
>>> run("{type}", a, b, Y_scale=0.5, Y_zero_point=10).data
array([13, {last}], dtype=uint8)
"""


@family("Int8Add", "Int8Sum")
def int8_adds(type: str) -> OpSchema:
    """A sum under one of its names."""
    made = schema(
        type,
        "C = A + B from bytes to bytes.",
        inputs=[
            blob("A", UINT8, "*S", quantization=PER_TENSOR),
            blob("B", UINT8, "*S", quantization=PER_TENSOR, role=Role.DATA),
        ],
        outputs=[blob("C", UINT8, "*S", quantization=PER_TENSOR)],
        args=SCALE_ARGS,
        in_place={"C": ("A", "B")},
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Jacob and others 2018, arXiv 1712.05877, appendix A.2; Caffe2",
        example=EXAMPLE.format(type=type, last=" 7"),
    )
    made.infer(int8_add_infer)
    made.batched("A", "B")
    kernel(made)(int8_add)
    return made


@family("Int8AddRelu", "Int8SumRelu")
def int8_add_relus(type: str) -> OpSchema:
    """A sum with a rectifier behind it."""
    return fused(
        type,
        int8_adds[type.removesuffix("Relu")],
        INT8_RELU,
        doc="C = max(A + B, 0) from bytes to bytes.",
        example=EXAMPLE.format(type=type, last=10),
    )


def int8_sum_relu(op: OpView) -> bool | None:
    """Return whether a sum of bytes has a rectifier behind it; None for what is no such sum."""
    return op.type in int8_add_relus if op.type in {*int8_adds, *int8_add_relus} else None
