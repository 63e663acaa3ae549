"""Pools of threads that take work from one queue.

    pool = WorkerPool(2, "tazza-worker"); pool.submit(work); pool.close()

A thread is started when work comes and nobody is idle, up to the size of the pool, and ends when it had nothing to do
for `IDLE_S`. All of them are daemons: work that nobody waited for does not keep a process alive.

A thread is started by one that only does so: the main thread may be interrupted (Ctrl-C) in the middle of
`Thread.start`, which then leaves half a thread.

State: `_idle` and `_threads` change under `_lock`. `_idle` is the number of threads that are free, less that of work
which no thread has taken; below 0 where there is more work than threads. A thread leaves `_threads` in the same step in
which it decides to end, so that work which comes then starts another one. In a forked child every pool is empty, since
its threads did not come along.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from _thread import start_new_thread
from collections.abc import Callable
from queue import Empty, SimpleQueue

from tazza.errors import NetError
from tazza.runtime.closing import Closing
from tazza.runtime.fork import in_forked_child
from tazza.runtime.log import logger

IDLE_S = 20.0
"""How long a thread without work stays."""

Work = Callable[[], object]


def start_thread(thread: threading.Thread) -> None:
    """Start a thread, whole or not at all: an interrupt in the middle of `Thread.start` would leave half of one.

    Raises:
        RuntimeError: the system has no room for it.
    """
    start_new_thread(_start_here, (thread,))


def _start_here(thread: threading.Thread) -> None:
    """Start a thread from one that signals never reach; where there is no room for a second one, be it."""
    try:
        thread.start()
    except RuntimeError:
        thread.run()


class _Worker(threading.Thread):
    """A thread of a pool; `ended` is held until it has done its last work."""

    def __init__(self, pool: WorkerPool, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.pool = pool
        self.ended = threading.Lock()
        self.ended.acquire()

    def run(self) -> None:
        _thread.worker, _thread.pool = self, self.pool
        try:
            self.pool._serve(self)  # pyright: ignore[reportPrivateUsage] -- the same module
        finally:
            self.ended.release()

    def wait(self) -> None:
        """Wait for its end."""
        with self.ended:
            pass
        if self.ident is not None:  # it has a thread of its own
            self.join()


class _Thread(threading.local):
    pool: WorkerPool | None = None
    worker: _Worker | None = None


_thread = _Thread()


def own_pool() -> WorkerPool | None:
    """Return the pool that the calling thread belongs to, None where it belongs to none."""
    return _thread.pool


class waiting_for_others:
    """A block in which the calling thread only waits for other work; its pool, if any, has another thread meanwhile.

    Else threads that wait for work which is queued behind them would wait for ever.
    """

    def __enter__(self) -> None:
        """Let another thread start."""
        pool = _thread.pool
        if pool is not None:
            pool._lend()  # pyright: ignore[reportPrivateUsage] -- the same module

    def __exit__(self, *error: object) -> None:
        """Take the place back; a thread too many ends when it has nothing to do."""
        pool = _thread.pool
        if pool is not None:
            pool._return()  # pyright: ignore[reportPrivateUsage] -- the same module


_living: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


class WorkerPool(Closing):
    """Up to `size` threads.

    >>> done = threading.Event()
    >>> with WorkerPool(1, "doctest") as pool:
    ...     pool.submit(done.set)
    ...     done.wait(5)
    True
    """

    def __init__(self, size: int, name: str) -> None:
        """Start no thread yet; `name` and a number is what each will be called."""
        self.size = size
        self.name = name
        self._numbers = itertools.count()
        self._closed = False
        self._restart()
        _living.add(self)

    def _restart(self) -> None:
        self._lock = threading.Lock()
        self._queue: SimpleQueue[Work | None] = SimpleQueue()
        self._threads: set[_Worker] = set()
        self._idle = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {len(self._threads)} of {self.size} threads)"

    @property
    def threads(self) -> int:
        """Number of threads that live now."""
        return len(self._threads)

    def submit(self, work: Work) -> None:
        """Let a thread do `work`, after what was submitted before where all are busy.

        Raises:
            NetError: the pool is closed.
            RuntimeError: the system has no room for the first thread; where there are some, they do the work.
        """
        with self._lock:
            if self._closed:
                raise NetError(f"the threads {self.name!r} are closed")
            if self._idle <= 0 and len(self._threads) < self.size:
                self._start()
            self._idle -= 1
            self._queue.put(work)

    def _start(self) -> None:
        thread = _Worker(self, f"{self.name}-{next(self._numbers)}")
        started = 0
        self._idle += 1
        try:
            self._threads.add(thread)
            (started,) = map(start_new_thread, (_start_here,), ((thread,),))  # started and noted in one step
        except RuntimeError:  # no more threads in this process
            if len(self._threads) == 1:
                raise
        finally:
            if not started:
                self._idle -= 1
                self._threads.discard(thread)

    def _lend(self) -> None:
        """A thread of the pool waits for other work of the process: let another one take its place meanwhile."""
        with self._lock:
            self.size += 1
            if self._idle < 0 and not self._closed:
                self._start()

    def _return(self) -> None:
        with self._lock:
            self.size -= 1

    def _serve(self, worker: _Worker) -> None:
        while (work := self._next(worker)) is not None:
            try:
                work()
            except BaseException:  # whoever submits handles errors; a thread outlives them
                logger.exception("work on %s failed", threading.current_thread().name)
            del work  # what it refers to is not kept while this thread waits
            with self._lock:
                self._idle += 1

    def _next(self, worker: _Worker) -> Work | None:
        """Return what to do next; None when this thread is to end, which the pool has then forgotten."""
        while True:
            told_to_end = True
            try:
                work = self._queue.get(timeout=IDLE_S)
            except Empty:
                work, told_to_end = None, False
            if work is not None:
                return work
            with self._lock:
                if told_to_end or self._idle > 0:  # no work that was submitted counts on this thread
                    self._idle -= 1
                    self._threads.discard(worker)
                    return None

    def close(self, *, wait: bool = True) -> None:
        """Do what was submitted, then end all threads; `wait` for them, but for the calling one."""
        with self._lock:
            self._closed = True
            threads = list(self._threads)
            for _ in threads:
                self._queue.put(None)
        for thread in threads:
            if wait and thread is not _thread.worker:
                thread.wait()


def _forget_threads() -> None:
    for pool in _living:
        pool._restart()  # pyright: ignore[reportPrivateUsage] -- the class's own, in a place where no method runs


in_forked_child(_forget_threads)
