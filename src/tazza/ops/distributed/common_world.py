"""Worlds of ranks that compute together: CreateCommonWorld, CloneCommonWorld, DestroyCommonWorld.

A world has `size` ranks, each of which has a blob that says which one it is. Here ranks are threads of one process:
those that name the same world, in workspaces of their own as a rule, are one world. What they do together they do in
the same order: the n-th collective operator of a rank meets the n-th of all others. Ranks whose store lies in a folder
say there in which process they are, so that one that waits for another process learns it at once.
"""

from __future__ import annotations

import os
import platform
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from weakref import WeakValueDictionary

from tazza.errors import ArgumentError, ClosedError, NetError, UnavailableError
from tazza.operator import Array, Effects, Operator, OpView, Role, arg, blob, forbidden, host_kernel, schema
from tazza.ops.distributed.store import LOOK_S, STORE, StoreHandler
from tazza.runtime.files import kind_of
from tazza.runtime.fork import freed_in_child
from tazza.runtime.holding import Conditional
from tazza.runtime.patience import Patience
from tazza.tensor import Blob
from tazza.tensor.blob import blob_type

WORLD = "std::shared_ptr<gloo::Context>"
MESSAGES_MAX = 2**16
"""Messages from one rank to another with one tag that wait there."""
NO_GRADIENT = forbidden("it moves data between ranks; the builder of a net on several ranks says what its gradient is")


@dataclass(slots=True)
class Meeting:
    """One collective operator of all ranks: what it is, what those who came bring, and what comes out."""

    what: str
    brought: dict[int, Sequence[Array]] = field(default_factory=dict[int, Sequence[Array]])
    result: Sequence[Array] | None = None
    left: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """What one rank sends to another, by their numbers."""

    source: int
    target: int
    tag: int
    content: Array


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


@blob_type(WORLD)
class CommonWorld:
    """A rank of a world, as a blob has it."""

    def __init__(self, world: World, rank: int, timeout_s: float) -> None:
        """Join the world as a rank that waits `timeout_s` for the others; 0 is no limit."""
        world.join(rank)
        self.world, self.rank, self.timeout_s = world, rank, timeout_s
        self.met = self.cloned = 0

    def meet(self, what: str, arrays: Sequence[Array], work: Any, patience: Patience) -> Sequence[Array]:
        """Take part in this rank's next meeting; see `World.meet`."""
        number, self.met = self.met, self.met + 1
        patience.begin(self.timeout_s)
        return self.world.meet(number, self.rank, what, arrays, work, patience)

    def close(self) -> None:
        """Leave."""
        with self.world.turn:
            self.world.leave(f"rank {self.rank} has left")


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


CREATE_COMMON_WORLD = schema(
    "CreateCommonWorld",
    """comm_world = rank `rank` of a world of `size` ranks, when all have come.

    Ranks are threads of this process; in one world are those whose operators have the same store and the same name,
    or without a name the same output. In the folder of a store they say in which process they are.""",
    inputs=[blob("kv_handler", type_name=STORE, optional=True, role=Role.STATE)],
    outputs=[blob("comm_world", type_name=WORLD)],
    args=[
        arg("size", int, 1, minimum=1, doc="ranks of the world"),
        arg("rank", int, 0, minimum=0, doc="which of them this is"),
        arg("timeout_ms", int, 30000, minimum=0, doc="milliseconds that a rank waits for the others; 0 is no limit"),
        arg("sync", bool, False, doc="has no effect: every rank waits for all"),
        arg("interface", str, "", doc="has no effect: no network is used"),
        arg("transport", str, "", doc="has no effect: no network is used"),
        arg("status_blob", str, "", doc="has no effect: a rank that fails raises an error"),
    ],
    effects=Effects.IO,  # it waits for whoever comes to the world from elsewhere in the process
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> world = run("CreateCommonWorld", size=1)
    >>> world.rank, world.world.size
    (0, 1)
    """,
)


@CREATE_COMMON_WORLD.validate
def create_common_world_validate(op: OpView) -> None:
    op.require(op.rank < op.size, f"rank = {op.rank} is not below size = {op.size}")


class WorldKernel:
    """Base of kernels that wait for other ranks; another thread may ask them to give up."""

    def __init__(self, operator: Operator) -> None:
        """Wait for the other ranks."""
        self.patience = Patience(f"for the other ranks of a common world, in {operator.op.type}")
        self.world: World | None = None

    def cancel(self) -> None:
        """Give up the wait of the present run, or of the one that is about to begin."""
        self.patience.give_up()
        if self.world is not None:
            self.world.wake()

    def assemble(self, own: CommonWorld, notes: Notes | None = None) -> CommonWorld:
        """Wait until all ranks have come, and return this one.

        Raises:
            ClosedError: one has left meanwhile.
            UnavailableError: one is in another process, as notes say.
            RunCancelledError, DeadlineError: the wait ended.
        """
        world = self.world = own.world
        with world.turn:
            try:
                while len(world.ranks) < world.size:
                    world.check()
                    if notes is not None:
                        notes.check(world.size)
                    self.patience.wait(world.turn, most_s=None if notes is None else LOOK_S)
            except BaseException as error:
                world.leave(f"a rank left: {type(error).__name__}: {error}")
                raise
        return own


@host_kernel(CREATE_COMMON_WORLD)
class CreateCommonWorld(WorldKernel):
    """Waits until all ranks have come."""

    def run(self, op: OpView, kv_handler: Blob | None, comm_world: Blob) -> None:
        timeout_s = op.timeout_ms / 1000
        with self.patience.span(timeout_s):
            store = None if kv_handler is None else kv_handler.get(StoreHandler)
            name = op.definition.name if op.definition.name else comm_world.name
            world = find_world("" if store is None else store.name, name, op.size)
            own = CommonWorld(world, op.rank, timeout_s)
            comm_world.set(self.assemble(own, leave_note(store, name, op.rank) if op.size > 1 else None))


CLONE_COMMON_WORLD = schema(
    "CloneCommonWorld",
    "comm_world = the same rank of a new world of the same ranks, which meet there apart from the old one.",
    inputs=[blob("existing_comm_world", type_name=WORLD, role=Role.STATE)],
    outputs=[blob("comm_world", type_name=WORLD)],
    effects=Effects.IO,  # it waits for whoever comes to the world from elsewhere in the process
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> world = run("CreateCommonWorld", size=1)
    >>> run("CloneCommonWorld", world).world is world.world
    False
    """,
)


@host_kernel(CLONE_COMMON_WORLD)
class CloneCommonWorld(WorldKernel):
    """Waits until all ranks have come."""

    def run(self, existing_comm_world: Blob, comm_world: Blob) -> None:
        with self.patience.span():
            old = existing_comm_world.get(CommonWorld)
            number, old.cloned = old.cloned, old.cloned + 1
            world = find_world(f"clone {number} of {old.world.serial}", old.world.name, old.world.size)
            self.patience.begin(old.timeout_s)
            comm_world.set(self.assemble(CommonWorld(world, old.rank, old.timeout_s)))


DESTROY_COMMON_WORLD = schema(
    "DestroyCommonWorld",
    "The rank leaves; those that still wait for it get an error.",
    inputs=[blob("common_world", type_name=WORLD, role=Role.STATE)],
    outputs=[blob("left", type_name=WORLD)],
    must_in_place={"left": "common_world"},
    effects=Effects.STATE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("DestroyCommonWorld", run("CreateCommonWorld", size=1)).world.broken
    'rank 0 has left'
    """,
)


@host_kernel(DESTROY_COMMON_WORLD)
def destroy_common_world(left: Blob) -> None:
    left.get(CommonWorld).close()
