"""Int8FC: a product of matrices u8 x s8 -> s32 -> u8, requantized by scale and zero point of the destination."""

from __future__ import annotations

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import describe
from tazza.engines.onednn.quantized.by_numbers import fc_by_numbers
from tazza.engines.onednn.quantized.int8_conv import accepts_constants
from tazza.engines.onednn.quantized.scaled import Sums, signed_layout
from tazza.operator import LaidOut, OpView
from tazza.ops.quantized.int8_fc import INT8_FC
from tazza.tensor import ROW_MAJOR, DataType, TensorSpec


@onednn(INT8_FC, accepts=accepts_constants)
def int8_fc(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = X W^T + b."""
    del op
    sums = Sums.of(specs)
    if sums.obstacle(specs["b"]) is not None:
        return fc_by_numbers(specs)
    N, M = specs["Y"].shape
    K = specs["X"].size // N
    scaling = sums.scaling((), 2)
    bias, bias_layout = sums.bias(specs["b"], (1, M))
    found = describe(
        "matmul",
        Descriptor.of((N, K), DataType.UINT8),
        Descriptor.any((K, M), DataType.INT8),
        bias,
        Descriptor.of((N, M), DataType.UINT8),
        attributes=scaling.attributes,
        flops=2 * N * M * K,
    )
    if found.is_slow:
        raise Unimplemented(f"oneDNN has only its reference code ({found.implementation})")
    axes = (*range(1, specs["W"].rank), 0)  # (M, K...) as (K..., M)
    layouts = {"X": ROW_MAJOR, "W": signed_layout(found.argument("weights"), axes), "b": bias_layout}
    arguments = {"src": "X", "weights": "W", "bias": "b", "dst": "Y", **scaling.arguments}
    return LaidOut(PrimitiveLaunch(found, arguments), layouts)
