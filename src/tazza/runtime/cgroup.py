"""The control groups of this process (Linux, versions 1 and 2): the folders in which the kernel tells of them.

A group is also bound by the groups above it. Inside of a container the path that the kernel names may not be mounted;
its existing ancestors, at the least the root, then count.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")


def group_folders(controller: str | None, own: Path = OWN_CGROUPS, root: Path = CGROUPS) -> Iterator[Path]:
    """Yield the folders of the groups that bind this process, the innermost first; they need not exist.

    Args:
        controller: what the groups of version 1 bound (`cpu`, `memory`); None for those of version 2.
        own: the file that lists the groups of the process (lines `number:controllers:path`).
        root: where the groups are mounted.
    """
    try:
        lines = own.read_text(errors="replace").splitlines()
    except OSError:
        return  # no control groups on this system
    for line in lines:
        number, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if not number or not colon:
            continue
        if controllers == "" and controller is None:
            yield from _upwards(root, path)
        elif controller is not None and controller in controllers.split(","):
            for mount in (root / controllers, root / controller):
                yield from _upwards(mount, path)


def words(file: Path) -> list[str]:
    """Return the words of a file of the kernel; none if there is no such file."""
    try:
        return file.read_text(errors="replace").split()
    except OSError:
        return []


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    group = mount / path.lstrip("/")
    yield from (folder for folder in (group, *group.parents) if folder.is_relative_to(mount))
