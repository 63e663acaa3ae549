"""Flags of the dynamic linker while a library is loaded."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Generator


@contextlib.contextmanager
def DlopenGuard(extra_flags: int = os.RTLD_GLOBAL) -> Generator[None]:
    """Let libraries that are loaded inside be opened with these flags too."""
    kept = sys.getdlopenflags()
    sys.setdlopenflags(kept | extra_flags)
    try:
        yield
    finally:
        sys.setdlopenflags(kept)
