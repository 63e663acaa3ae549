"""Pools of threads."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref
from collections.abc import Callable

import pytest

from tazza.errors import NetError
from tazza.runtime import workers
from tazza.runtime.workers import WorkerPool

LONG_S = 60.0


def names(start: str) -> list[str]:
    """Return the names of living threads that start so."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(start)]


def test_threads_start_when_work_comes_and_all_are_busy() -> None:
    with WorkerPool(3, "few") as pool:
        assert (pool.threads, names("few")) == (0, [])
        gate, begun = threading.Event(), threading.Semaphore(0)

        def work() -> None:
            begun.release()
            gate.wait(LONG_S)

        for number in range(5):
            pool.submit(work)
            assert pool.threads == min(number + 1, 3)
        for _ in range(3):
            assert begun.acquire(timeout=LONG_S)
        assert not begun.acquire(blocking=False), "five pieces of work, three threads"
        gate.set()
    assert names("few") == []


def test_an_idle_thread_is_used_again() -> None:
    with WorkerPool(4, "again") as pool:
        for _ in range(20):
            done = threading.Event()
            pool.submit(done.set)
            assert done.wait(LONG_S)
            while pool.threads == 1 and pool._idle == 0:  # pyright: ignore[reportPrivateUsage] -- till it says so
                os.sched_yield()
        assert pool.threads == 1


def test_one_thread_works_in_order_and_outlives_errors(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []

    def fail() -> None:
        raise SystemExit(3)

    with WorkerPool(1, "one") as pool:
        for number in range(10):
            pool.submit(lambda number=number: seen.append(number))
            pool.submit(fail)
    assert seen == list(range(10))
    assert "work on one-0 failed" in caplog.text


def test_closing_does_what_was_submitted() -> None:
    for _ in range(20):
        done: list[int] = []
        pool = WorkerPool(2, "closing")
        for number in range(7):
            pool.submit(lambda number=number, done=done: done.append(number))
        pool.close()
        pool.close()
        assert sorted(done) == list(range(7))
        with pytest.raises(NetError, match="'closing' are closed"):
            pool.submit(lambda: None)


def test_work_may_close_its_own_pool() -> None:
    pool, done = WorkerPool(2, "own"), threading.Event()

    def close() -> None:
        pool.close()
        done.set()

    pool.submit(close)
    assert done.wait(LONG_S)


@pytest.mark.slow
def test_a_thread_without_work_ends_and_none_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work comes just when the only thread gives up: whichever is first, somebody does it."""
    monkeypatch.setattr(workers, "IDLE_S", 0.0)
    pool = WorkerPool(1, "brief")
    for _ in range(1500):
        done = threading.Event()
        pool.submit(done.set)
        assert done.wait(LONG_S), "work was left lying"
    pool.close()


class Watched:
    """A lock that does something whenever a thread of the pool has released it."""

    def __init__(self, then: Callable[[], None]) -> None:
        self.lock, self.then = threading.Lock(), then

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.lock.release()
        if threading.current_thread().name.startswith("leaving"):
            self.then()


def test_work_that_comes_while_the_last_thread_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "IDLE_S", 0.0)
    pool, done, free = WorkerPool(1, "leaving"), threading.Event(), list[int]()

    def submit_late() -> None:
        free.append(pool._idle)  # pyright: ignore[reportPrivateUsage] -- the only sign of what the thread decided
        if free[-2:] == [1, 0]:  # it was free, and has decided to end
            pool.submit(done.set)

    monkeypatch.setattr(pool, "_lock", Watched(submit_late))
    pool.submit(lambda: None)
    assert done.wait(LONG_S), "it still counted as a thread, but was gone"


def test_closing_while_threads_give_up_loses_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "IDLE_S", 0.0)
    for _ in range(200):
        pool, done = WorkerPool(1, "ending"), list[int]()
        pool.submit(lambda done=done: done.append(1))
        pool.submit(lambda done=done: done.append(2))
        pool.close()
        assert done == [1, 2]


def test_idle_threads_let_go_of_what_they_did(monkeypatch: pytest.MonkeyPatch) -> None:
    class Load:
        """Something that work refers to."""

    with WorkerPool(1, "light") as pool:
        load = Load()
        dead = weakref.ref(load)
        second = threading.Event()
        pool.submit(lambda load=load: None)
        pool.submit(second.set)
        del load
        assert second.wait(LONG_S)
        assert dead() is None


def test_a_pool_that_nobody_closed_dies_with_its_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "IDLE_S", 0.001)
    pool = WorkerPool(1, "left")
    done = threading.Event()
    pool.submit(done.set)
    dead = weakref.ref(pool)
    del pool
    assert done.wait(LONG_S)
    end = time.monotonic() + LONG_S
    while dead() is not None and time.monotonic() < end:  # a thread lets go a little after it is gone from every list
        gc.collect()
        time.sleep(0.001)
    assert dead() is None
    assert not names("left")


def test_no_room_for_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    start = workers.start_new_thread
    most = 1

    def refuse(work: Callable[..., object], given: tuple[object, ...]) -> int:
        if len(names("crowd")) >= most:
            raise RuntimeError("can't start new thread")
        return start(work, given)

    monkeypatch.setattr(workers, "start_new_thread", refuse)
    with WorkerPool(3, "crowd") as pool:
        gate, seen = threading.Event(), list[int]()
        begun = threading.Event()
        pool.submit(lambda: (begun.set(), gate.wait(LONG_S)))
        assert begun.wait(LONG_S)
        pool.submit(lambda: seen.append(1))
        assert pool.threads == 1
        gate.set()
    assert seen == [1], "the one thread did it"
    most = 0
    with WorkerPool(3, "crowd") as pool:
        with pytest.raises(RuntimeError, match="can't start"):
            pool.submit(lambda: seen.append(2))
        most = 1
        pool.submit(lambda: seen.append(3))
    assert seen == [1, 3]


def test_no_room_for_a_second_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that should only start another one does the work itself."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError(f"can't start new thread {thread.name}")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    seen: list[int] = []
    with WorkerPool(2, "alone") as pool:
        pool.submit(lambda: seen.append(1))
        pool.submit(lambda: seen.append(2))
    assert sorted(seen) == [1, 2]
    assert pool.threads == 0
