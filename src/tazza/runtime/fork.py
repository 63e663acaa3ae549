"""Forked processes: a fork copies memory, but only the thread that forks.

OpenMP keeps threads between parallel regions; in a child they are gone, and a region that needs them waits for ever. So
whatever calls native code on several threads says so first (`note_threads`), and in a child of a process that had done
that, it refuses (`check_threads`). `thread_count` is 1 there: what is prepared in the child runs on its one thread.

Locks that another thread held at that moment are never released in the child. Those that are held for moments are
made free there (`freed_in_child`): what they guard is whole between two steps of the interpreter, or made anew by its
owner.
What may be half-done while a lock is held, such as a net that is compiled, has a `Guard`: it refuses in the child.

State: `PROCESS`, which only grows, and `_locks`; both are written in a child before any other code runs there.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from tazza.data_class import dataclass
from tazza.errors import UnavailableError

FORKED = "this process was forked from one that had started OpenMP threads, which do not survive that"
FORK_REMEDY = (
    "start processes with the method 'spawn', or prepare again in the child (a net: create it again), which then uses "
    "one thread"
)


@dataclass(slots=True)
class Process:
    """Whether this process has `started` OpenMP threads, or `lost` those of the process that it was forked from.

    `forks` counts those that lead from the first process to this one: what notes it sees whether it is a parent's.
    """

    started: bool = False
    lost: bool = False
    forks: int = 0


PROCESS = Process()
"""The state of this process, for callers to whom a call of a function is dear."""


def note_threads() -> None:
    """Say that native code starts threads now, or may do so."""
    PROCESS.started = True


def threads_lost() -> str | None:
    """Return why OpenMP has no threads in this process, and what helps, or None."""
    return f"{FORKED}; {FORK_REMEDY}" if PROCESS.lost else None


def check_threads() -> None:
    """Say that native code is about to run on several threads.

    Raises:
        UnavailableError: they were lost in a fork.
    """
    if PROCESS.lost:
        raise UnavailableError(FORKED, hint=FORK_REMEDY)
    PROCESS.started = True


def left_in_parent(what: str) -> UnavailableError:
    """Return the error of something that threads of the parent would have ended."""
    return UnavailableError(
        f"this process was forked while {what} was under way in its parent, whose threads are not here",
        hint="start processes with the method 'spawn', or fork when nobody works; begin it again in the child",
    )


def in_forked_child(action: Callable[[], None]) -> None:
    """Run `action` in every process that `os.fork` makes of this one, before anything else runs there.

    A lock that another thread held at that moment is never released in the child: who has one makes a new one so.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=action)


L = TypeVar("L")
_locks: set[weakref.ref[Any]] = set()


def freed_in_child(lock: L) -> L:
    """Return a lock of C, which will be free in every forked child, unless the thread that forks holds it.

    >>> freed_in_child(threading.Lock()).locked()
    False
    """
    _locks.add(weakref.ref(lock, _locks.discard))
    return lock


class Guard:
    """A lock for `with`, taken again by its holder; it refuses in a child if another thread of the parent held it.

    Raises:
        UnavailableError: on entering, as said.
    """

    __slots__ = ("__enter__", "__exit__", "__weakref__", "_lock", "_what")

    __enter__: Callable[[], object]
    __exit__: Callable[..., None]

    def __init__(self, what: str) -> None:
        """Guard `what`, for messages."""
        self._what = what
        self._lock = lock = threading.RLock()
        self.__enter__, self.__exit__ = lock.__enter__, lock.__exit__
        _locks.add(weakref.ref(self, _locks.discard))

    def leave_fork(self) -> None:
        """Refuse from now on where another thread of the parent is inside."""
        if not is_free(self._lock):
            self.__enter__ = self._refuse

    def _refuse(self) -> NoReturn:
        raise UnavailableError(
            f"this process was forked while another thread worked on {self._what}, and left it half-done",
            hint="start processes with the method 'spawn', or fork when nobody works; make it again in the child",
        )


def is_free(lock: Any) -> bool:
    """Whether this thread can take a lock of C now; where it cannot in a child, nobody ever will."""
    free = lock.acquire(blocking=False)
    if free:
        lock.release()
    return free


def _leave_parent() -> None:
    for reference in list(_locks):
        lock = reference()
        if isinstance(lock, Guard):
            lock.leave_fork()
        elif lock is not None and not is_free(lock):
            lock._at_fork_reinit()
    PROCESS.forks += 1
    PROCESS.lost = PROCESS.lost or PROCESS.started


in_forked_child(_leave_parent)
