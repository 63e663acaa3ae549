"""How many threads the BLAS behind NumPy uses: the process's count, and one for products that are too small to share.

A BLAS that splits a product of a few megaflops over threads gains nothing, and where the processors are busy its
threads wait for each other: 64 products of 50 x 500 x 64 took 2.7 ms on one thread and 2.6 ms on two of a quiet
machine, and up to 1.5 s on two of a busy one. So engines say how large their products are.

State: `_present` is what was set last; it is the process's, so two threads that set it at once may each get the other's
count. That costs time, never a result.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, cast

from tazza.data_class import dataclass
from tazza.runtime.threads import thread_count

SHARED_FLOPS = 20_000_000
"""From this many operations on, a product is worth more than one thread: some 0.3 ms on one."""

_present: int | None = None


@cache
def _libraries() -> tuple[Any, ...]:
    from threadpoolctl import ThreadpoolController  # pyright: ignore[reportMissingTypeStubs] -- it ships none

    found = cast("Any", ThreadpoolController()).select(user_api="blas")
    return tuple(found.lib_controllers)


def set_blas_threads(count: int) -> int:
    """Let the BLAS use `count` threads; return how many it was told to use before."""
    global _present
    former = thread_count() if _present is None else _present
    if count != _present:
        for library in _libraries():
            library.set_num_threads(count)
        _present = count
    return former


def threads_for(flops: int) -> int:
    """Return how many threads a product of `flops` operations is worth.

    >>> threads_for(1000)
    1
    """
    return 1 if flops < SHARED_FLOPS else thread_count()


@dataclass(frozen=True, slots=True)
class WithBlasThreads:
    """A call that runs with `threads` threads of the BLAS."""

    threads: int
    call: Callable[[], Any]

    def __call__(self) -> None:
        """Set the number, call, and put the former number back."""
        former = set_blas_threads(self.threads)
        try:
            self.call()
        finally:
            set_blas_threads(former)
