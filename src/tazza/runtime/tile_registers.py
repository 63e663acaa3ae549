"""Whether this process may use the tile registers of x86-64 processors (AMX): Linux wants to be asked for them.

What it grants holds for all threads, and for children that are forked.

Source: Linux, Documentation/arch/x86/xstate.rst.
"""

from __future__ import annotations

import ctypes
import functools
import platform
import sys

from tazza.runtime.native_code import processor

ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18
"""Number of the system call, what is asked of it, and for which part of the state of a thread."""
NEEDED = ("amx_tile", "amx_bf16")


@functools.cache
def tile_registers() -> bool:
    """Whether there are tile registers that multiply bfloat16, and the system lets this process use them."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return False
    if processor().vector_bytes != 64 or not all(map(processor().has, NEEDED)):
        return False
    system = ctypes.CDLL(None, use_errno=True).syscall
    system.argtypes = [ctypes.c_long] * 3
    system.restype = ctypes.c_long
    return bool(system(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0)
