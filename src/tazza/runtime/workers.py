"""Pools of threads that take work from one queue.

    pool = WorkerPool(2, "tazza-worker"); pool.submit(work); pool.close()

A thread is started when work comes and nobody is idle, up to the size of the pool, and ends when it had nothing to do
for `IDLE_S`. All of them are daemons: work that nobody waited for does not keep a process alive.

State: `_idle` and `_threads` change under `_lock`. `_idle` is the number of threads that are free, less that of work
which no thread has taken; below 0 where there is more work than threads. A thread leaves `_threads` in the same step in
which it decides to end, so that work which comes then starts another one. In a forked child every pool is empty, since
its threads did not come along.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from queue import Empty, SimpleQueue

from tazza.errors import NetError
from tazza.runtime.closing import Closing
from tazza.runtime.fork import in_forked_child
from tazza.runtime.log import logger

IDLE_S = 20.0
"""How long a thread without work stays."""

Work = Callable[[], object]


class _Thread(threading.local):
    pool: WorkerPool | None = None


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
        self._threads: set[threading.Thread] = set()
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
        thread = threading.Thread(target=self._serve, name=f"{self.name}-{next(self._numbers)}", daemon=True)
        self._threads.add(thread)
        try:
            thread.start()
        except RuntimeError:  # no more threads in this process
            self._threads.discard(thread)
            if not self._threads:
                raise
        except BaseException:  # an interrupt, while the thread may or may not have started
            if thread.ident is None:
                self._threads.discard(thread)
            else:
                self._idle += 1
            raise
        else:
            self._idle += 1

    def _lend(self) -> None:
        """A thread of the pool waits for other work of the process: let another one take its place meanwhile."""
        with self._lock:
            self.size += 1
            if self._idle < 0 and not self._closed:
                self._start()

    def _return(self) -> None:
        with self._lock:
            self.size -= 1

    def _serve(self) -> None:
        _thread.pool = self
        while (work := self._next()) is not None:
            try:
                work()
            except BaseException:  # whoever submits handles errors; a thread outlives them
                logger.exception("work on %s failed", threading.current_thread().name)
            del work  # what it refers to is not kept while this thread waits
            with self._lock:
                self._idle += 1

    def _next(self) -> Work | None:
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
                    self._threads.discard(threading.current_thread())
                    return None

    def close(self, *, wait: bool = True) -> None:
        """Do what was submitted, then end all threads; `wait` for them, but for the calling one."""
        with self._lock:
            self._closed = True
            threads = list(self._threads)
            for _ in threads:
                self._queue.put(None)
        for thread in threads:
            if wait and thread is not threading.current_thread():
                thread.join()


def _forget_threads() -> None:
    for pool in _living:
        pool._restart()  # pyright: ignore[reportPrivateUsage] -- the class's own, in a place where no method runs


in_forked_child(_forget_threads)
