"""Operators in a few groups, each for a process of its own: to start one takes a second."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tazza.operator import SCHEMAS

GROUPS = 4


def in_groups(types: Iterable[str]) -> list[list[str]]:
    """Return operators in groups of nearly one size; those of a folder of families stay together.

    >>> [len(group) > 0 for group in in_groups(["Relu", "Conv", "Add", "Gather", "Adam"])]
    [True, True, True, True]
    """
    by_folder: defaultdict[str, list[str]] = defaultdict(list)
    for type in types:
        by_folder[SCHEMAS[type].module.split(".")[-2]].append(type)
    groups: list[list[str]] = [[] for _ in range(GROUPS)]
    for _, found in sorted(by_folder.items(), key=lambda item: (-len(item[1]), item[0])):
        min(groups, key=len).extend(found)
    return groups
