"""Ctrl-C at every place where CPython looks for signals, one after the other.

CPython looks when a function begins or a generator goes on (RESUME), at jumps backwards, and behind every call of a C
function, before its result is used; nowhere else, and only in the main thread. A profile function is told of the first
and the last kind at that very place, and what it raises is raised there, and of the end of each `__init__`, behind
which the call of a class returns (that of a class of C is seen by nobody); a trace function is told of the jumps. So
`Interrupt(k)` is a signal that arrives at the k-th place, in whatever file that is.
"""

from __future__ import annotations

import dis
import gc
import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import tazza

PACKAGE = str(Path(tazza.__file__).parent)
JUMPS = frozenset(
    code for name, code in dis.opmap.items() if name.startswith("JUMP_BACKWARD") and "NO_INTER" not in name
)
RESUME = dis.opmap["RESUME"]
DROPPED = ("weakref.py", "_weakrefset.py", "_collections_abc.py")
"""Code that Python calls when an object ends; it drops errors from there, interrupts too."""
OWN = (
    "interrupting.py",
    "test_interrupt_places.py",
    "test_interrupted_reading.py",
    "test_interrupted_blocks.py",
    "test_packed_weights.py",
)
"""Tests themselves are not interrupted."""
FAST, SLOW = 12, 24
"""Places that are tried of a kind of work in fast and in slow tests; `--soak` takes all."""
HANG_S = 60
"""What takes longer waits for ever."""


class Hang(AssertionError):
    """Something waits for ever."""


class Interrupt:
    """A block in which KeyboardInterrupt is raised at the place of number `at`, the first being 1; 0 raises nowhere.

    `places` counts them, `where` tells file, line and function of the one that was hit.
    """

    def __init__(self, at: int) -> None:
        """Nothing is watched yet."""
        self.at = at
        self.places = 0
        self.where = ""

    def act(self, work: Callable[[], object]) -> bool:
        """Call `work`; whether it was interrupted."""
        sys.settrace(self._begin)
        sys.setprofile(self._profile)
        try:
            work()
        except KeyboardInterrupt:
            return True
        finally:
            sys.setprofile(None)
            sys.settrace(None)
        return False

    def _begin(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        del event, arg
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._trace

    def _trace(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any]:
        del arg
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] in JUMPS:
            self._reach(frame)
        return self._trace

    def _profile(self, frame: FrameType, event: str, arg: Any) -> None:
        del arg
        # What is thrown into a generator comes to life at its `yield`, where nobody looks.
        begins = event == "call" and frame.f_code.co_code[frame.f_lasti] == RESUME
        if (
            begins or event == "c_return" or (event == "return" and _made(frame))
        ) and not frame.f_code.co_filename.endswith(OWN):
            self._reach(frame)

    def _reach(self, frame: FrameType) -> None:
        if self.where or _drops(frame):
            return
        self.places += 1
        if self.places == self.at:
            code = frame.f_code
            self.where = f"{code.co_filename}:{frame.f_lineno} {code.co_name}"
            raise KeyboardInterrupt


def _made(frame: FrameType) -> bool:
    """Whether an object is made by the end of a frame: behind the call of its class, which is C's, somebody looks."""
    former = frame.f_back
    return frame.f_code.co_name == "__init__" and former is not None and former.f_code.co_name != "__init__"


def _drops(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.endswith(DROPPED) or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


@contextmanager
def bounded(what: str) -> Generator[None]:
    """Raise `Hang` where the block waits for ever."""

    def ring(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise Hang(what)

    former = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, HANG_S, 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


@contextmanager
def collections_unwatched() -> Generator[None]:
    """Take away what the garbage collector calls (hypothesis has one): Python drops an interrupt that lands there."""
    callbacks = gc.callbacks[:]
    gc.callbacks.clear()
    try:
        yield
    finally:
        gc.callbacks.extend(callbacks)


def interrupt_everywhere(
    work: Callable[[], object],
    check: Callable[[], object],
    *,
    prepare: Callable[[], object] = lambda: None,
    step: int = 1,
    most: int = 10**9,
) -> None:
    """Interrupt `work` at every `step`-th place and `check` what it left each time.

    It ends with the first run that was not interrupted, or behind place `most` where threads make runs differ.

    Raises:
        AssertionError: a check failed, or something waits for ever; tells at which place.
    """
    at = 1
    with collections_unwatched():
        while at <= most:
            interrupt = Interrupt(at)
            prepare()
            try:
                with bounded("the interrupted work"):
                    interrupted = interrupt.act(work)
                with bounded("what came after it"):
                    check()
            except BaseException as error:
                error.add_note(f"interrupted at place {at}: {interrupt.where}")
                raise
            if not interrupt.where:
                return
            # A run that reports its errors elsewhere (a future) need not raise it here.
            assert interrupted, f"the interrupt at place {at} was dropped: {interrupt.where}"
            at += step


def everywhere(
    work: Callable[[], object],
    check: Callable[[], object],
    tries: int,
    soak: int,
    prepare: Callable[[], object] = lambda: None,
) -> None:
    """Interrupt at `tries` places, spread evenly over all, or at all of them under soak."""
    counted = Interrupt(0)
    prepare()
    with bounded("without an interrupt"):
        counted.act(work)
        check()
    places = counted.places
    step = 1 if soak > 1 else max(1, places // tries)
    interrupt_everywhere(work, check, prepare=prepare, step=step, most=2 * places + 10)
