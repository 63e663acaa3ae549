"""Parallel regions of our own under the names of libgomp's, for compiled kernels and for libraries that are loaded.

    openmp_address("GOMP_parallel")       # ours, where it can be had (openmp.py)
    use_own_functions(library_handle)     # the regions of that library are ours from here on

A region of n parts is begun by one thread, and has n - 1 workers. In libgomp each thread has its part, and all wait for
the slowest. Where a processor is shared with other programs, or is one that a host gives away, that one may not run at
all for a while (docs/threads.md has figures). So here

- a part belongs to whoever takes it first. The thread that began the region takes what nobody has taken, one after
  another: where parts do not wait for each other, it never waits for a worker that has not come.
- whoever waits looks a few times, then offers its processor to others, and looks again. A worker sleeps after some
  milliseconds; the one that began the region never does. (libgomp's threads look on without offering, or sleep, as
  `GOMP_SPINCOUNT` says: the one is slow beside busy programs, the other where being woken takes long.)
- workers compute with the rounding and denormal mode of the thread that began the region.

Parts may wait for each other, by `GOMP_barrier` or by looking at memory: a thread that waits holds one unfinished part,
and there are as many threads as parts, so while a part is not taken, a thread is free to take it.

State: the settings, written once; for each thread that begins regions a team (layout.py), which that thread alone
publishes regions in, and which ends with it. In a forked child there are no workers (runtime/fork.py).
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Mapping
from pathlib import Path

from tazza.runtime import native_code
from tazza.runtime.flags import flag
from tazza.runtime.native_code import native_function, source_digest
from tazza.runtime.object_code import unavailable as cannot_link
from tazza.runtime.team.code import FUNCTIONS, team_text

OWN_TEAMS = flag("own_teams", True, "run parallel regions on tazza's own threads instead of libgomp's")
LOOKS = 100_000
"""How often an idle worker looks for a region before it sleeps: some milliseconds, with its processor on offer.

Longer than it takes to wake a thread on a busy host, 1 or 2 ms: else those that wait for one that is being woken fall
asleep meanwhile, and every region begins with waking somebody.
"""
_EVER = (1 << 63) - 1
OF_LIBGOMP = (
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "GOMP_CPU_AFFINITY",
    "OMP_STACKSIZE",
    "GOMP_STACKSIZE",
    "OMP_THREAD_LIMIT",
)
"""Variables about threads that libgomp reads, and our teams do not follow."""
_COUNT = re.compile(r"(\d{1,15})\s*([kmgt]?)", re.IGNORECASE)
_SETTINGS = (ctypes.c_int64 * 2)()
"""The key of slots, and looks; workers read it until the process is gone, so it is never freed."""
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_SETTINGS))


def team_unavailable() -> str | None:
    """Return why regions are libgomp's, or None."""
    if not OWN_TEAMS.value:
        return "the flag own_teams is off"
    wanted = [name for name in OF_LIBGOMP if os.environ.get(name, "").strip().lower() not in ("", "false")]
    if wanted:
        return f"only libgomp does what the environment asks for: {', '.join(wanted)}"
    reason = cannot_link()
    return native_code.unavailable() if reason is None else reason


def make_team_functions(max_threads: int, looks: int) -> Mapping[str, int]:
    """Return the addresses of our functions by name. The caller sees to it that this is done once in a process.

    Args:
        max_threads: address of libgomp's `omp_get_max_threads`, a number of each thread that stays there.
        looks: how often an idle worker looks for a region before it sleeps (`looks_of`).

    Raises:
        UnavailableError: nothing can be compiled.
        OSError: the process has no key of pthread left.
    """
    directory = native_function(
        "parallel regions",
        team_text,
        symbols={"tazza_team_settings": ctypes.addressof(_SETTINGS), "omp_get_max_threads": max_threads},
        sources=source_digest(*Path(__file__).parent.glob("*.py")),
    )
    listed = (ctypes.c_int64 * len(FUNCTIONS))()
    ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(directory)(ctypes.addressof(listed))
    functions: dict[str, int] = dict(zip(FUNCTIONS, listed, strict=True))
    key = ctypes.c_uint32()
    failed = ctypes.CDLL(None).pthread_key_create(ctypes.byref(key), ctypes.c_void_p(functions.pop("end_of_thread")))
    if failed:
        raise OSError(failed, os.strerror(failed))
    _SETTINGS[:] = key.value, looks
    return functions


def looks_of(count: str, policy: str) -> int:
    """Return how often idle workers look, as the variables GOMP_SPINCOUNT and OMP_WAIT_POLICY say; "" is not set.

    >>> looks_of("7", "active"), looks_of("", "Passive"), looks_of("", "")
    (7, 0, 100000)
    """
    number = _COUNT.fullmatch(count.strip())
    if number is not None:
        return min(int(number[1]) * 1000 ** " kmgt".index(number[2].lower() or " "), _EVER)
    words = {"passive": 0, "active": _EVER, "infinite": _EVER, "infinity": _EVER}
    return words.get(count.strip().lower(), words.get(policy.strip().lower(), LOOKS))
