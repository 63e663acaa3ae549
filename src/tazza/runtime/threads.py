"""One count of threads for the process.

It is the flag `num_threads` if that is above 0, else the first number of `OMP_NUM_THREADS`, else the CPUs that the
process may use: those of its affinity mask, no more than the quota of its control group (Linux, versions 1 and 2)
allows. In a child that lost the threads of its parent in a fork it is 1 (see fork.py). A thread that shares the
processor with others of the process, as workers of a net do, may have a lower one (`at_most_threads`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from functools import cache

from tazza.runtime.cgroup import group_folders, words
from tazza.runtime.flags import flag
from tazza.runtime.fork import PROCESS
from tazza.runtime.holding import InForce
from tazza.runtime.log import logger

NUM_THREADS = flag(
    "num_threads",
    0,
    "threads of the process; 0: OMP_NUM_THREADS, else the CPUs it may use",
    alias="j",
    minimum=0,
    kernels=True,
)
QUOTA_FILES: Mapping[str | None, Sequence[str]] = {None: ("cpu.max",), "cpu": ("cpu.cfs_quota_us", "cpu.cfs_period_us")}
"""The files in which control groups tell quota and period, see `group_folders`."""


def thread_count() -> int:
    """Return the number of threads (1 or more) that all kernels together should use.

    Raises:
        InitError: the environment variable of the flag `num_threads` cannot be read.
    """
    if PROCESS.lost:
        return 1
    chosen = NUM_THREADS.value
    count = chosen if chosen > 0 else _environment_count()
    return min(count, most) if (most := threads_allowed()) else count


class _Current(threading.local):
    bound: at_most_threads | None = None


_current = _Current()


def threads_allowed() -> int:
    """Return the bound that `at_most_threads` sets in this thread, 0 outside of it."""
    bound = _current.bound
    if bound is None:
        return 0
    _current.bound = bound = bound.living()
    return 0 if bound is None else bound.count


class at_most_threads(InForce):
    """Let `thread_count` be at most `count` (1 or more; 0 sets no bound) in this thread until the block ends.

    >>> with at_most_threads(1):
    ...     thread_count()
    1
    """

    def __init__(self, count: int) -> None:
        """Nothing changes before the block is entered."""
        self.count = count

    def __enter__(self) -> None:
        """Set the bound."""
        threads_allowed()
        self.begin(_current.bound)
        _current.bound = self


@cache
def _environment_count() -> int:
    # Once for the process: OpenMP reads its variable once as well, and one count is what its libraries are told.
    chosen = omp_count(os.environ.get("OMP_NUM_THREADS"))
    return allowed_cpus() if chosen is None else chosen


def omp_count(text: str | None) -> int | None:
    """Return the first number of a value of `OMP_NUM_THREADS`; None, with one warning, if there is none above 0.

    >>> omp_count("3,2"), omp_count(None)
    (3, None)
    """
    if text is None:
        return None
    first = text.split(",")[0].strip()
    if first.isdecimal() and int(first) > 0:
        return int(first)
    logger.warning("OMP_NUM_THREADS=%r is not a number above 0 and is not used", text)
    return None


def allowed_cpus() -> int:
    """Return the number of CPUs that affinity and control groups let this process use, at least 1.

    A quota of 2.5 CPUs counts as 2: threads of OpenMP wait for each other, so one that is throttled halts all.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota = cgroup_quota()
    known = [count for count in (cpus, None if quota is None else int(quota)) if count is not None]
    return max(1, min(known, default=1))


def cgroup_quota() -> float | None:
    """Return the CPUs that the control groups of this process grant, or None without a limit."""
    told = ([word for file in files for word in words(folder / file)] for folder, files in group_folders(QUOTA_FILES))
    quotas = (_ratio(*one) for one in told if len(one) == 2)
    return min((quota for quota in quotas if quota is not None), default=None)


def _ratio(quota_us: str, period_us: str) -> float | None:
    # "max" and -1 mean no limit
    if not (quota_us.isdecimal() and period_us.isdecimal()) or int(period_us) == 0:
        return None
    return int(quota_us) / int(period_us)
