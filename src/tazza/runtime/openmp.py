"""The OpenMP runtime that kernels share: the process's `libgomp.so.1`, and in its place, where it can be, our teams.

oneDNN and compiled loops know the functions of this one library; another copy of it under another name (some wheels
bring one) has settings of its own, which have no effect here. The number of threads is a setting of the *calling*
thread, and the library's. Parallel regions are our own (team/) on 64-bit Linux for x86-64, unless the flag
`own_teams` is off: compiled code calls ours, and oneDNN's table of imports is changed to them. Nothing is loaded before
the first call.

State, written once, under a lock: the library, what the user had said of waiting, our functions, the libraries that
keep libgomp's.
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Mapping
from functools import cache

from tazza.errors import UnavailableError
from tazza.runtime.cache import remembered
from tazza.runtime.fork import PROCESS, freed_in_child, in_forked_child
from tazza.runtime.imports import imports_of, redirect
from tazza.runtime.team import looks_of, make_team_functions, team_unavailable

logger = logging.getLogger(__name__)
LIBRARY = "libgomp.so.1"
SPINS = 5000
SPIN_S = 300e-6
"""How often a thread that waits for others looks again before it sleeps, and how long that takes, roughly.

For regions that are the library's. Its own choice is 300,000, which is longer than a time slice. When another process
wants a processor too, the thread that is waited for then often does not get one until the waiting has used up its
slice: a product of 0.3 ms took 4 ms beside one busy process. Threads still look when the next kernel begins, since
kernels follow each other sooner.
"""
WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
"""Variables by which users say how threads wait; the library reads them when it is loaded."""
_SETTINGS = ("omp_get_max_threads", "omp_set_num_threads")  # numbers of each thread, which stay the library's
REMEDY = "install GCC's OpenMP runtime: the system package libgomp1 (Debian, Ubuntu) or libgomp (Fedora)"


_given: dict[str, str] = {}
"""What the user had said in `WAITING` when the library was loaded."""
_own: list[Mapping[str, int]] = []
_left: list[int] = []
_lock = freed_in_child(threading.RLock())


@cache
def _library() -> ctypes.CDLL | OSError:
    _given.update({name: os.environ[name] for name in WAITING if name in os.environ})
    if not _given:
        os.environ[WAITING[0]] = str(SPINS)
    try:
        found = ctypes.CDLL(LIBRARY)
    except OSError as error:
        return error
    finally:
        if not _given:
            os.environ.pop(WAITING[0], None)  # it was read; other programs choose for themselves
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


@remembered("addresses of OpenMP", entries=256)
def openmp_address(name: str) -> int:
    """Return the address of a function of the runtime, such as `omp_set_num_threads`, for native code that calls it.

    Those that begin regions, and are called in them, are our own (team/) where these can be had.

    Raises:
        UnavailableError: there is no OpenMP runtime, or it has no such function.
    """
    ours = own_functions().get(name)
    return _library_address(name) if ours is None else ours


def own_functions() -> Mapping[str, int]:
    """Return the addresses of our functions by the names of those of the library whose place they take; maybe none.

    Raises:
        UnavailableError: there is no OpenMP runtime.
    """
    if not _own:
        with _lock:
            if not _own:
                _own.append(_make_own())
    return _own[0]


def _make_own() -> Mapping[str, int]:
    _loaded()
    reason = team_unavailable()
    if reason is not None:
        logger.info("parallel regions are libgomp's: %s", reason)
        return {}
    looks = looks_of(*(_given.get(name, "") for name in WAITING))
    return make_team_functions(_library_address("omp_get_max_threads"), looks)


def use_own_functions(handle: int) -> None:
    """Let a library that was loaded, and calls the OpenMP runtime, call our functions; `handle` is that of `dlopen`.

    All of them or none: a region that one runtime begins is not one to the other. The library keeps libgomp's, and a
    warning says why, where it imports a function of the runtime that we have not got, has got its functions from
    elsewhere, or the system does not let its table be written.
    """
    ours = own_functions()
    if not ours:
        return
    imports = list(imports_of(handle, "GOMP_", "omp_"))
    calls = {entry.name for entry in imports}
    foreign = calls - ours.keys() - set(_SETTINGS)
    try:
        if foreign:
            reason = f"it calls {', '.join(sorted(foreign))}"
        elif redirect(imports, {name: (_library_address(name), ours[name]) for name in calls & ours.keys()}):
            return
        else:
            reason = f"its functions do not come from {LIBRARY}"
    except OSError as error:
        reason = str(error)
    _left.append(handle)
    logger.warning("a library keeps the parallel regions of libgomp: %s", reason)


def describe_regions() -> str:
    """Return whose parallel regions kernels have, and why, for people."""
    missing = openmp_unavailable()
    if missing is not None:
        return f"none: {missing}"
    reason = team_unavailable()
    return "tazza's own" if reason is None else f"libgomp's: {reason}"


def has_library_regions() -> bool:
    """Return whether regions may be the library's: those of compiled kernels, or of a library that keeps them."""
    return not own_functions() or bool(_left)


def library_parallel() -> int:
    """Return the address of the library's own `GOMP_parallel`."""
    return _library_address("GOMP_parallel")


@remembered("addresses of libgomp", entries=256)
def _library_address(name: str) -> int:
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
