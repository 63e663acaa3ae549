"""The flag `fpmath`: float32 nets that compute in a narrower type. All engines ask it, so none of them declares it."""

from __future__ import annotations

from tazza.runtime.flags import flag

FPMATH = flag(
    "fpmath",
    "",
    "let float32 kernels compute in this type where the processor has it",
    choices=("", "bf16", "f16"),
    kernels=True,
)
