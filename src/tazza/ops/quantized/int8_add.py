"""Sums of bytes: Int8Add and Int8Sum, which is the same, and with a rectifier behind it Int8AddRelu and Int8SumRelu.

A, B and C have one shape S, and each a scale and a zero point of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tazza.operator import PER_TENSOR, Array, Effects, OpSchema, OpView, blob, kernel, schema
from tazza.ops.quantized.scale import NO_GRADIENT, SCALE_ARGS, UINT8, given_quantization, requantize
from tazza.tensor import DataType, PerTensor, TensorSpec


def int8_add_infer(op: OpView, A: TensorSpec, B: TensorSpec) -> TensorSpec:
    dims = B.dims if A.dims is None else A.dims
    return TensorSpec(dims, DataType.UINT8, quantization=given_quantization(op))


def _adding(*, relu: bool) -> Callable[..., None]:
    def int8_add(A: Array, B: Array, C: Array, quantization: Mapping[str, PerTensor]) -> None:
        a, b, meaning = (quantization[letter] for letter in "ABC")
        C[...] = requantize(a.real(A) + b.real(B), np.float32(1) / np.float32(meaning.scale), meaning, relu=relu)

    return int8_add


def _declare(type: str, *, relu: bool) -> OpSchema:
    declared = schema(
        type,
        "C = max(A + B, 0) from bytes to bytes." if relu else "C = A + B from bytes to bytes.",
        inputs=[blob("A", UINT8, "*S", quantization=PER_TENSOR), blob("B", UINT8, "*S", quantization=PER_TENSOR)],
        outputs=[blob("C", UINT8, "*S", quantization=PER_TENSOR)],
        args=SCALE_ARGS,
        in_place={"C": ("A", "B")},
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="Jacob and others 2018, arXiv 1712.05877, appendix A.2; Caffe2",
        example=f"""
        >>> a = run("Int8Quantize", [1.0, -2.0], Y_scale=0.5, Y_zero_point=10)
        >>> b = run("Int8Quantize", [0.5, 0.5], Y_scale=0.25)
        >>> run("{type}", a, b, Y_scale=0.5, Y_zero_point=10).data
        array([13, {10 if relu else " 7"}], dtype=uint8)
        """,
    )
    declared.infer(int8_add_infer)
    declared.batched("A", "B")
    kernel(declared)(_adding(relu=relu))
    return declared


INT8_ADDS = {
    type: _declare(type, relu=type.endswith("Relu")) for type in ("Int8Add", "Int8AddRelu", "Int8Sum", "Int8SumRelu")
}
"""Operator type -> its schema."""


def int8_sum_relu(op: OpView) -> bool | None:
    """Return whether a sum of bytes has a rectifier behind it; None for what is no such sum."""
    return op.type.endswith("Relu") if op.type in INT8_ADDS else None
