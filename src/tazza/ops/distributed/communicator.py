"""What a rank of a world can do, whoever carries it: the base of communicators, and errands that others run.

A communicator is a class under the name that the `engine` of CreateCommonWorld has for it: `MPI` is one process for
each rank (`tazza.distributed.mpi`), any other name one thread for each (`thread_world`). Operators know the base alone.

What takes long is an errand: it runs in a thread of the world, one after the other in the order in which they were
started, while the net goes on. All ranks start equal errands in the same order.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Generic, NamedTuple, Self, TypeVar
from weakref import ReferenceType, ref

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ClosedError
from tazza.operator import Array
from tazza.ops.distributed.store import StoreHandler
from tazza.registry import Registry
from tazza.runtime.fork import freed_in_child
from tazza.runtime.holding import Conditional
from tazza.runtime.patience import Patience
from tazza.runtime.waiting import note_wait
from tazza.runtime.workers import WorkerPool
from tazza.tensor import DataType
from tazza.tensor.blob import blob_type

PACKAGE = "tazza.distributed"
WORLD = "std::shared_ptr<gloo::Context>"
LOOK_S = 0.05
"""How often somebody who waits for an errand looks whether a rank has left."""
NOTES_MAX = 100_000
"""Errands whose times are kept."""

T = TypeVar("T")


class Note(NamedTuple):
    """When an errand ran, on the clock `time.perf_counter`, for which rank, and how many bytes that brought."""

    world: ReferenceType[CommonWorld]
    what: str
    start_s: float
    end_s: float
    nbytes: int


NOTES: deque[Note] = deque(maxlen=NOTES_MAX)
"""Errands of this process that have ended, for who draws what ran beside them; those of thread ranks too."""


@dataclass(frozen=True, slots=True)
class Message:
    """What one rank sends to another, by their numbers."""

    source: int
    target: int
    tag: int
    content: Array


@dataclass(frozen=True, slots=True)
class Entrance:
    """What a rank says as it comes to a world; `timeout_s` is how long it waits for others, 0 is no limit."""

    name: str
    size: int
    rank: int
    timeout_s: float
    store: StoreHandler | None = None


class Errand(Generic[T]):
    """Something that a thread of the world does for a rank."""

    def __init__(self, what: str, nbytes: int, work: Callable[[], T], world: CommonWorld) -> None:
        """Be under way."""
        self._what, self._nbytes, self._work, self._world = what, nbytes, work, world
        self._turn = Conditional()
        self._ended = False
        self._result: T | None = None
        self._error: BaseException | None = None

    @property
    def ended(self) -> bool:
        """Whether it has ended, well or not."""
        return self._ended

    def go(self) -> None:
        """Do it, in the thread of the world."""
        started_s = time.perf_counter()
        self._world.errand_thread = threading.current_thread()
        try:
            self._world.check()
            self._result = self._work()
        except BaseException as error:
            self._error = error
        NOTES.append(Note(ref(self._world), self._what, started_s, time.perf_counter(), self._nbytes))
        with self._turn:
            self._ended = True
            self._turn.notify_all()

    def wait(self, patience: Patience) -> T:
        """Return what came of it.

        Raises:
            ClosedError: a rank has left.
            RunCancelledError, DeadlineError: the wait ended; the errand goes on.
            TazzaError: it failed.
        """
        started_s = time.perf_counter()
        with self._world.awaited(), self._turn:
            while not self._ended:
                self._world.check()
                patience.wait(self._turn, most_s=LOOK_S)
        note_wait(started_s, time.perf_counter())
        if self._error is not None:
            error, self._error = self._error, None
            try:
                raise error
            finally:
                del error
        result: Any = self._result
        return result

    def wake(self) -> None:
        """Let who waits look again."""
        with self._turn:
            self._turn.notify_all()


@blob_type(WORLD)
class CommonWorld(ABC):
    """A rank of a world, as a blob has it.

    `what` says to the others what is done, for messages where ranks do not do the same.
    """

    name: str
    size: int
    rank: int
    timeout_s: float
    errand_thread: threading.Thread | None = None
    """The one that did the last errand, or is at it."""
    _errands: WorkerPool | None = None
    _starting = freed_in_child(threading.Lock())

    @classmethod
    @abstractmethod
    def enter(cls, entrance: Entrance, patience: Patience, seen: Callable[[Self], object]) -> Self:
        """Come to a world and wait until all ranks have; `seen` is told of the rank before the wait.

        Raises:
            NetError: that rank is there already.
            UnavailableError: ranks cannot meet so.
            RunCancelledError, DeadlineError: the wait ended.
        """

    @abstractmethod
    def clone(self, patience: Patience, seen: Callable[[CommonWorld], object]) -> CommonWorld:
        """Return the same rank of a new world of the same ranks; waits as `enter`."""

    @abstractmethod
    def allreduce(self, what: str, arrays: Sequence[Array], out: Array, patience: Patience) -> None:
        """Write the sum over all ranks of all their arrays, of one shape, to `out`, which may be the only one of them.

        Raises:
            NetError: the ranks do not do the same.
            ClosedError: a rank has left, or failed.
            RunCancelledError, DeadlineError: the wait for the others ended.
        """

    @abstractmethod
    def allreduce_as(self, what: str, array: Array, sent: DataType, patience: Patience) -> None:
        """Sum a flat float32 array in place: elements go as `sent`, sums are formed in float32. Raises as `allreduce`.

        With bfloat16 what each rank brings is rounded once, and the sum once.
        """

    def agree(self, what: str, number: int, patience: Patience) -> bool:
        """Tell whether all ranks have come with the same number, below 2**63. Raises as `allreduce`."""
        numbers = self.allgather(f"agreement in {what}", [np.array([number], np.int64)], patience)
        return all(int(one[0]) == number for one in numbers)

    def swap(self, what: str, arrays: Sequence[Array], inboxes: Sequence[Array], patience: Patience) -> bool:
        """Write what the other of two ranks brings to the inboxes; False, and nothing done, where sums are formed else.

        Arrays are contiguous, and stay as they are until the end. Raises as `allreduce`.
        """
        del what, arrays, inboxes, patience
        return False

    def awaited(self) -> AbstractContextManager[object]:
        """Return a block in which somebody waits for an errand of this rank; who does it may be in more of a hurry."""
        return nullcontext()

    @abstractmethod
    def allgather(self, what: str, arrays: Sequence[Array], patience: Patience) -> list[Array]:
        """Return all arrays of all ranks, by ranks; first extents may differ between them. Raises as `allreduce`."""

    @abstractmethod
    def broadcast(self, what: str, root: int, arrays: Sequence[Array], patience: Patience) -> Array:
        """Return the first array of rank `root`; all have its shape. Raises as `allreduce`."""

    @abstractmethod
    def barrier(self, patience: Patience) -> None:
        """Wait for all ranks. Raises as `allreduce`."""

    @abstractmethod
    def send(self, message: Message) -> None:
        """Leave a message for a rank, without waiting for it.

        Raises:
            ClosedError: a rank has left, or failed.
            NetError: too many wait for that rank.
        """

    @abstractmethod
    def receive(self, source: int, tag: int, patience: Patience) -> Message:
        """Wait for a message to this rank and take it: the first one from that source with that tag, -1 for any.

        Raises:
            ClosedError: a rank has left, or failed, and there is no such message.
            RunCancelledError, DeadlineError: the wait ended.
        """

    @abstractmethod
    def close(self) -> None:
        """Leave; those who wait for this rank get an error."""

    @abstractmethod
    def wake(self) -> None:
        """Let all who wait look again."""

    @property
    @abstractmethod
    def broken(self) -> str | None:
        """Why the world is closed; None while it is not."""

    def check(self) -> None:
        """See that nobody has left.

        Raises:
            ClosedError: somebody has.
        """
        why = self.broken
        if why is not None:
            raise ClosedError(f"the common world {self.name!r} is closed: {why}")

    def start(self, what: str, nbytes: int, work: Callable[[], T]) -> Errand[T]:
        """Start an errand behind those that were started before."""
        with self._starting:
            if self._errands is None:
                self._errands = WorkerPool(1, f"tazza-world-{self.name}-{self.rank}")
        errand = Errand(what, nbytes, work, self)
        self._errands.submit(errand.go)
        return errand


def _load(name: str) -> None:
    module = f"{PACKAGE}.{name.lower()}"
    if name.isidentifier() and importlib.util.find_spec(module) is not None:
        importlib.import_module(module)


COMMUNICATORS: Registry[str, type[CommonWorld]] = Registry("communicator", loader=_load)
"""By the engine of CreateCommonWorld; a floor above fills it."""
