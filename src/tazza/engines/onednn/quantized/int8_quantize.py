"""Int8Quantize and Int8Dequantize: reorders with a scale and a zero point."""

from __future__ import annotations

from tazza.engines.onednn.descriptor import Descriptor, accepts_dense
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import describe
from tazza.engines.onednn.quantized.scaled import Scaling, meaning_of
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.quantized.int8_quantize import INT8_DEQUANTIZE, INT8_QUANTIZE
from tazza.runtime.machine import machine
from tazza.tensor import ROW_MAJOR, PerTensor, TensorSpec

PASSES = 2.0
"""Plain passes over both blobs that a reorder takes as long as, where blobs lie in the caches."""


def rows_ns(op: OpView, specs: dict[str, TensorSpec]) -> float | None:
    """Return about how long it takes where a compiled pass does the same; only a reorder reads other layouts."""
    del op
    if specs["X"].layout != ROW_MAJOR:
        return None
    return PASSES * sum(one.nbytes for one in specs.values()) / machine().memory_bytes_per_ns


@onednn(INT8_QUANTIZE, accepts=accepts_dense, estimate_ns=rows_ns)
def int8_quantize(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = X / s + z, row-major, which with channels last is what the layers of bytes read."""
    del op
    meaning, scaling = meaning_of(specs["Y"]), Scaling()
    scaling.scale("dst", meaning.scale)
    scaling.zero_point("dst", meaning.zero_point)
    return _reorder(specs, scaling)


@onednn(INT8_DEQUANTIZE, accepts=accepts_dense, estimate_ns=rows_ns)
def int8_dequantize(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = s (X - z)."""
    del op
    if not isinstance(specs["X"].quantization, PerTensor):
        return Unsupported("X has several scales")
    meaning, scaling = meaning_of(specs["X"]), Scaling()
    scaling.scale("src", meaning.scale)
    scaling.zero_point("src", meaning.zero_point)
    return _reorder(specs, scaling)


def _reorder(specs: dict[str, TensorSpec], scaling: Scaling) -> Answer:
    plain = TensorSpec(specs["Y"].shape, specs["Y"].dtype)
    found = describe("reorder", Descriptor.of(specs["X"]), Descriptor.of(plain), attributes=scaling.attributes)
    if found.is_slow:
        raise Unimplemented(f"oneDNN has only its reference code ({found.implementation})")
    return LaidOut(PrimitiveLaunch(found, {"src": "X", "dst": "Y", **scaling.arguments}), {"Y": ROW_MAJOR})
