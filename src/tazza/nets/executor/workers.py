"""Who works in a run: the workers of a net, and for each place what is ready for them there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tazza.nets.executor.task import ChainTask
from tazza.runtime.budget import ThreadBudget
from tazza.runtime.workers import WorkerPool
from tazza.tensor import Place


@dataclass(frozen=True, slots=True)
class Workers:
    """Who works for a net: a pool of threads for each place, of which `size` at most work at once.

    `budget` are the threads that operators share, None where each runs on one; `most` bounds those of one operator;
    `worth_s` is how many seconds a task has to take to be worth waking another worker.
    """

    pools: Mapping[Place, WorkerPool]
    size: int
    budget: ThreadBudget | None
    most: int = 0
    worth_s: float = 0.0


class ReadyQueue:
    """What is `ready` at one place in one run, and how many threads are at work there, or woken for it.

    `called` of them were asked for and have not come by now: the threads of the pool may wait for runs of other nets.
    """

    __slots__ = ("called", "pool", "ready", "workers")

    def __init__(self, pool: WorkerPool) -> None:
        self.pool = pool
        self.ready: list[tuple[float, int, ChainTask]] = []
        self.workers = 0
        self.called = 0
