"""Memory that was freed, and that the C library keeps."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache


@cache
def _trim() -> Callable[[int], int] | None:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None  # another C library, which has its own way


def give_back() -> bool:
    """Give what lies unused in the heap back to the system; False where that cannot be asked for, or there is nothing.

    Loading a model frees arrays of tens of MiB, which glibc keeps for later: it raises the size from which it maps
    memory to that of the largest array freed so far, and twice that may lie unused at the end of the heap. Takes less
    than a millisecond. Source: mallopt(3), M_MMAP_THRESHOLD and M_TRIM_THRESHOLD.
    """
    trim = _trim()
    return trim is not None and bool(trim(0))
