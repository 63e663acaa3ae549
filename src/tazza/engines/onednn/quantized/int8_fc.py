"""Int8FC: a product of matrices of bytes."""

from __future__ import annotations

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import Attributes, PrimitiveDescriptor, describe
from tazza.engines.onednn.quantized.layer import accepts_constants, layer
from tazza.operator import OpView
from tazza.ops.quantized.int8_fc import INT8_FC
from tazza.tensor import DataType, TensorSpec


@onednn(INT8_FC, accepts=accepts_constants)
def int8_fc(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = X W^T + b."""
    del op
    N, M = specs["Y"].shape
    K = specs["X"].size // N

    def ask(rows: DataType, filters: DataType, bias: Descriptor, attributes: Attributes) -> PrimitiveDescriptor:
        sides = Descriptor.of((N, K), rows), Descriptor.any((K, M), filters), bias, Descriptor.of((N, M), rows)
        return describe("matmul", *sides, attributes=attributes, flops=2 * N * M * K).unless_slow

    return layer(specs, ask, (*range(1, specs["W"].rank), 0), (1, M), mask=2)  # (M, K...) as (K..., M)
