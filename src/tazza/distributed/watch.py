"""Whether all ranks are still there: each process looks, and whoever finds that one is gone tells the others.

A call of MPI that waits for a process that has died never ends on most transports, and says nothing. So a thread looks
beside it: ranks of the same machine by their process numbers, several times a second; the next machine by messages that
have to come now and then. A rank that leaves says why. What the thread finds ends all waits (`mpi.lose`): the main
thread gets an error and ends as it does on any other. Where it does not, the thread ends the process.

State: what was heard, of the thread alone; the main thread adds to `_words`, and reads `_finished` and `_told`.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.distributed.mpi import lose, lost, mpi
from tazza.runtime.workers import start_thread

LOOK_S = 0.2
"""How often peers are looked at."""
BEAT_S, SILENCE_S = 1.0, 8.0
"""How often another machine is told that this rank is there, and how long it may be silent."""
END_S = 5.0
"""How long the main thread has to end in order, once a rank is gone."""
BEAT, WORD, DONE = 1, 2, 3
"""Tags of messages."""
WORD_MAX = 2000
"""Bytes of a reason."""
TRIES = 5
"""Looks that a rank which leaves waits for its word to be sent."""
STATUS = 1
"""Exit status of a process that could not go on."""


class RankWatch:
    """The thread of a rank that watches the others."""

    def __init__(self) -> None:
        """Tell all ranks where this one is, and begin to look; all ranks do so together."""
        MPI = mpi()
        self._mpi, self._all = MPI, MPI.COMM_WORLD.Dup()
        self._all.Set_errhandler(MPI.ERRORS_RETURN)
        self.rank, self.size = int(self._all.rank), int(self._all.size)
        self._places = self._told_places()
        now = time.monotonic()
        self._heard, self._beaten = dict.fromkeys(range(self.size), now), 0.0
        self._done: set[int] = set()
        self._sent: list[tuple[Any, NDArray[np.uint8]]] = []
        self._words: list[bytes] = []
        self._finished = self._told = False
        start_thread(threading.Thread(target=self._look, name="tazza-watch", daemon=True))

    def _told_places(self) -> list[tuple[str, int]]:
        room = np.zeros(256, np.uint8)
        own = f"{os.getpid()} {platform.node()}".encode()[: room.size]
        room[: len(own)] = np.frombuffer(own, np.uint8)
        every = np.zeros((self.size, room.size), np.uint8)
        self._all.Allgather(room, every)
        texts = [bytes(one).rstrip(b"\0").decode(errors="replace").partition(" ") for one in every]
        return [(node, int(process)) for process, _, node in texts]

    # -- what the main thread says -------------------------------------------------------------------------------------

    def leave(self, why: str) -> None:
        """Tell all that this rank cannot go on, and why; the caller then ends the process."""
        self._words.append(why.encode()[:WORD_MAX])
        for _ in range(TRIES):
            if self._told:
                return
            time.sleep(LOOK_S)

    def finish(self) -> bool:
        """Wait until all ranks have come to the end; False where one is gone."""
        self._words.append(b"")
        while not self._finished:
            if lost() is not None:
                return False
            time.sleep(LOOK_S)
        return True

    # -- what the thread does ------------------------------------------------------------------------------------------

    def _look(self) -> None:
        while not self._finished:
            try:
                self._say()
                self._hear()
                self._see()
            except self._mpi.Exception as error:
                self._lose(f"MPI cannot reach the other ranks: {error}")
            if lost() is not None:
                self._end()
                return
            time.sleep(LOOK_S)

    def _say(self) -> None:
        while self._words:
            word = self._words.pop(0)
            self._send(WORD if word else DONE, word, lambda rank: rank != self.rank)
            if word:
                self._told = True
            else:
                self._done.add(self.rank)
        if time.monotonic() - self._beaten > BEAT_S:
            self._beaten = time.monotonic()
            self._send(BEAT, b"", lambda rank: self._places[rank][0] != self._places[self.rank][0])
        self._sent = [one for one in self._sent if not one[0].Test()]
        if len(self._done) == self.size and not self._sent:
            self._finished = True

    def _send(self, tag: int, word: bytes, wanted: Callable[[int], bool]) -> None:
        content = np.frombuffer(word, np.uint8).copy()
        for rank in filter(wanted, range(self.size)):
            self._sent.append((self._all.Isend([content, self._mpi.BYTE], rank, tag), content))

    def _hear(self) -> None:
        MPI, status = self._mpi, self._mpi.Status()
        while (found := self._all.Improbe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)) is not None:
            content = np.empty(status.Get_count(MPI.BYTE), np.uint8)
            found.Recv([content, MPI.BYTE])
            self._heard[status.source] = time.monotonic()
            if status.tag == DONE:
                self._done.add(status.source)
            elif status.tag == WORD:
                lose(bytes(content).decode(errors="replace"))

    def _see(self) -> None:
        own, now = self._places[self.rank][0], time.monotonic()
        for rank, (node, process) in enumerate(self._places):
            if rank == self.rank or rank in self._done:
                continue
            if node == own and not is_alive(process):
                self._lose(f"rank {rank} is gone: its process {process} has ended")
            elif node != own and now - self._heard[rank] > SILENCE_S:
                self._lose(f"rank {rank} is gone: {node} has been silent for {SILENCE_S:g} seconds")

    def _lose(self, why: str) -> None:
        lose(why)
        self._words.append(why.encode()[:WORD_MAX])
        self._say()

    def _end(self) -> None:
        """Let the main thread end in order; else end the process, which may be within a call that never ends."""
        time.sleep(END_S)
        sys.stderr.write(f"error: rank {self.rank} cannot go on: {lost()}\n")
        sys.stderr.flush()
        os._exit(STATUS)


def is_alive(process: int) -> bool:
    """Whether a process of this machine runs; one that has ended, and was not waited for, does not.

    >>> is_alive(os.getpid()), is_alive(2**22 + 1)
    (True, False)
    """
    if not _answers(process):
        return False
    try:
        stat = Path(f"/proc/{process}/stat").read_bytes()
    except OSError:  # another system, or it has ended just now: the next look will tell
        return True
    return stat.rpartition(b")")[2].split()[:1] not in ([b"Z"], [b"X"])


def _answers(process: int) -> bool:
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True
