"""How much memory this process can still get: of the machine, and of its control groups (Linux, versions 1 and 2).

A group is bound by the groups above it as well. What it has used counts without the cache of files, which the kernel
gives up when memory is wanted; the machine says so itself (`MemAvailable`). What lies in memory can go to free swap.
"""

from __future__ import annotations

import itertools
import mmap
import os
from collections.abc import Mapping
from pathlib import Path

from tazza.errors import OutOfMemoryError
from tazza.runtime.cgroup import group_folders, words

MEMINFO = Path("/proc/meminfo")
UNLIMITED = 2**60
"""From here on a limit is none: version 1 writes the largest multiple of a page below 2**63 bytes."""
NAMES: Mapping[str | None, tuple[str, str, str, str]] = {
    None: ("memory.max", "memory.current", "file", "shmem"),
    "memory": ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache", "total_shmem"),
}
"""The files of limit and usage of control groups, the fields of cache and shared memory; see `group_folders`."""


def available_bytes() -> int | None:
    """Return how many bytes this process can still take, or None where the system does not tell."""
    groups = (_left(folder, *names) for folder, names in group_folders(NAMES))
    return min([*_machine_bytes(), *(left for left in groups if left is not None)], default=None)


def require_room(room_bytes: int, purpose: str) -> None:
    """Check that so much memory can be mapped at this moment, before a library is called that ends the process if not.

    Code generators do not bear a failed allocation: oneDNN writes code to where none was given (a signal), or throws
    through C; LLVM aborts. A mapping that nothing is written to costs some microseconds. Another thread may take the
    room meanwhile, so ask for a good deal more than is wanted.

    Raises:
        OutOfMemoryError: there is less.
    """
    try:
        mmap.mmap(-1, room_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        raise OutOfMemoryError(
            f"{purpose} wants {room_bytes} bytes of room, and the system gives less",
            hint="raise the limit on this process's memory (ulimit -v), or run fewer beside it",
        ) from None


def _machine_bytes() -> list[int]:
    fields = words(MEMINFO)
    told = dict(itertools.pairwise(fields))
    free = _number([told.get("MemAvailable:", "")])
    if free is not None:
        swap = _number([told.get("SwapFree:", "")])
        return [1024 * (free + (0 if swap is None else swap))]
    try:
        return [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    except (AttributeError, OSError, ValueError):
        return []  # not this system


def _left(folder: Path, limit: str, usage: str, cache: str, shared: str) -> int | None:
    most = _number(words(folder / limit))
    if most is None or most >= UNLIMITED:
        return None
    used = _number(words(folder / usage))
    told = words(folder / "memory.stat")
    parts = dict(zip(told[::2], told[1::2], strict=False))
    given_up = _number([parts.get(cache, "0")]), _number([parts.get(shared, "0")])
    free = max(0, (given_up[0] or 0) - (given_up[1] or 0))  # memory that is shared is in the cache, and stays
    return max(0, most - max(0, (used or 0) - free))


def _number(found: list[str]) -> int | None:
    return int(found[0]) if found and found[0].isdecimal() else None
