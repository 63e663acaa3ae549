"""What the processor is: its name, features that kernels choose by, threads, memory and caches."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from tazza.device.initializer import FINDERS, DeviceProperties
from tazza.runtime.native_code import CPU_INFO, cpu_info
from tazza.runtime.threads import allowed_cpus
from tazza.tensor import CPUPlace
from tazza.tensor.place import CPU_KIND

FEATURE_PREFIXES = ("avx", "amx", "fma", "f16c", "sse4", "neon", "asimd", "sve", "bf16", "vnni")
"""CPU features that kernels choose by."""

_CACHES = {"L1": "SC_LEVEL1_DCACHE_SIZE", "L2": "SC_LEVEL2_CACHE_SIZE", "L3": "SC_LEVEL3_CACHE_SIZE"}


@FINDERS.registering(CPU_KIND, help="the host's processor")
def find_cpu() -> list[DeviceProperties]:
    """Return the one processor; what the system does not tell is left out or None."""
    name, features = _described(CPU_INFO)
    pages, page_bytes = _system_value("SC_PHYS_PAGES"), _system_value("SC_PAGE_SIZE")
    return [
        DeviceProperties(
            place=CPUPlace(),
            name=name,
            memory_bytes=None if pages is None or page_bytes is None else pages * page_bytes,
            parallel_units=allowed_cpus(),
            features=features,
            cache_bytes={level: size for level, key in _CACHES.items() if (size := _system_value(key)) is not None},
        )
    ]


def _described(info: Path) -> tuple[str, tuple[str, ...]]:
    """Return the name of the processor, and which of its features matter to kernels."""
    found = cpu_info(info)
    flags = found.get("flags", found.get("Features", "")).split()
    features = sorted(flag for flag in flags if flag.startswith(FEATURE_PREFIXES))
    return found.get("model name", platform.machine()), tuple(features)


def _system_value(key: str) -> int | None:
    """Return a number that the system keeps; None where it does not know it."""
    try:
        value = os.sysconf(key)
    except (AttributeError, ValueError, OSError):  # no sysconf, no such key, not known
        return None
    return value if value > 0 else None
