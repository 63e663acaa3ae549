"""How much memory something takes while it runs, as Python counts it: arrays, tensors and bytes, freed ones too."""

from __future__ import annotations

import tracemalloc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def at_most(limit_bytes: float) -> Generator[None]:
    """Assert that the block never takes more than so many bytes at a time.

    >>> with at_most(2_000_000):
    ...     _ = bytes(1_000_000)
    """
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= limit_bytes, f"it took {peak} bytes, {limit_bytes:.0f} are the most"
