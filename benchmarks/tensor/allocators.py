"""How many spans each allocator hands out and takes back in a second, with locking and statistics on.

python -m benchmarks.tensor.allocators [--seconds 0.3] [--json FILE]

Patterns: `same` allocates 1 KiB and drops it at once; `mixed` keeps 64 spans of up to 64 KiB alive and replaces one of
them each time; `threads` is `mixed` on two threads that share the allocator, all their spans counted; `touched`
allocates 4 MiB and writes one byte of each page, which is where memory that was used before pays.

Beside them: malloc and free of the C library through ctypes, NumPy's and PyTorch's empty arrays (PyTorch where this
Python has it). These count nothing, know no limit and name no holder.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tazza.tensor import ALLOCATORS, CPUPlace, allocator_of

Allocate = Callable[[int], object]
"""Returns something that gives the memory back when it dies."""

BATCH = 500
PAGE_BYTES = 4096
TOUCHED_BYTES = 4 << 20
SIZES = [int(1 << exponent) for exponent in np.random.default_rng(0).integers(0, 17, 63)]
THREADS = 2


class Malloc:
    """Memory of the C library, freed when it dies."""

    __slots__ = ("address",)
    _library = ctypes.CDLL(None)
    _malloc, _free = _library.malloc, _library.free
    _malloc.restype, _malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    _free.restype, _free.argtypes = None, [ctypes.c_void_p]

    def __init__(self, nbytes: int) -> None:
        """Take it."""
        self.address = self._malloc(nbytes)

    def __del__(self) -> None:
        """Give it back."""
        self._free(self.address)


def allocators() -> dict[str, Allocate]:
    """Return all allocators of ordinary memory by name, and what they are held against."""
    found: dict[str, Allocate] = {}
    for name in ALLOCATORS:
        if name != "pinned":
            found[name] = allocator_of(CPUPlace(), name).allocate
    found["malloc (ctypes)"] = Malloc
    found["numpy.empty"] = lambda nbytes: np.empty(nbytes, np.uint8)
    if find_spec("torch") is not None:
        torch: Any = import_module("torch")
        found["torch.empty"] = lambda nbytes: torch.empty(nbytes, dtype=torch.uint8)
    return found


def rate(batch: Callable[[], object], count: int, seconds: float) -> float:
    """Return `count` over the shortest time of a batch, tried for some seconds."""
    best, until = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < until:
        before = time.perf_counter()
        batch()
        best = min(best, time.perf_counter() - before)
    return count / best


def same(allocate: Allocate) -> None:
    """Allocate 1 KiB and drop it, again and again."""
    for _ in range(BATCH):
        allocate(1024)


def mixed(allocate: Allocate) -> None:
    """Replace spans of many sizes."""
    held: list[object] = [None] * 64
    for i in range(BATCH):
        held[i & 63] = allocate(SIZES[i % 63])


def threads(allocate: Allocate) -> None:
    """Do `mixed` on several threads."""
    working = [threading.Thread(target=mixed, args=(allocate,)) for _ in range(THREADS)]
    for thread in working:
        thread.start()
    for thread in working:
        thread.join()


def touched(allocate: Allocate) -> None:
    """Allocate some megabytes and write to each page."""
    for _ in range(10):
        span: Any = allocate(TOUCHED_BYTES)
        if isinstance(span, Malloc):
            memory: Any = np.ctypeslib.as_array((ctypes.c_uint8 * TOUCHED_BYTES).from_address(span.address))
        else:
            memory = getattr(span, "buffer", span)
        memory[::PAGE_BYTES] = 1


PATTERNS: dict[str, tuple[Callable[[Allocate], None], int]] = {
    "same": (same, BATCH),
    "mixed": (mixed, BATCH),
    "threads": (threads, THREADS * BATCH),
    "touched": (touched, 10),
}
"""What is done, and how many spans one batch of it takes."""


def measure(seconds: float) -> dict[str, dict[str, float]]:
    """Return the spans a second of each allocator in each pattern."""
    return {
        name: {pattern: rate(partial(run, allocate), count, seconds) for pattern, (run, count) in PATTERNS.items()}
        for name, allocate in allocators().items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="spans a second of each allocator")
    parser.add_argument("--seconds", type=float, default=0.3, help="how long each pattern of each allocator is tried")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    given = parser.parse_args()
    figures = measure(given.seconds)
    print(f"{'spans a second':18}" + "".join(f"{pattern:>12}" for pattern in PATTERNS))
    for name, rates in figures.items():
        print(f"{name:18}" + "".join(f"{value:12,.0f}" for value in rates.values()))
    if given.json is not None:
        given.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
