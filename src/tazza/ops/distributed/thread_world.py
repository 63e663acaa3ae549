"""Worlds whose ranks are threads of one process.

Those that name the same world, in workspaces of their own as a rule, are one world. What they do together they do in
the same order: the n-th collective operator of a rank meets the n-th of all others. Sums are formed in the order of the
ranks, and of the blobs of a rank. Ranks whose store lies in a folder say there in which process they are, so that one
that waits for another process learns it at once.
"""

from __future__ import annotations

import os
import platform
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import count
from typing import Self
from weakref import WeakValueDictionary

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError, ClosedError, NetError, UnavailableError
from tazza.operator import Array
from tazza.ops.distributed.communicator import CommonWorld, Entrance, Message
from tazza.ops.distributed.store import LOOK_S, StoreHandler
from tazza.runtime.files import kind_of
from tazza.runtime.fork import freed_in_child
from tazza.runtime.holding import Conditional
from tazza.runtime.patience import Patience
from tazza.tensor import DataType

MESSAGES_MAX = 2**16
"""Messages from one rank to another with one tag that wait there."""


@dataclass(slots=True)
class Meeting:
    """One collective operator of all ranks: what it is, what those who came bring, and what comes out."""

    what: str
    brought: dict[int, Sequence[Array]] = field(default_factory=dict[int, Sequence[Array]])
    result: Sequence[Array] | None = None
    left: int = 0


class World:
    """What the ranks of a world share. `turn` guards all of it; whoever changes it notifies all who wait.

    A rank that fails or gives up in a meeting breaks the world: the others could wait for it for ever.
    """

    def __init__(self, name: str, size: int) -> None:
        """Have `size` ranks, none of which has come."""
        self.name = name
        self.size = size
        self.serial = next(_serials)
        self.ranks: set[int] = set()
        self.broken: str | None = None
        self.turn = Conditional()
        self._meetings: dict[int, Meeting] = {}
        self._messages: dict[tuple[int, int, int], deque[tuple[int, Message]]] = {}
        self._sent = 0

    @property
    def open_meetings(self) -> int:
        """How many collective operators have begun, and not ended on all ranks."""
        return len(self._meetings)

    def join(self, rank: int) -> None:
        """Come as a rank.

        Raises:
            NetError: that rank is there already.
        """
        with self.turn:
            if rank in self.ranks:
                raise NetError(f"rank {rank} of the common world {self.name!r} is there already", hint=NAMES)
            self.ranks.add(rank)
            self.turn.notify_all()

    def meet(
        self,
        number: int,
        rank: int,
        what: str,
        arrays: Sequence[Array],
        work: Callable[[dict[int, Sequence[Array]]], Sequence[Array]],
        patience: Patience,
    ) -> Sequence[Array]:
        """Bring arrays to meeting `number`, and return what `work` makes of those of all ranks; the last one does it.

        Raises:
            NetError: the ranks do not do the same.
            ClosedError: a rank has left, or failed.
            RunCancelledError, DeadlineError: the wait for the others ended.
        """
        with self.turn:
            self.check()
            try:
                meeting = self._meetings.setdefault(number, Meeting(what))
                if meeting.what != what:
                    raise NetError(
                        f"rank {rank} of the common world {self.name!r} comes with {what} to {meeting.what} of another",
                        hint="all ranks run the same collective operators, on equal shapes, in the same order",
                    )
                meeting.brought[rank] = arrays
                if len(meeting.brought) == self.size:
                    meeting.result = work(meeting.brought)
                    meeting.left = self.size
                    self.turn.notify_all()
                while meeting.result is None:
                    self.check()
                    patience.wait(self.turn)
            except BaseException as error:
                self.leave(f"rank {rank} left: {type(error).__name__}: {error}")
                raise
            meeting.left -= 1
            if not meeting.left:
                del self._meetings[number]
            return meeting.result

    def send(self, message: Message) -> None:
        """Leave a message for a rank, which may not have asked for it yet.

        Raises:
            ClosedError: a rank has left, or failed.
            NetError: `MESSAGES_MAX` of one kind wait for that rank.
        """
        with self.turn:
            self.check()
            waiting = self._messages.setdefault((message.target, message.source, message.tag), deque())
            if len(waiting) >= MESSAGES_MAX:
                what = f"{len(waiting)} messages of rank {message.source} with the tag {message.tag}"
                hint = "let it receive as many as are sent"
                raise NetError(f"rank {message.target} has not received {what}", hint=hint)
            self._sent += 1
            waiting.append((self._sent, message))
            self.turn.notify_all()

    def receive(self, rank: int, source: int, tag: int, patience: Patience) -> Message:
        """Wait for a message to a rank and take it: the first one from that source with that tag, -1 for any.

        Raises:
            ClosedError: a rank has left, or failed, and there is no such message.
            RunCancelledError, DeadlineError: the wait ended.
        """
        with self.turn:
            while (kind := self._first(rank, source, tag)) is None:
                self.check()
                patience.wait(self.turn)
            _, found = self._messages[kind].popleft()
            if not self._messages[kind]:
                del self._messages[kind]
            return found

    def _first(self, rank: int, source: int, tag: int) -> tuple[int, int, int] | None:
        """Return the target, source and tag of the first message that is wanted; None where there is none."""
        if -1 not in (source, tag):
            return (rank, source, tag) if (rank, source, tag) in self._messages else None
        wanted = [
            (waiting[0][0], kind)
            for kind, waiting in self._messages.items()
            if kind[0] == rank and source in (-1, kind[1]) and tag in (-1, kind[2])
        ]
        return min(wanted)[1] if wanted else None

    def check(self) -> None:
        """See that nobody has left; `turn` is held.

        Raises:
            ClosedError: somebody has.
        """
        if self.broken is not None:
            raise ClosedError(f"the common world {self.name!r} is closed: {self.broken}")

    def leave(self, why: str) -> None:
        """Break the world; the first reason stays. `turn` is held."""
        self.broken = why if self.broken is None else self.broken
        self.turn.notify_all()

    def wake(self) -> None:
        """Let all who wait look again."""
        with self.turn:
            self.turn.notify_all()


class ThreadRank(CommonWorld):
    """A rank that is a thread, or whatever else of this process has a workspace of its own."""

    def __init__(self, world: World, rank: int, timeout_s: float) -> None:
        """Join the world as a rank that waits `timeout_s` for the others; 0 is no limit."""
        world.join(rank)
        self.world, self.rank, self.timeout_s = world, rank, timeout_s
        self.name, self.size = world.name, world.size
        self.met = self.cloned = 0

    @classmethod
    def enter(cls, entrance: Entrance, patience: Patience, seen: Callable[[Self], object]) -> Self:
        """Come to a world of this process."""
        store = entrance.store
        world = find_world("" if store is None else store.name, entrance.name, entrance.size)
        own = cls(world, entrance.rank, entrance.timeout_s)
        seen(own)
        own.assemble(patience, leave_note(store, entrance.name, entrance.rank) if entrance.size > 1 else None)
        return own

    def clone(self, patience: Patience, seen: Callable[[CommonWorld], object]) -> ThreadRank:
        """Come to the world that stands for this clone of the old one."""
        number, self.cloned = self.cloned, self.cloned + 1
        world = find_world(f"clone {number} of {self.world.serial}", self.name, self.size)
        own = ThreadRank(world, self.rank, self.timeout_s)
        seen(own)
        own.assemble(patience, None)
        return own

    def assemble(self, patience: Patience, notes: Notes | None) -> None:
        """Wait until all ranks have come.

        Raises:
            ClosedError: one has left meanwhile.
            UnavailableError: one is in another process, as notes say.
            RunCancelledError, DeadlineError: the wait ended.
        """
        world = self.world
        with world.turn:
            try:
                while len(world.ranks) < world.size:
                    world.check()
                    if notes is not None:
                        notes.check(world.size)
                    patience.wait(world.turn, most_s=None if notes is None else LOOK_S)
            except BaseException as error:
                world.leave(f"a rank left: {type(error).__name__}: {error}")
                raise

    @property
    def broken(self) -> str | None:
        """Why the world is closed."""
        return self.world.broken

    def allreduce(self, what: str, arrays: Sequence[Array], out: Array, patience: Patience) -> None:
        """Sum in the order of the ranks."""
        out[...] = self._meet(what, arrays, lambda brought: [total_of(brought)], patience)[0]

    def allreduce_as(self, what: str, array: Array, sent: DataType, patience: Patience) -> None:
        """Sum what each rank brings, rounded, in the order of the ranks."""
        rounded = array.astype(sent.numpy).astype(np.float32)
        self.allreduce(f"{what} as {sent.label}", [rounded], array, patience)
        array[...] = array.astype(sent.numpy)

    def allgather(self, what: str, arrays: Sequence[Array], patience: Patience) -> list[Array]:
        """Return what all have brought."""
        return list(self._meet(what, [array.copy() for array in arrays], in_order, patience))

    def broadcast(self, what: str, root: int, arrays: Sequence[Array], patience: Patience) -> Array:
        """Return a copy of what the root has brought."""
        return self._meet(what, arrays, lambda brought: [brought[root][0].copy()], patience)[0]

    def barrier(self, patience: Patience) -> None:
        """Bring nothing."""
        self._meet("Barrier", (), lambda brought: (), patience)

    def _meet(
        self,
        what: str,
        arrays: Sequence[Array],
        work: Callable[[dict[int, Sequence[Array]]], Sequence[Array]],
        patience: Patience,
    ) -> Sequence[Array]:
        """Take part in this rank's next meeting; see `World.meet`."""
        number, self.met = self.met, self.met + 1
        patience.begin(self.timeout_s)
        return self.world.meet(number, self.rank, what, arrays, work, patience)

    def send(self, message: Message) -> None:
        """Leave a copy in the world."""
        self.world.send(Message(message.source, message.target, message.tag, message.content.copy()))

    def receive(self, source: int, tag: int, patience: Patience) -> Message:
        """Take a message out of the world."""
        return self.world.receive(self.rank, source, tag, patience)

    def close(self) -> None:
        """Leave."""
        with self.world.turn:
            self.world.leave(f"rank {self.rank} has left")

    def wake(self) -> None:
        """Let all who wait look again."""
        self.world.wake()


def in_order(brought: dict[int, Sequence[Array]]) -> list[Array]:
    """Return all arrays, in the order of the ranks and of the blobs of a rank."""
    return [array for _, arrays in sorted(brought.items()) for array in arrays]


def total_of(brought: dict[int, Sequence[Array]]) -> Array:
    """Return the sum of all arrays."""
    first, *others = in_order(brought)
    total = first.copy()
    with np.errstate(all="ignore"):
        for array in others:
            np.add(total, array, out=total)
    return total


_serials = count()
NAMES = "worlds of one process are told apart by the store that ranks are given, and the name of the operator"
_worlds: WeakValueDictionary[tuple[str, str], World] = WeakValueDictionary()  # as long as a rank holds it
_turn = freed_in_child(threading.Lock())


def find_world(store: str, name: str, size: int) -> World:
    """Return the world that is being made under a name, or a new one; whoever is complete makes room for the next.

    Raises:
        ArgumentError: others make it with another size.
    """
    with _turn:
        found = _worlds.get((store, name))
        if found is None or found.broken is not None or len(found.ranks) == found.size:
            found = _worlds[store, name] = World(name, size)
        if found.size != size:
            raise ArgumentError(f"size = {size} for the common world {name!r}, another rank has said {found.size}")
        return found


@dataclass(frozen=True, slots=True)
class Notes:
    """What ranks of a world leave in the folder of a store: the machine and the process that they are in."""

    store: StoreHandler
    name: str

    def key(self, rank: int) -> str:
        """Return the key of a rank's note."""
        return f"process of rank {rank} of the common world {self.name}"

    def check(self, size: int) -> None:
        """Check that no rank is in another process that is alive.

        Raises:
            UnavailableError: one is.
        """
        for rank in range(size):
            if self.store.has(self.key(rank)):
                found = self.store.get(self.key(rank)).decode(errors="replace")
                if _lives_elsewhere(found):
                    raise UnavailableError(
                        f"rank {rank} of the common world {self.name!r} is in another process, {found}",
                        hint="let all ranks be threads of one process, each with a workspace of its own",
                    )


def leave_note(store: StoreHandler | None, name: str, rank: int) -> Notes | None:
    """Say in the folder of a store where a rank is; None where there is no folder, which others could look at."""
    if store is None or store.folder is None or kind_of(store.folder) != "folder":
        return None
    notes = Notes(store, name)
    store.set(notes.key(rank), _here().encode())
    return notes


def _here() -> str:
    return f"{platform.node()} {os.getpid()}"


def _lives_elsewhere(note: str) -> bool:
    """Whether a note is that of another process of this machine that is alive; one that is not has left it long ago."""
    machine, _, process = note.rpartition(" ")
    if note == _here() or machine != platform.node() or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except PermissionError:
        return True  # it is somebody else's
    except (OSError, OverflowError):
        return False
    return True
