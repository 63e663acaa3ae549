"""Int8Quantize and Int8Dequantize: reorders with a scale and a zero point."""

from __future__ import annotations

from tazza.engines.onednn.descriptor import Descriptor, accepts_dense
from tazza.engines.onednn.estimate import passes_ns
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.quantized.scaled import meaning_of, reordered
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.ops.quantized.int8_quantize import INT8_DEQUANTIZE, INT8_QUANTIZE
from tazza.tensor import ROW_MAJOR, PerTensor, TensorSpec

PASSES = 2.0
"""Plain passes over both blobs that a reorder takes as long as, where blobs lie in the caches."""


def rows_ns(op: OpView, specs: dict[str, TensorSpec]) -> float | None:
    """Return about how long it takes where a compiled pass does the same; only a reorder reads other layouts."""
    del op
    return passes_ns(PASSES, *specs.values()) if specs["X"].layout == ROW_MAJOR else None


@onednn(INT8_QUANTIZE, INT8_DEQUANTIZE, accepts=accepts_dense, estimate_ns=rows_ns)
def int8_quantize(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y = X / s + z, or s (X - z), row-major, which with channels last is what the layers of bytes read."""
    X, Y = specs["X"], specs["Y"]
    plain = Descriptor.of(Y.shape, Y.dtype)
    if op.type == INT8_QUANTIZE.type:
        return LaidOut(reordered(Descriptor.of(X), plain, dst=meaning_of(Y)), {"Y": ROW_MAJOR})
    if not isinstance(X.quantization, PerTensor):
        raise Unsupported("X has several scales")
    return LaidOut(reordered(Descriptor.of(X), plain, src=X.quantization), {"Y": ROW_MAJOR})
