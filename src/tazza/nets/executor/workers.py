"""Who works in a run: the workers of a net, and for each post what is ready for them there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from tazza.data_class import dataclass
from tazza.nets.executor.task import ChainTask, Post
from tazza.runtime.budget import ThreadBudget
from tazza.runtime.workers import WorkerPool


@dataclass(frozen=True, slots=True)
class Workers:
    """Who works for a net: a pool of threads for each post, of which `size` at most work at once, one at copies.

    `budget` are the threads that operators share, None where each runs on one; `most` bounds those of one operator;
    `worth_s` is how many seconds a task has to take to be worth waking another worker.
    """

    pools: Mapping[Post, WorkerPool]
    size: int
    budget: ThreadBudget | None
    most: int = 0
    worth_s: float = 0.0


@dataclass(slots=True, eq=False)
class ReadyQueue:
    """What is `ready` at one post in one run, and how many threads, of `most`, are at work there, or woken for it.

    `called` of them were asked for and have not come by now: the threads of the pool may wait for runs of other nets.
    """

    pool: WorkerPool
    most: int
    ready: list[tuple[float, int, ChainTask]] = field(default_factory=list[tuple[float, int, ChainTask]])
    workers: int = 0
    called: int = 0
