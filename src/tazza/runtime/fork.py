"""Forked processes: a fork copies memory, but only the thread that forks.

OpenMP keeps threads between parallel regions; in a child they are gone, and a region that needs them waits for ever. So
whatever calls native code on several threads says so first (`note_threads`), and in a child of a process that had done
that, it refuses (`check_threads`). `thread_count` is 1 there: what is prepared in the child runs on its one thread.

State: `PROCESS`, which only grows, and is written in a child before any other code runs there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from tazza.errors import UnavailableError

FORKED = "this process was forked from one that had started OpenMP threads, which do not survive that"
FORK_REMEDY = (
    "start processes with the method 'spawn', or prepare again in the child (a net: create it again), which then uses "
    "one thread"
)


@dataclass(slots=True)
class Process:
    """Whether this process has `started` OpenMP threads, or `lost` those of the process that it was forked from."""

    started: bool = False
    lost: bool = False


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


def in_forked_child(action: Callable[[], None]) -> None:
    """Run `action` in every process that `os.fork` makes of this one, before anything else runs there.

    A lock that another thread held at that moment is never released in the child: who has one makes a new one so.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=action)


def _lose() -> None:
    PROCESS.lost = PROCESS.lost or PROCESS.started


in_forked_child(_lose)
