"""The OpenMP runtime that kernels share: the process's `libgomp.so.1`.

Kernels of oneDNN and compiled loops start their parallel regions in this one library; another copy of it under another
name (some wheels bring one) has settings of its own, which have no effect here. The number of threads is a setting of
the *calling* thread. Nothing is loaded before the first call.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache

from tazza.errors import UnavailableError
from tazza.runtime.fork import PROCESS, in_forked_child

LIBRARY = "libgomp.so.1"
SPINS = 5000
SPIN_S = 300e-6
"""How often a thread that waits for others looks again before it sleeps, and how long that takes, roughly.

The library's own choice is 300,000, which is longer than a time slice. When another process wants a processor too, the
thread that is waited for then often does not get one until the waiting has used up its slice: a product of 0.3 ms took
4 ms beside one busy process. Threads still look when the next kernel begins, since kernels follow each other sooner.
"""
WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
"""Variables by which users say how threads wait; the library reads them when it is loaded."""
REMEDY = "install GCC's OpenMP runtime: the system package libgomp1 (Debian, Ubuntu) or libgomp (Fedora)"


@cache
def _library() -> ctypes.CDLL | OSError:
    if not any(name in os.environ for name in WAITING):
        os.environ[WAITING[0]] = str(SPINS)
    try:
        found = ctypes.CDLL(LIBRARY)
    except OSError as error:
        return error
    found.omp_set_num_threads.argtypes = [ctypes.c_int]
    found.omp_set_num_threads.restype = None
    found.omp_get_max_threads.argtypes = []
    found.omp_get_max_threads.restype = ctypes.c_int
    return found


def openmp_unavailable() -> str | None:
    """Return why there is no OpenMP runtime, with what would help, or None when there is one."""
    found = _library()
    return f"{LIBRARY} cannot be loaded ({found}); {REMEDY}" if isinstance(found, OSError) else None


def _loaded() -> ctypes.CDLL:
    found = _library()
    if isinstance(found, OSError):
        raise UnavailableError(f"{LIBRARY} cannot be loaded: {found}", hint=REMEDY)
    return found


def set_openmp_threads(count: int) -> None:
    """Let parallel regions that this thread starts use `count` threads (1 or more).

    Raises:
        UnavailableError: there is no OpenMP runtime.
    """
    _loaded().omp_set_num_threads(count)


def openmp_threads() -> int:
    """Return how many threads a parallel region that this thread starts would use.

    Raises:
        UnavailableError: there is no OpenMP runtime.
    """
    return _loaded().omp_get_max_threads()


@cache
def openmp_address(name: str) -> int:
    """Return the address of a function of the runtime, such as `omp_set_num_threads`, for native code that calls it.

    Raises:
        UnavailableError: there is no OpenMP runtime, or it has no such function.
    """
    found = _loaded()
    try:
        function = found[name]
    except AttributeError:
        raise UnavailableError(f"{LIBRARY} has no function {name!r}") from None
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None, "a function that was found has an address"
    return address


def _stay_alone() -> None:
    """Let regions that ask for no number of threads have one in a forked child, where there are no others."""
    if PROCESS.lost and _library.cache_info().currsize and openmp_unavailable() is None:
        set_openmp_threads(1)


in_forked_child(_stay_alone)
