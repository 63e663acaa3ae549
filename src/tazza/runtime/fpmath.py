"""The flag `fpmath`: float32 nets that compute in a narrower type. All engines ask it, so none of them declares it."""

from __future__ import annotations

from tazza.runtime.flags import flag
from tazza.runtime.native_code import processor

FPMATH = flag(
    "fpmath",
    "",
    "let float32 kernels compute in this type where the processor has it",
    choices=("", "bf16", "f16"),
    kernels=True,
)
_PRODUCTS = {"bf16": ("avx512_bf16", "amx_bf16"), "f16": ("avx512_fp16", "amx_fp16")}
"""Type -> features of a processor, each of which multiplies it."""


def why_narrow() -> str | None:
    """Return why an engine that computes in float32 shall leave its work to others, or None where it need not.

    Where the processor does not multiply the type that was asked for, nobody could do better than in float32.
    """
    if not any(processor().has(feature) for feature in _PRODUCTS.get(FPMATH.value, ())):
        return None
    return f"the flag fpmath asks for {FPMATH.value}, it computes in float32"
