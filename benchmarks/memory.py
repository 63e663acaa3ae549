"""Memory of this process as the kernel counts it: what is resident now, and the most that ever was."""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"
"""What `clear_refs` takes to set the peak to what is resident now; see proc(5)."""


def status_bytes(field: str, text: str | None = None) -> int | None:
    r"""Return a field of /proc/self/status in bytes; None where it does not stand.

    >>> status_bytes("VmRSS", "VmHWM:\t 20 kB\nVmRSS:\t 8 kB\n")
    8192
    """
    if text is None:
        if not STATUS.exists():
            return None
        text = STATUS.read_text(encoding="ascii", errors="replace")
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) * 1024
    return None


def resident_bytes() -> int:
    """Return what is resident now; without /proc the peak, which is not less."""
    found = status_bytes("VmRSS")
    return peak_bytes() if found is None else found


def peak_bytes() -> int:
    """Return the most that was resident since the start, or since the last reset."""
    found = status_bytes("VmHWM")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 if found is None else found


def reset_peak() -> bool:
    """Set the peak to what is resident now; False where the kernel does not let us."""
    with contextlib.suppress(OSError):
        CLEAR.write_text(RESET_PEAK, encoding="ascii")
        return True
    return False
