"""Tasks that need nobody beside them, merged: what is not worth a second worker runs as one bound run.

A task is *apart* when another one of some length is neither before nor behind it, so that two workers could run both at
once. Tasks that are not apart and follow each other in the order of the net become one: then nothing is synchronised,
or called, between them. The order of the net is kept, so that the new graph has no cycle either.

What is long enough comes from the times of runs before, so the tasks that a net starts with are kept: they are run, and
measured, again when the merged ones no longer fit (another batch size, say).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

from tazza.nets.executor.task import ChainTask, Fuse, set_priorities


def merged(tasks: Sequence[ChainTask], worth_s: float, fuse: Fuse) -> list[ChainTask]:
    """Return new tasks, in order, that do what `tasks` do; what takes at least `worth_s` may be worth a worker."""
    groups: list[list[ChainTask]] = []
    apart = _apart(tasks, worth_s)
    for task in tasks:
        joins = groups and not (apart >> task.number & 1 or apart >> groups[-1][-1].number & 1)
        if joins and _mergeable(task) and _mergeable(groups[-1][-1]) and task.place == groups[-1][-1].place:
            groups[-1].append(task)
        else:
            groups.append([task])
    made = [_joined(number, group, fuse) for number, group in enumerate(groups)]
    _connect(made, groups)
    set_priorities(made)
    return made


def _mergeable(task: ChainTask) -> bool:
    return not task.asynchronous and not task.blocking


def _apart(tasks: Sequence[ChainTask], worth_s: float) -> int:
    """Return a bit for each task that is apart."""
    long = sum(1 << task.number for task in tasks if task.asynchronous or task.serial_s >= worth_s)
    before = [0] * len(tasks)
    behind = [0] * len(tasks)
    for task in tasks:
        for child in task.children:
            before[child.number] |= before[task.number] | 1 << task.number
    for task in reversed(tasks):
        for child in task.children:
            behind[task.number] |= behind[child.number] | 1 << child.number
    found = 0
    for task in tasks:
        own = 1 << task.number
        if long & own and long & ~(before[task.number] | behind[task.number] | own):
            found |= own
    return found


def _joined(number: int, group: Sequence[ChainTask], fuse: Fuse) -> ChainTask:
    if len(group) == 1:
        made = copy.copy(group[0])
        made.number = number
        return made
    pairs = sorted(
        pair for task in group for pair in zip(task.positions, task.operators, strict=True)
    )  # positions differ, so no operators are compared
    made = ChainTask(number, tuple(position for position, _ in pairs), tuple(operator for _, operator in pairs), fuse)
    made.seconds = sum(task.seconds for task in group)
    made.serial_s = sum(task.serial_s for task in group)
    return made


def _connect(made: Sequence[ChainTask], groups: Sequence[Sequence[ChainTask]]) -> None:
    home = {id(task): new for new, group in zip(made, groups, strict=True) for task in group}
    for new, group in zip(made, groups, strict=True):
        children = {id(home[id(child)]): home[id(child)] for task in group for child in task.children}
        children.pop(id(new), None)
        new.children = tuple(children.values())
        new.parents = 0
        new.followed = tuple(home[id(task)] for task in group[0].followed)
    for new in made:
        for child in new.children:
            child.parents += 1
