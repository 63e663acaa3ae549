"""Ctrl-C at any moment: the others are drained, the interrupt is raised, the net runs again."""

from __future__ import annotations

import gc
import random
import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

import pytest

from tests.nets.dags import PARALLEL, WORKERS, assert_same, reference, subject
from tests.nets.simulated import mix, unwatched, watching
from tests.patience import LONG_S

pytestmark = pytest.mark.usefixtures("device", "ctrl_c")


@pytest.fixture
def ctrl_c() -> Generator[None]:
    """Let SIGINT interrupt: shells start what runs in the background without that, and Python keeps it so."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


WIDE = [mix(f"op{k}", ["a"], [name]) for k, name in enumerate("bcdef")]
OPS = [
    *WIDE[:4],
    mix("last", ["b", "c", "d", "e"], ["f"]),
    mix("away", ["f"], ["a"], device=0),
    mix("back", ["a"], ["c"]),
]


@pytest.mark.parametrize("type", PARALLEL)
def test_an_interrupt_inside_of_an_operator_drains_the_others(type: str) -> None:
    made, expected = subject(WIDE, type, 2), reference(WIDE)
    main = threading.get_ident()

    def interrupt() -> None:
        if threading.get_ident() == main:
            raise KeyboardInterrupt
        time.sleep(1e-3)

    with watching(interrupt) as watch:
        with pytest.raises(KeyboardInterrupt):
            made.net.run()
        assert watch.running == 0
        watch.pause = lambda: None
        made.net.run()
        expected.net.run()
        assert_same(made.values(), expected.values())
    made.net.close()


@pytest.mark.parametrize("type", PARALLEL)
def test_an_interrupt_while_the_calling_thread_sleeps_waits_for_the_others(type: str) -> None:
    made = subject([mix("one", ["a"], ["b"]), mix("two", ["a"], ["c"])], type, 2)
    main = threading.get_ident()
    met, over = threading.Barrier(2, timeout=LONG_S), threading.Event()

    def pause() -> None:
        met.wait()
        if threading.get_ident() != main:
            time.sleep(2e-3)  # the calling thread has gone to sleep
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(2e-3)
            over.set()

    with watching(pause), pytest.raises(KeyboardInterrupt):
        made.net.run()
    assert over.is_set()
    made.net.close()


MOST_RUNS = 3000
"""So many are not all too fast or too slow to be interrupted, however busy the machine is."""


def interrupted_runs(type: str, workers: int, count: int) -> int:
    """Interrupt runs at random moments; return how many of `count` or more were; each can be repeated."""
    made, expected = subject(OPS, type, workers), reference(OPS)
    made.net.run()
    expected.net.run()
    draw = random.Random(len(type) + workers)
    interrupted = 0
    inside = False

    def raising(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if inside and _in_executor(frame):
            interrupted += 1
            raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, raising)
    try:
        with collections_unwatched():
            for number in range(MOST_RUNS):
                if number >= count and interrupted:
                    break
                expected.feed(number)
                made.feed(number)
                inside = True
                try:
                    signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-5, 1.5e-3))
                    with unwatched():
                        made.net.run()
                except KeyboardInterrupt:
                    pass
                finally:
                    inside = False
                    signal.setitimer(signal.ITIMER_REAL, 0)
                made.feed(number)
                with watching():
                    expected.net.run()
                    made.net.run()
                assert_same(made.values(), expected.values())
    finally:
        signal.signal(signal.SIGALRM, former)
        made.net.close()
    return interrupted


@contextmanager
def collections_unwatched() -> Generator[None]:
    """Take away what the garbage collector calls (hypothesis has one): Python drops an interrupt that lands there."""
    callbacks = gc.callbacks[:]
    gc.callbacks.clear()
    try:
        yield
    finally:
        gc.callbacks.extend(callbacks)


FRAGILE = ("contextlib.py", "device/stream.py", "runtime/workers.py")
"""Code that makes no promise about interrupts: context managers that are generators, queues, starting a thread."""
DROPPED = ("weakref.py", "_weakrefset.py")
"""Code that Python calls when an object ends; it drops errors from there, interrupts too."""


def _in_executor(frame: FrameType | None) -> bool:
    """Whether the thread works for a run by now and still: `run` itself is not safe from interrupts at its two ends."""
    while frame is not None:
        if frame.f_code.co_filename.endswith((*FRAGILE, *DROPPED)) or frame.f_code.co_name == "__del__":
            return False
        if frame.f_code.co_name == "work_to_the_end":
            return True
        frame = frame.f_back
    return False


@pytest.mark.slow
@pytest.mark.parametrize("type", PARALLEL)
def test_interrupts_at_any_moment_leave_a_net_that_runs(type: str) -> None:
    assert interrupted_runs(type, 2, 40) > 0


@pytest.mark.slow
@pytest.mark.parametrize("workers", WORKERS)
@pytest.mark.parametrize("type", PARALLEL)
def test_many_interrupts_at_any_moment_leave_a_net_that_runs(type: str, workers: int, soak: int) -> None:
    assert interrupted_runs(type, workers, 150 * soak) > 0
