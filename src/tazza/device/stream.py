"""Streams: in-order queues of work on a device, and the pools that they come from.

    stream = stream_pool(CUDAPlace(0)).take(); stream.enqueue(work); stream.record(event); other.wait_for(event)

Each device has a pool of `POOL_SIZE` streams of each of two priorities, made when they are first taken, once, and
handed out in turn; and a default stream. A thread has a current stream for each place (`streaming`), at first the
default one of a device, and none on the CPU, where work that names no stream runs at once in the calling thread.

Work that fails makes a stream *failed*: what follows is skipped, events that are recorded later fail with the same
error, as do streams that wait for them, until `synchronize` raises the error and so ends the failure, or `recover`
drops it.

State: a pool's list of streams changes under its lock. In a forked child the pools start anew: what was queued belongs
to the parent.
"""

from __future__ import annotations

import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from tazza.device.event import Event, recorded
from tazza.device.initializer import listed_kinds, load_kind
from tazza.errors import UnavailableError
from tazza.registry import Registry
from tazza.runtime.fork import freed_in_child, in_forked_child
from tazza.runtime.holding import InForce
from tazza.tensor import Place

if TYPE_CHECKING:
    from tazza.device.context import Context

POOL_SIZE = 32
"""Streams of each priority that a device has."""
PRIORITIES = ("normal", "high")

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

        It is called at once, with a context of the calling thread that queues on this stream.
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
        event = recorded(self)
        try:
            event.wait()
        finally:
            self.recover()

    @abstractmethod
    def recover(self) -> None:
        """Let what is queued from now on run, whatever fails of what was queued before; blocks nobody."""


STREAMS: Registry[str, Callable[[Place, int, str], Stream]] = Registry(
    "kind of place with streams", loader=load_kind, listed=listed_kinds
)
"""Makes a stream of a kind of place: `(place, number, priority)`; raises `UnavailableError` where the device is not."""


def maker_of(place: Place) -> Callable[[Place, int, str], Stream]:
    """Return what makes streams of a place.

    Raises:
        UnavailableError: places of this kind have no streams.
    """
    create = STREAMS.get(place.kind)
    if create is None:
        raise UnavailableError(f"{place} has no streams", hint=f"places that have: {', '.join(STREAMS)}")
    return create


class StreamPool:
    """The streams of one place."""

    def __init__(self, place: Place) -> None:
        """Make no stream yet.

        Raises:
            UnavailableError: places of this kind have no streams.
        """
        self.place = place
        self._create = maker_of(place)
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

    None on the CPU: work runs at once there, in the calling thread.
    """
    streams = _current.streams
    innermost = streams.get(place) if streams else None  # a place is hashed in Python
    found = None if innermost is None else innermost.living()
    if found is not None:
        return found.stream
    return stream_pool(place).default if not place.is_host and place.kind in STREAMS else None


class streaming(InForce):
    """Make `stream` the thread's current one at its place, and put the former back on exit, on errors too.

    Example::

        with streaming(stream_pool(CUDAPlace(0)).take()):
            net.run()
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
