"""Narrow elements: float32 blobs that lie as bfloat16, where the flag `fpmath` asks for it.

Between two kernels that compute in bfloat16 nothing is converted, and half the bytes move; weights are brought into it
once. For all others the blob is float32 in a layout of this engine, which a reorder brings into one of theirs. Sums
are float32 within a kernel.

Only where the processor multiplies bfloat16: elsewhere oneDNN emulates that in several times the time, and the flag
leaves kernels free to compute in it, no more.
"""

from __future__ import annotations

from tazza.engines.onednn.library import constant, lib
from tazza.runtime.fpmath import FPMATH
from tazza.tensor import DataType


def narrowed(dtype: DataType) -> DataType:
    """Return the element type in which kernels shall keep blobs of `dtype`."""
    return DataType.BFLOAT16 if dtype is DataType.FLOAT and multiplies(FPMATH.value) else dtype


def multiplies(type: str) -> bool:
    """Whether the processor, as far as oneDNN may use it, has products of a type: a value of the flag `fpmath`."""
    return type == "bf16" and _may_use("avx512_core_bf16")


def has_tiles() -> bool:
    """Whether the processor, as far as oneDNN may use it, multiplies bfloat16 in tiles.

    There the flag lets products of float32 blobs take tiles too, gradients among them.
    """
    return _may_use("avx512_core_amx")


def _may_use(instructions: str) -> bool:
    wanted = constant(f"dnnl_cpu_isa_{instructions}")
    return lib.dnnl_get_effective_cpu_isa() & wanted == wanted
