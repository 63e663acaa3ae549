"""What is in use of the C library's heap, which Python's own counts do not see."""

from __future__ import annotations

import ctypes

import pytest

MAPPED, IN_USE = 4, 7
"""Fields of `mallinfo2`, all of type size_t: what has pages of its own, and the rest. Source: mallinfo(3).

Which memory is which changes: the size from which it has pages of its own grows with what is freed.
"""


def heap_bytes() -> int:
    """Return what is in use of it; skip the test where that cannot be asked for."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        pytest.skip("this C library does not say what of its heap is in use")
    fields = [(f"field{number}", ctypes.c_size_t) for number in range(10)]
    ask.restype = type("Fields", (ctypes.Structure,), {"_fields_": fields})
    found = ask()
    return sum(int(getattr(found, f"field{number}")) for number in (MAPPED, IN_USE))
