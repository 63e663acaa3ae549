"""Work of a CUDA device that is captured once, as a graph, and launched as one from then on.

The driver captures what is queued on a stream, which nothing runs on meanwhile. That stream belongs to the recorder
alone, so nobody else can queue on it, wait for it or ask it: each of that would end the capture. The mode is that of a
thread: what others do with the device meanwhile is theirs. What the capturing thread must not do then (take or give
back memory, ask, wait) is refused by the driver, and the capture fails as a whole.

What is garbage may be a handle of a library, whose end gives memory back, and the collector may end it in any thread
at any moment: so it rests while somebody captures, for some milliseconds, the time that the calls take which are
captured. What nobody refers to ends at once all the while, and memory of devices is given back later anyway.

A kernel that leaves word of what it found wrong leaves it as it does elsewhere; who looks is asked behind each launch.

State: a recorder is used by one thread at a time, and a graph is launched by whoever owns it; nothing else changes.

Source: CUDA driver API, sections "Stream Management" and "Graph Management"; CUDA C++ Programming Guide, "CUDA Graphs".
"""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from tazza.device.cuda.context import CUDAContext
from tazza.device.cuda.driver import end_with, new_handle
from tazza.device.cuda.event import CUDAEvent, Look
from tazza.device.cuda.stream import CUDAStream
from tazza.device.event import Event
from tazza.device.recorder import Recorder, Recording
from tazza.errors import KernelError
from tazza.runtime.fork import freed_in_child
from tazza.tensor import Allocation

_THREAD_LOCAL = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
_OWN = -1
"""The number of streams that come from no pool."""


class RecordingStream(CUDAStream):
    """A stream that is captured, and never runs.

    `looks` are what is asked behind each launch, `kept` what has to live as long as what was captured. `capturing` is
    set as long as the driver captures; numbers that are set at another time go where the work will run.
    """

    captures = True

    def __init__(self, launching: CUDAStream) -> None:
        """Make the driver's stream, which no pool knows; what is captured will be launched on `launching`."""
        super().__init__(launching.place, _OWN)
        self._launching = launching
        self.capturing = False
        self.looks: list[Look] = []
        self.kept: list[object] = []

    def workspace(self, name: str, nbytes: int) -> Allocation:
        """Return that of the stream where the work will run."""
        return self._launching.workspace(name, nbytes)

    def report(self, look: Look) -> None:
        """Ask `look()` behind each launch."""
        self.looks.append(look)

    def set_word(self, address: int, word: int) -> None:
        """Refuse while it is captured, since the number is that of this run."""
        if self.capturing:
            self._refuse("a number of the host")
        self._launching.set_word(address, word)

    def mark(self) -> CUDAEvent:
        """Refuse: it never ends."""
        self._refuse("an event")

    def submit(self, function: Callable[[], object]) -> None:
        """Refuse: a function of the host is the host's to call."""
        self._refuse("a function of the host")

    def wait_for(self, event: Event) -> None:
        """Refuse: the event is one of this run."""
        self._refuse("a wait")

    def _refuse(self, what: str) -> NoReturn:
        raise KernelError(f"{what} cannot be recorded on {self.place}")


class RecordingContext(CUDAContext):
    """A context on a stream that is captured."""

    def __init__(self, launching: CUDAStream) -> None:
        """Make the stream."""
        self.recorded = RecordingStream(launching)
        super().__init__(launching.place, self.recorded)

    def _copy_bytes(self, source: Allocation, target: Allocation) -> None:
        for span in (source, target):
            if span.place != self.place:  # what lies there then may be another thing each time
                raise KernelError(f"a copy from {source.place} to {target.place} cannot be recorded")
        queue = self.recorded
        self.device.call("cuMemcpyAsync", target.address, source.address, target.nbytes, queue.handle)
        queue.kept.append((source, target))


class CUDAGraph(Recording):
    """A graph that can be launched on the stream of a context."""

    def __init__(self, queue: CUDAStream, graph: int, looks: Sequence[Look], kept: object) -> None:
        """Let the driver make it ready.

        Raises:
            KernelError, OutOfMemoryError: the driver cannot.
        """
        device = queue.device
        count = ctypes.c_size_t()
        device.call("cuGraphGetNodes", graph, None, ctypes.byref(count))
        self._handle = new_handle(device.call, "cuGraphInstantiateWithFlags", graph, 0)
        self.operations = count.value
        self._queue, self._looks, self._kept = queue, tuple(looks), kept
        end_with(self, device.call, "cuGraphExecDestroy", self._handle)  # before what it was made of goes

    def queue(self) -> None:
        """Launch it."""
        self._queue.device.call("cuGraphLaunch", self._handle, self._queue.handle)
        if self._looks:
            self._queue.report(self._look)

    def _look(self) -> BaseException | None:
        """Ask all who look, so that each takes back what it found; return the first error."""
        found = [error for look in self._looks if (error := look()) is not None]
        return found[0] if found else None


class Uncollected:
    """A block within which no garbage is collected, in any thread; several threads may be in one at a time.

    State, under the lock: how many are in one, and whether garbage was collected before the first of them.
    """

    def __init__(self) -> None:
        """Have nobody in it."""
        self._lock = freed_in_child(threading.Lock())
        self._inside = 0
        self._collects = False

    def __enter__(self) -> None:
        """Switch collection off."""
        with self._lock:
            if self._inside == 0:
                self._collects = gc.isenabled()
                gc.disable()
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        """Switch it on again where it was, behind the last one."""
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._collects:
                gc.enable()


UNCOLLECTED = Uncollected()


class CUDARecorder(Recorder):
    """Captures graphs for the stream of a context."""

    def __init__(self, queue: CUDAStream) -> None:
        """Make a context of its own, whose stream is captured."""
        self._queue = queue
        self.own = RecordingContext(queue)
        self.context = self.own

    def record(self, work: Callable[[], object]) -> Recording:
        """See `Recorder`."""
        stream, device = self.own.recorded, self._queue.device
        stream.looks, stream.kept = [], []
        device.enter()
        try:
            with UNCOLLECTED, self._captured() as graph:
                work()
            try:
                return CUDAGraph(self._queue, graph[0], stream.looks, (work, self.own, stream.kept))
            finally:
                device.call("cuGraphDestroy", graph[0])
        finally:
            device.leave()

    @contextmanager
    def _captured(self) -> Generator[list[Any]]:
        """Capture what is queued until the block ends, and put the graph into the list; after an error none is left."""
        device, stream = self._queue.device, self.own.recorded.handle
        found: list[Any] = []
        device.call("cuStreamBeginCapture_v2", stream, _THREAD_LOCAL)
        graph = ctypes.c_void_p()
        self.own.recorded.capturing = True
        try:
            yield found
        except BaseException:
            device.ask("cuStreamEndCapture", stream, ctypes.byref(graph))
            if graph.value is not None:
                device.ask("cuGraphDestroy", graph)
            raise
        finally:
            self.own.recorded.capturing = False
        device.call("cuStreamEndCapture", stream, ctypes.byref(graph))
        found.append(graph)
