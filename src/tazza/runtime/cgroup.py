"""The control groups of this process (Linux, versions 1 and 2): the folders in which the kernel tells of them.

A group is also bound by the groups above it. Inside of a container the path that the kernel names may not be mounted;
its existing ancestors, at the least the root, then count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

N = TypeVar("N")
CGROUPS = Path("/sys/fs/cgroup")
"""Where the groups are mounted."""
OWN_CGROUPS = Path("/proc/self/cgroup")
"""Lists the groups of the process, in lines `number:controllers:path`."""


def group_folders(names: Mapping[str | None, N]) -> Iterator[tuple[Path, N]]:
    """Yield the folders of the groups that bind this process, the innermost first; they need not exist.

    Args:
        names: controller that groups of version 1 bound (`cpu`, `memory`), or None for those of version 2 -> how files
            are called there, which comes with each folder.
    """
    try:
        lines = OWN_CGROUPS.read_text(errors="replace").splitlines()
    except OSError:
        return  # no control groups on this system
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if not number or not colon:
            continue
        if controllers == "":
            yield from ((folder, names[None]) for folder in _upwards(CGROUPS, path))
        for controller in filter(names.__contains__, controllers.split(",")):
            for mount in (CGROUPS / controllers, CGROUPS / controller):
                yield from ((folder, names[controller]) for folder in _upwards(mount, path))


def words(file: Path) -> list[str]:
    """Return the words of a file of the kernel; none if there is no such file."""
    try:
        return file.read_text(errors="replace").split()
    except OSError:
        return []


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    group = mount / path.lstrip("/")
    yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(mount))
