"""Streams: in-order queues of work on a device, and the pools that they come from.

    stream = stream_pool(CPUPlace()).take(); stream.enqueue(work); stream.record(event); other.wait_for(event)

Each device has a pool of `POOL_SIZE` streams of each of two priorities, made when they are first taken, once, and
handed out in turn; and a default stream. A thread has a current stream for each place (`streaming`), at first the
default one of a device, and none on the CPU, where work that names no stream runs at once in the calling thread.

CPU streams have no thread of their own: what is queued is done by threads that all streams share, one piece of a stream
at a time, and a stream that waits for an event holds no thread. Each priority has threads of its own, so that work of
high priority never queues behind other work. A piece of work that fails makes the stream *failed*: what follows is
skipped, events that are recorded later fail with the same error, as do streams that wait for them, until `synchronize`
raises the error and so ends the failure, or `recover` drops it.

State: a CPU stream's queue and flags change under its lock; a pool's list of streams under the pool's. `_error` is
written by whoever works the queue off, of whom there is one at a time: forgetting a failure is a piece of work too, so
that it ends what was queued before it and nothing else. In a forked child the pools start anew: what was queued belongs
to the parent.
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from tazza.device.event import Event
from tazza.device.initializer import listed_kinds, load_kind
from tazza.errors import TazzaError, UnavailableError
from tazza.registry import Registry
from tazza.runtime.fork import PROCESS, freed_in_child, in_forked_child, left_in_parent
from tazza.runtime.holding import InForce
from tazza.runtime.threads import allowed_cpus
from tazza.runtime.workers import WorkerPool
from tazza.tensor import Place
from tazza.tensor.place import CPU_KIND

if TYPE_CHECKING:
    from tazza.device.context import Context

POOL_SIZE = 32
"""Streams of each priority that a device has."""
PRIORITIES = ("normal", "high")
CPU_THREADS = 8
"""Threads that work for CPU streams, at the least: some of that work waits rather than computes."""

Work = Callable[["Context"], object]


class Stream(ABC):
    """An in-order queue of work at `place`; thread-safe. `number` tells streams of one place and priority apart."""

    def __init__(self, place: Place, number: int, priority: str = "normal") -> None:
        """Made by pools; see `stream_pool`."""
        self.place = place
        self.number = number
        self.priority = priority

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    @property
    def name(self) -> str:
        """What tells it apart, such as `cuda:0 high 3`."""
        return f"{self.place} {self.priority} {self.number}"

    def enqueue(self, work: Work) -> None:
        """Let what `work(context)` does run after what was queued before.

        A device's stream calls it at once, with a context of the calling thread that queues on this stream; a CPU
        stream calls it later, on another thread.
        """
        from tazza.device.context import current_context

        with streaming(self):
            work(current_context(self.place))

    @abstractmethod
    def submit(self, function: Callable[[], object]) -> None:
        """Call `function()` on some thread of the host after what was queued before."""

    @abstractmethod
    def record(self, event: Event) -> None:
        """Schedule `event`, which ends when the work that is queued now has ended.

        Raises:
            TazzaError: the event is not in the state `initialized`.
        """

    @abstractmethod
    def wait_for(self, event: Event) -> None:
        """Let what is queued from now on start after `event`; blocks nobody."""

    @abstractmethod
    def query(self) -> bool:
        """Whether all work that was queued has ended."""

    def synchronize(self) -> None:
        """Block until all work that was queued has ended; raises what failed, which the stream then forgets."""
        event = Event()
        self.record(event)
        try:
            event.wait()
        finally:
            self.recover()

    @abstractmethod
    def recover(self) -> None:
        """Let what is queued from now on run, whatever fails of what was queued before; blocks nobody."""


class CPUStream(Stream):
    """A queue that threads of the process work off.

    >>> from tazza.tensor import CPUPlace
    >>> stream = CPUStream(CPUPlace(), 0)
    >>> stream.enqueue(lambda context: print(context.place)); stream.synchronize()
    cpu
    """

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
        from tazza.device.context import current_context

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


STREAMS: Registry[str, Callable[[Place, int, str], Stream]] = Registry(
    "kind of place with streams", loader=load_kind, listed=listed_kinds
)
"""Makes a stream of a kind of place: `(place, number, priority)`; raises `UnavailableError` where the device is not."""
STREAMS.register(CPU_KIND, CPUStream, help="queues that threads work off")


class StreamPool:
    """The streams of one place."""

    def __init__(self, place: Place) -> None:
        """Make no stream yet.

        Raises:
            UnavailableError: places of this kind have no streams.
        """
        create = STREAMS.get(place.kind)
        if create is None:
            raise UnavailableError(f"{place} has no streams", hint=f"places that have: {', '.join(STREAMS)}")
        self.place = place
        self._create = create
        self._lock = freed_in_child(threading.Lock())
        self._turns = {priority: itertools.cycle(range(1, POOL_SIZE + 1)) for priority in PRIORITIES}
        self._made: dict[tuple[str, int], Stream] = {}

    @property
    def default(self) -> Stream:
        """The stream of work that asks for none in particular."""
        with self._lock:
            return self._stream(PRIORITIES[0], 0)

    def take(self, priority: str = "normal") -> Stream:
        """Return the next stream in turn; after `POOL_SIZE` calls the first one comes again.

        Raises:
            UnavailableError: no such priority.
        """
        if priority not in self._turns:
            raise UnavailableError(f"no streams of priority {priority!r}", hint=f"there are {', '.join(PRIORITIES)}")
        with self._lock:
            return self._stream(priority, next(self._turns[priority]))

    def __len__(self) -> int:
        """Return the number of streams that were made."""
        return len(self._made)

    def made(self) -> list[Stream]:
        """Return the streams that were made."""
        return list(self._made.values())

    def _stream(self, priority: str, number: int) -> Stream:
        if (priority, number) not in self._made:
            self._made[priority, number] = self._create(self.place, number, priority)
        return self._made[priority, number]


_pools_lock = freed_in_child(threading.Lock())
_pools: dict[Place, StreamPool] = {}


def _leave_fork() -> None:
    global _pools_lock
    _pools_lock = freed_in_child(threading.Lock())
    _pools.clear()
    _current.streams.clear()


in_forked_child(_leave_fork)


def stream_pool(place: Place) -> StreamPool:
    """Return the streams of a place.

    Raises:
        UnavailableError: it has none.
    """
    with _pools_lock:
        if place not in _pools:
            _pools[place] = StreamPool(place)
        return _pools[place]


class _Current(threading.local):
    def __init__(self) -> None:
        self.streams: dict[Place, streaming] = {}


_current = _Current()


def current_stream(place: Place) -> Stream | None:
    """Return this thread's stream at a place: that of the innermost `streaming`, else the default one.

    None on the CPU outside of `streaming`: work then runs at once, in the calling thread.
    """
    streams = _current.streams
    innermost = streams.get(place) if streams else None  # a place is hashed in Python
    found = None if innermost is None else innermost.living()
    if found is not None:
        return found.stream
    return stream_pool(place).default if not place.is_host and place.kind in STREAMS else None


class streaming(InForce):
    """Make `stream` the thread's current one at its place, and put the former back on exit, on errors too.

    >>> from tazza.tensor import CPUPlace
    >>> with streaming(stream_pool(CPUPlace()).default) as stream:
    ...     current_stream(CPUPlace()) is stream
    True
    """

    def __init__(self, stream: Stream) -> None:
        """Nothing changes before the block is entered."""
        self.stream = stream

    def __enter__(self) -> Stream:
        """Switch."""
        streams, place = _current.streams, self.stream.place
        innermost = streams.get(place)
        self.begin(None if innermost is None else innermost.living())
        streams[place] = self
        return self.stream
