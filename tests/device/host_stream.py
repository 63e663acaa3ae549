"""Streams of the host: queues that threads work off; what simulated devices queue on, and tests beside real ones.

Streams have no thread of their own: what is queued is done by threads that all streams share, one piece of a stream at
a time, and a stream that waits for an event holds no thread. Each priority has threads of its own, so that work of high
priority never queues behind other work.

State: a stream's queue and flags change under its lock. `_error` is written by whoever works the queue off, of whom
there is one at a time: forgetting a failure is a piece of work too, so that it ends what was queued before it and
nothing else.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from tazza.device import STREAMS, Event, Stream, current_context
from tazza.device.stream import Work
from tazza.errors import TazzaError
from tazza.runtime.fork import PROCESS, freed_in_child, left_in_parent
from tazza.runtime.threads import allowed_cpus
from tazza.runtime.workers import WorkerPool
from tazza.tensor import Place
from tazza.tensor.place import CPU_KIND

CPU_THREADS = 8
"""Threads that work for these streams, at the least: some of that work waits rather than computes."""


class HostStream(Stream):
    """A queue that threads of the process work off."""

    def __init__(self, place: Place, number: int, priority: str = "normal", *, pool: WorkerPool | None = None) -> None:
        """Create an empty queue; `pool` are the threads that work for it, by default those of its priority."""
        super().__init__(place, number, priority)
        self._pool = _cpu_threads(priority) if pool is None else pool
        self._lock = freed_in_child(threading.Lock())
        self._queue: deque[Callable[[], Event | None]] = deque()
        self._busy = False  # a thread works for it, will do so soon, or an event that it waits for will see to that
        self._summoned = False  # threads were asked to work for it, and none has come
        self._error: BaseException | None = None
        self._awaited: Event | None = None  # what the rest of the queue follows
        self._worker: int | None = None  # the thread that works for it now
        self._forks = 0  # of the process in which it became busy

    def enqueue(self, work: Work) -> None:
        """Let `work(context)` run on another thread after what was queued before."""
        self.submit(lambda: work(current_context(self.place)))

    def submit(self, function: Callable[[], object]) -> None:
        """Call `function()` on another thread after what was queued before, unless that failed."""

        def run() -> None:
            if self._error is None:
                function()

        self._put(run)

    def record(self, event: Event) -> None:
        """Schedule `event`, which ends when the work that is queued now has ended, or fails if that failed."""
        event.schedule()

        def finish() -> None:
            event.finish(self._error)

        self._put(finish)

    def wait_for(self, event: Event) -> None:
        """Let what is queued from now on start after `event`, which may not be scheduled yet; fails where it fails."""
        if event.query():  # told now, since it may be reset before its turn comes
            error = event.error
            if error is not None:
                self._put(lambda: self._fail(error))
        else:
            self._put(lambda: event)

    def query(self) -> bool:
        """Whether the queue is empty and nobody works for it.

        Raises:
            UnavailableError: it was busy when this process was forked, as from all that waits for what is queued.
        """
        self._check_here()
        return not self._busy

    def _check_here(self) -> None:
        if self._busy and self._forks != PROCESS.forks:
            raise left_in_parent(f"work on stream {self.name}")

    def synchronize(self) -> None:
        """Block until all work that was queued has ended; raises what failed, which the stream then forgets.

        Raises:
            TazzaError: it is called by work on this stream, which would wait for itself.
        """
        if self._worker == threading.get_ident():
            raise TazzaError(
                f"work on stream {self.name} waits for its own stream", hint="synchronize where the work is queued"
            )
        event = Event()
        event.schedule()

        def finish() -> None:
            error, self._error = self._error, None
            event.finish(error)

        self._put(finish)
        event.wait()

    def recover(self) -> None:
        """Let what is queued from now on run, whatever fails of what was queued before."""

        def forget() -> None:
            self._error = None

        self._put(forget)

    def _put(self, item: Callable[[], Event | None]) -> None:
        self._check_here()
        with self._lock:
            self._queue.append(item)
            if self._busy:
                return
            self._busy, self._summoned, self._forks = True, True, PROCESS.forks
            try:
                self._pool.submit(self._drain)
            except (TazzaError, RuntimeError):
                self._busy = self._summoned = False
                self._queue.pop()  # who was idle has nothing else queued
                raise
            except BaseException:  # an interrupt: threads may know of it or not; who comes second finds nothing to do
                self._pool.submit(self._drain)
                raise

    def _drain(self) -> None:
        """Work the queue off, up to an event that has not ended; that then starts another thread."""
        with self._lock:
            if not self._summoned:
                return
            self._summoned = False
            self._worker = threading.get_ident()
        awaited = self._advance()
        if awaited is not None:
            awaited.on_done(self._resume)

    def _advance(self) -> Event | None:
        """Do what is queued; return the event that the rest has to wait for."""
        while True:
            with self._lock:
                if not self._queue:
                    self._worker = None
                    self._busy = False
                    return None
                item = self._queue.popleft()
            awaited = None
            try:
                awaited = item()
            except BaseException as error:
                self._fail(error)
            del item  # what it refers to is not kept while the stream waits
            if awaited is not None:
                if not awaited.query():
                    with self._lock:
                        self._worker, self._awaited = None, awaited
                    return awaited
                self._fail(awaited.error)

    def _resume(self, event: Event) -> None:
        with self._lock:
            if self._awaited is event:
                self._awaited, self._summoned = None, True
                self._fail(event.error)
        try:
            self._pool.submit(self._drain)
        except (TazzaError, RuntimeError) as error:  # the threads were closed, or there is none to be had
            self._fail(error)
            self._drain()  # with that error nothing runs any more, but events are told

    def _fail(self, error: BaseException | None) -> None:
        if self._error is None:
            self._error = error


_cpu_pools: dict[str, WorkerPool] = {}
"""By priority, for the life of the process."""


def _cpu_threads(priority: str) -> WorkerPool:
    found = _cpu_pools.get(priority)
    if found is None:
        made = WorkerPool(max(CPU_THREADS, allowed_cpus()), f"tazza-stream-{priority}")
        found = _cpu_pools.setdefault(priority, made)
    return found


STREAMS.register(CPU_KIND, HostStream, help="queues that threads work off")
