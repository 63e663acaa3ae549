"""The flag `fpmath`: float32 nets that compute in a narrower type. All engines ask it, so none of them declares it."""

from __future__ import annotations

from collections.abc import Callable

from tazza.registry import Registry
from tazza.runtime.flags import flag

FPMATH = flag(
    "fpmath",
    "",
    "let float32 kernels compute in this type where the processor has it",
    choices=("", "bf16", "f16"),
    kernels=True,
)
NARROW: Registry[str, Callable[[str], bool]] = Registry("engine that computes float32 nets in a narrower type")
"""Engine -> function that tells whether it would, here, for a value of the flag; filled by the engines."""


def why_narrow() -> str | None:
    """Return why an engine that computes in float32 shall leave its work to others, or None where it need not.

    Where nobody computes in the type that was asked for, nobody does better than in float32.
    """
    wanted = FPMATH.value
    if not wanted or not any(NARROW[name](wanted) for name in NARROW.registered()):
        return None
    return f"the flag fpmath asks for {wanted}, it computes in float32"
