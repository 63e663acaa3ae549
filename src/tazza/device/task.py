"""Tasks: pieces of work that a scheduler has put on streams; see scheduler.py.

State: what a task writes about its own run (`error`, `skipped`, times) is read when its event `ended` has ended; all
else of tasks and lanes changes under the lock of their scheduler.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tazza.device.context import Context
from tazza.device.event import DeviceEvent, Event
from tazza.device.stream import Stream, Work

FLOPS_PER_S, BYTES_PER_S, WORK_S = 50e9, 10e9, 10e-6
"""What a stream is taken to do in a second, and a piece of work to cost beside: only for comparing what is queued."""


class SpanSink(Protocol):
    """What keeps spans of time, such as a `Timeline` of `tazza.observers`."""

    def add(
        self,
        lane: str,
        name: str,
        start_s: float,
        end_s: float,
        *,
        kind: str = ...,
        flops: int = ...,
        nbytes: int = ...,
    ) -> None:
        """Add what a lane did from `start_s` to `end_s` on the clock `time.perf_counter`; called from any thread."""
        ...


@dataclass(slots=True)
class LaneMetrics:
    """What one stream has done: work that ended, and waits that were inserted."""

    name: str
    works: int = 0
    waits: int = 0
    flops: int = 0
    nbytes: int = 0
    busy_s: float = 0.0
    """Time in which work ran; on a device, as its host saw it."""

    def add(self, other: LaneMetrics) -> None:
        """Add what another stream has done."""
        self.works += other.works
        self.waits += other.waits
        self.flops += other.flops
        self.nbytes += other.nbytes
        self.busy_s += other.busy_s


class Lane:
    """A stream, and the work on it that has not been seen to have ended."""

    def __init__(self, index: int, stream: Stream, name: str, *, shared: bool) -> None:
        """Made by a scheduler; work is put on a lane that is not `shared` only where it is named."""
        self.index = index
        self.stream = stream
        self.shared = shared
        self.closed = False
        self.metrics = LaneMetrics(name)
        self.pending: deque[Job] = deque()
        self.load_s = 0.0
        self.position = 0
        self.clock: dict[int, int] = {}
        self.last_end_s = 0.0

    def __repr__(self) -> str:
        return f"Lane({self.metrics.name}, {len(self.pending)} pending)"


@dataclass(frozen=True, slots=True)
class Load:
    """What a piece of work is, for those who measure."""

    name: str
    kind: str
    flops: int
    nbytes: int

    @property
    def guess_s(self) -> float:
        """Seconds that it may take, for comparing streams."""
        return WORK_S + self.flops / FLOPS_PER_S + self.nbytes / BYTES_PER_S


class Job:
    """One piece of work on its lane."""

    __slots__ = (
        "after", "broken", "called", "clock", "end_s", "ended", "error", "forgotten", "lane", "load", "position",
        "serial", "sink", "skipped", "start_s", "thread", "waits", "work",
    )  # fmt: skip

    def __init__(self, serial: int, work: Work, load: Load, after: Sequence[Job], lane: Lane) -> None:
        self.serial = serial
        self.work: Work | None = work
        self.load = load
        self.after = after
        self.lane = lane
        self.position = 0
        self.clock: dict[int, int] = {}
        self.waits: list[Job] = []
        self.sink: SpanSink | None = None
        self.ended = Event()
        """The stream has come past it; whether in success is up to `failure`."""
        self.error: BaseException | None = None
        self.called = self.skipped = self.broken = self.forgotten = False
        self.thread: int | None = None
        self.start_s = self.end_s = 0.0

    def failure(self) -> BaseException | None:
        """Return what it, what it depends on, or its stream failed with; to be asked when it has ended."""
        return self.error if self.error is not None else self.ended.error

    def run(self, context: Context) -> None:
        """Do the work, unless something that it depends on failed; raises nothing, so that the stream goes on."""
        assert self.work is not None, "runs once"
        self.thread = threading.get_ident()
        self.start_s = time.perf_counter()
        try:
            self.error = next((error for task in self.after if (error := task.failure()) is not None), None)
            self.skipped = self.error is not None
            if not self.skipped:
                self.work(context)
        except BaseException as error:  # whoever waits for the event or joins gets it
            self.error = error
        self.end_s = time.perf_counter()
        if context.place.is_host:
            self.show()
        self.called = True
        self.thread = None
        self.drop()

    def show(self) -> None:
        """Give the spans of the run to who keeps them."""
        lane, name = self.lane, self.lane.metrics.name
        if self.sink is not None and not self.skipped:
            if self.waits:
                others = ", ".join(task.load.name for task in self.waits)
                since_s = min(max(self.ended.scheduled_s, lane.last_end_s), self.start_s)
                self.sink.add(name, f"wait for {others}", since_s, self.start_s, kind="wait")
            load = self.load
            self.sink.add(
                name, load.name, self.start_s, self.end_s, kind=load.kind, flops=load.flops, nbytes=load.nbytes
            )
        lane.last_end_s = self.end_s

    def drop(self) -> None:
        """Let go of what only the run needs."""
        self.work = None
        self.after = ()
        self.waits = []


class TaskEnd(DeviceEvent):
    """The end of a task, in success or not, as an event that nobody has to look at before someone asks."""

    __slots__ = ("task",)

    def __init__(self, task: Job) -> None:
        self.task = task

    def query(self) -> bool:
        """Whether it has ended; raises what it failed with."""
        if not self.task.ended.query():
            return False
        self._check()
        return True

    def wait(self) -> None:
        """Block until it has ended; raises what it failed with."""
        self.task.ended.wait()
        self._check()

    def _check(self) -> None:
        error = self.task.failure()
        if error is not None:
            raise error

    def notify(self, callback: Callable[[], None]) -> None:
        """Call back when it has ended."""
        self.task.ended.on_done(lambda _: callback())

    def elapsed_s(self, since: DeviceEvent) -> float | None:
        """Return the seconds since the end of another task."""
        return self.task.ended.elapsed_s(since.task.ended) if isinstance(since, TaskEnd) else None
