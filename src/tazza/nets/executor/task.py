"""Tasks: the chains of a net's dependency graph, each run by one worker from its first operator to its last.

Constant state: everything but `seconds` and `priority`, which only decide who goes first, never what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import NamedTuple

from tazza.data_class import dataclass
from tazza.device import STREAMS, Event, Stream, stream_pool
from tazza.graph.dependency import Dependencies, Sharing, accesses_of, chains, dependencies
from tazza.nets.bound_run import BoundRun
from tazza.operator import Operator
from tazza.proto import OperatorDef
from tazza.tensor import CPUPlace, Place

Fuse = Callable[[int, OperatorDef], Operator]

SETTLED = 2
"""Runs after which the time of a task is estimated from all runs rather than the last one."""
INTERPRETED_S = 20e-6
"""Of each kernel in Python, how long it keeps the interpreter's lock, so that no other worker gets on."""
UNKNOWN_S = 1.0
"""What a task that never ran is thought to take: long enough to be worth a worker of its own."""
FASTER, SLOWER = 1.0, 0.1
"""Weight of a run that took less, or more, than the estimate: one that was interrupted took longer than it needs."""


class Post(NamedTuple):
    """Where workers of a run stand: at a place, and there at the copies or at all else."""

    place: Place
    copies: bool

    def __str__(self) -> str:
        return f"{self.place}-copies" if self.copies else str(self.place)

    def most(self, size: int) -> int:
        """Return how many of `size` workers work there at once: one at copies, which share the way to the host."""
        return 1 if self.copies else size


HOST = Post(CPUPlace(), copies=False)


def post_of(operator: Operator) -> Post:
    """Return who runs an operator: the copies of a device have a thread of their own, since they may block it."""
    return Post(operator.place, operator.schema.copying and not operator.place.is_host)


@dataclass(slots=True, eq=False)
class ChainTask:
    """Operators that run one after the other. `parents` is how many tasks it waits for.

    `asynchronous`: its operators only queue work on `stream`; then `event` is the end of that work in the present run,
    and `followed` are the parents whose streams it can wait for. `seconds` is how long it took lately, `serial_s` the
    part of that in which other workers could run (always long where an operator may wait: `blocking`), and `priority`
    the seconds of the longest way from its start to the end of the net: the critical path. `post` is who runs it.
    """

    number: int
    positions: tuple[int, ...]
    operators: tuple[Operator, ...]
    fuse: Fuse
    bound: BoundRun = field(init=False)
    place: Place = field(init=False)
    post: Post = field(init=False)
    asynchronous: bool = field(init=False)
    blocking: bool = field(init=False)
    parents: int = 0
    children: tuple[ChainTask, ...] = ()
    runs: int = 0
    seconds: float = UNKNOWN_S
    serial_s: float = UNKNOWN_S
    priority: float = 0.0
    stream: Stream | None = None
    event: Event = field(default_factory=Event)
    followed: tuple[ChainTask, ...] = ()

    def __post_init__(self) -> None:
        """Bind nothing yet."""
        self.bound = BoundRun(self.operators, lambda place, definition: self.fuse(self.positions[place], definition))
        self.place = self.operators[0].place
        self.post = post_of(self.operators[0])
        self.asynchronous = not self.place.is_host and self.place.kind in STREAMS
        self.blocking = any(operator.is_host for operator in self.operators)

    def __repr__(self) -> str:
        return f"ChainTask({self.number}: {', '.join(operator.definition.type for operator in self.operators)})"

    def note(self, seconds: float, serial_s: float) -> None:
        """Take into account that a run took `seconds`, in which others could run beside it for `serial_s`."""
        serial_s = max(0.0, serial_s - INTERPRETED_S * self.bound.interpreted)
        if self.runs < SETTLED:  # the first ones prepare kernels
            self.runs += 1
            self.seconds = seconds
            self.serial_s = UNKNOWN_S if self.blocking else serial_s
            return
        self.seconds += (FASTER if seconds < self.seconds else SLOWER) * (seconds - self.seconds)
        if not self.blocking:
            self.serial_s += (FASTER if serial_s < self.serial_s else SLOWER) * (serial_s - self.serial_s)


def tasks_of(operators: Sequence[Operator], fuse: Fuse, shared: Sharing) -> list[ChainTask]:
    """Return the tasks of a net with their edges, in the order of their first operators.

    `shared` are the blobs among those that the operators touch that lie over one storage.
    `fuse(position, definition)` makes the operator that stands for the one at a position and the one behind it.
    """
    found = dependencies(accesses_of(operators, shared))
    made: list[ChainTask] = []
    task_of: dict[int, ChainTask] = {}
    for chain in chains(found, [post_of(operator) for operator in operators]):
        task = ChainTask(len(made), chain, tuple(operators[i] for i in chain), fuse)
        made.append(task)
        task_of.update(dict.fromkeys(chain, task))
    for task in made:
        task.children = tuple(task_of[child] for child in found.children[task.positions[-1]])
        task.parents = len(found.parents[task.positions[0]])
    _assign_streams(made, found, task_of)
    set_priorities(made)
    return made


def _assign_streams(tasks: Sequence[ChainTask], found: Dependencies, task_of: dict[int, ChainTask]) -> None:
    """Let each asynchronous task go on with the stream of a parent that nobody went on with, else take the next one.

    Copies have streams of their own, so that they overlap with what computes, and those have the high priority.
    """
    taken: set[ChainTask] = set()
    for task in tasks:
        if not task.asynchronous:
            continue
        parents = (task_of[parent] for parent in found.parents[task.positions[0]])
        task.followed = tuple(one for one in parents if one.asynchronous and one.place.kind == task.place.kind)
        heir = next((one for one in task.followed if one not in taken and one.post == task.post), None)
        if heir is None:
            task.stream = stream_pool(task.place).take("high" if task.post.copies else "normal")
        else:
            taken.add(heir)
            task.stream = heir.stream


def set_priorities(tasks: Sequence[ChainTask]) -> None:
    """Give each task the seconds of the longest way from it to the end."""
    for task in reversed(tasks):  # children stand behind their parents
        task.priority = task.seconds + max((child.priority for child in task.children), default=0.0)
