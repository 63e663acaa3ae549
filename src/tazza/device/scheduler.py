"""The scheduler: puts work on streams, with exactly the waits between them that the work needs.

    with Scheduler(CPUPlace(), streams=4) as scheduler:
        scheduler.schedule(fill, writes=[x]); scheduler.schedule(double, reads=[x], writes=[y])

Who says what each piece of work reads and writes gets the results of doing all of it in order, though what is
independent overlaps. Work that goes on with what a stream has written last stays on that stream; other work goes to the
stream with the least to do. A wait is inserted where work depends on work of another stream, unless that has ended or
the stream has waited already for it, or for what came after it.

A failure stays with those that depend on it: they do not run, and their events fail with the same error; other work
goes on. `join` waits for all, raises the failure of the work that was scheduled first, and forgets it.
What a device was given cannot be taken back: there, what was queued before a failure is known runs.

State: everything changes under `_lock`, but for what a `_Task` writes about its own run, which is read when its event
has ended. A lane is a stream and what is queued on it, in order; `clock` says how far it has waited for each lane, as
vector clocks do. A task is forgotten when the scheduler next looks and finds that it ended well: work that failed, and
work that did not run because of it, is kept until `join`.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Hashable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Self

from tazza.device.context import Context, current_context
from tazza.device.event import Event
from tazza.device.hazards import Hazards, Variable, variables_of
from tazza.device.stream import Stream, Work, stream_pool
from tazza.device.task import Job, Lane, LaneMetrics, Load, SpanSink, TaskEnd
from tazza.errors import ArgumentError, TazzaError
from tazza.runtime.fork import freed_in_child
from tazza.runtime.log import logger
from tazza.runtime.threads import at_most_threads
from tazza.tensor import CPUPlace, Place

STREAMS_DEFAULT = 4


@dataclass(frozen=True, slots=True)
class Metrics:
    """What a scheduler has done; works that failed or did not run are not among those of the lanes."""

    lanes: tuple[LaneMetrics, ...]
    failed: int
    skipped: int
    """Works that did not run, since they depend on one that failed."""

    @property
    def works(self) -> int:
        """Works that ended well."""
        return sum(lane.works for lane in self.lanes)

    @property
    def waits(self) -> int:
        """Waits that were inserted between streams."""
        return sum(lane.waits for lane in self.lanes)

    @property
    def flops(self) -> int:
        """Floating point operations of these works."""
        return sum(lane.flops for lane in self.lanes)

    @property
    def nbytes(self) -> int:
        """Bytes that these works moved."""
        return sum(lane.nbytes for lane in self.lanes)

    @property
    def busy_s(self) -> float:
        """Time in which work ran, of all streams together."""
        return sum(lane.busy_s for lane in self.lanes)


class Scheduler:
    """Puts work on streams of one place; thread-safe.

    >>> cup: list[str] = []
    >>> with Scheduler(streams=2) as scheduler:
    ...     _ = scheduler.schedule(lambda context: cup.append("milk"), writes=["cup"])
    ...     _ = scheduler.schedule(lambda context: cup.append("coffee"), reads=["cup"], writes=["cup"])
    >>> cup, scheduler.metrics.works
    (['milk', 'coffee'], 2)
    """

    def __init__(
        self,
        place: Place | None = None,
        streams: int | Sequence[Stream] = STREAMS_DEFAULT,
        *,
        threads: int = 0,
        timeline: SpanSink | None = None,
    ) -> None:
        """Take streams of `place` (default: the CPU) from its pool, or these.

        Args:
            place: where all work runs.
            streams: how many, 1 or more; or the streams themselves, all different and of that place.
            threads: bound of `thread_count()` in each piece of work; 0: none.
            timeline: gets a span of each piece of work, and one of each time that a stream waited for another.

        Raises:
            ArgumentError: no stream, one of another place, or one given twice.
            UnavailableError: there is no such device.
        """
        self.place = CPUPlace() if place is None else place
        self.threads = threads
        self.timeline = timeline
        self._lock = freed_in_child(
            threading.RLock()
        )  # taken again by work that schedules while it is queued, which is refused
        self._queueing = False
        self._serials, self._indices = itertools.count(1), itertools.count()
        self._hazards: Hazards[Job] = Hazards()
        self._lanes: list[Lane] = []
        self._removed: dict[str, LaneMetrics] = {}
        self._failed = self._skipped = 0
        self._failure: Job | None = None
        self._streams_failed = False  # by something else than our work, which lets its stream go on
        taken = [stream_pool(self.place).take() for _ in range(streams)] if isinstance(streams, int) else streams
        if not taken:
            raise ArgumentError("a scheduler has 0 streams", hint="give 1 or more")
        for stream in taken:
            self.add_lane(stream)

    def __repr__(self) -> str:
        return f"Scheduler({self.place}, {len(self._lanes)} streams, {len(self)} pending)"

    def __len__(self) -> int:
        """Return the number of works that have not ended."""
        with self._lock:
            self._look()
            return sum(len(lane.pending) for lane in self._lanes)

    def add_lane(self, stream: Stream, name: str | None = None, *, shared: bool = True) -> Lane:
        """Use one more stream, under its own name or another; not `shared`: only for work that asks for this lane.

        Raises:
            ArgumentError: the stream is of another place, or is used already.
        """
        if stream.place != self.place:
            raise ArgumentError(f"stream {stream.name} is at {stream.place}, the scheduler at {self.place}")
        with self._lock:
            if any(lane.stream is stream and not lane.closed for lane in self._lanes):
                raise ArgumentError(
                    f"stream {stream.name} is used by this scheduler already", hint="a pool hands out 32, then again"
                )
            lane = Lane(next(self._indices), stream, stream.name if name is None else name, shared=shared)
            self._lanes.append(lane)
        return lane

    def remove_lane(self, lane: Lane) -> None:
        """Wait for all work of a lane and use its stream no more; nothing where that was done before.

        What it has done stays in `metrics`. At least one shared lane has to stay.

        Raises:
            ArgumentError: it is the last shared lane.
            TazzaError: it is called by work of this scheduler.
        """
        with self._lock:
            if lane.closed:
                return
            if lane.shared and sum(other.shared and not other.closed for other in self._lanes) == 1:
                raise ArgumentError(f"{lane} is the last one of its scheduler", hint="let go of the scheduler itself")
            last = list(lane.pending)[-1:]
            self._check_outside()
            lane.closed = True
        self._await(last)
        with self._lock:
            self._look()
            self._lanes.remove(lane)
            self._removed.setdefault(lane.metrics.name, LaneMetrics(lane.metrics.name)).add(lane.metrics)
            for other in self._lanes:
                other.clock.pop(lane.index, None)

    # -- scheduling ----------------------------------------------------------------------------------------------------

    def schedule(
        self,
        work: Work,
        reads: Iterable[Variable] = (),
        writes: Iterable[Variable] = (),
        *,
        flops: int = 0,
        nbytes: int = 0,
        name: str = "",
        kind: str = "compute",
        lane: Lane | None = None,
    ) -> Event:
        """Let `work(context)` run after all earlier work that it must come after; returns the event of its end.

        On the CPU it runs on another thread. On a device it is called now, and queues on the stream of its context.
        Tensors that it uses are not resized by others before it has ended.

        Args:
            work: gets the context of its place and stream.
            reads: variables: tensors, storages, or anything hashable such as a name.
            writes: variables; what is changed in place may be named in both.
            flops: floating point operations that it takes, for balance and metrics.
            nbytes: bytes that it moves, likewise.
            name: what spans and messages call it.
            kind: of its span, compute or copy.
            lane: where to run it; by default the scheduler picks.

        Raises:
            ArgumentError: a variable is not hashable, or the lane is of another scheduler.
            TazzaError: it is called by work that is being queued on a device.
        """
        read, written = variables_of(reads), variables_of(writes)
        load = Load(name if name else getattr(work, "__name__", type(work).__name__), kind, flops, nbytes)
        with self._lock:
            if self._queueing:
                raise TazzaError(f"{load.name}: scheduled by work that is being queued", hint="schedule it afterwards")
            self._look()
            if lane is None:
                lane = self._pick(read)
            elif lane not in self._lanes or lane.closed:
                raise ArgumentError(f"{lane} is not one of this scheduler", hint="take what its add_lane returned")
            after = self._hazards.before(read, written)
            bounded = partial(_bounded, work, self.threads) if self.threads else work
            task = Job(next(self._serials), bounded, load, after, lane)
            self._queue(task)
            self._hazards.note(task, read, written)
        if task.called and task.error is None:
            return task.ended  # on a device: its own event, for which streams can wait without the host
        event = Event()
        event.schedule(TaskEnd(task))
        return event

    def _pick(self, read: Iterable[Hashable]) -> Lane:
        """Return the lane whose last work alone wrote what is read, else the one with the least to do."""
        lanes = {writer.lane for writer in self._hazards.writers(read) if not writer.ended.query()}
        shared = [lane for lane in self._lanes if lane.shared and not lane.closed]
        if len(lanes) == 1:
            (lane,) = lanes
            if lane in shared and lane.pending[-1] in self._hazards.writers(read):
                return lane
        return min(shared, key=lambda lane: lane.load_s)

    def _queue(self, task: Job) -> None:
        """Put a task on its lane, after the waits that it needs and has not got."""
        lane = task.lane
        for other in task.after:  # the latest first: it may have waited for earlier ones, never the other way round
            if other.lane is lane or lane.clock.get(other.lane.index, 0) >= other.position or other.ended.query():
                continue
            lane.stream.wait_for(other.ended)
            lane.metrics.waits += 1
            task.waits.append(other)
            for index, position in other.clock.items():
                lane.clock[index] = max(lane.clock.get(index, 0), position)
        lane.position += 1
        lane.clock[lane.index] = task.position = lane.position
        task.clock = dict(lane.clock)
        task.sink = self.timeline
        self._queueing = True
        try:
            lane.stream.enqueue(task.run)
            lane.stream.record(task.ended)
        finally:
            self._queueing = False
        lane.pending.append(task)
        lane.load_s += task.load.guess_s
        if self.timeline is not None and not self.place.is_host:
            task.ended.on_done(_seen)

    # -- looking at what has ended -------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Account for all work that has ended."""
        for lane in self._lanes:
            while lane.pending and lane.pending[0].ended.query():
                task = lane.pending.popleft()
                lane.load_s = lane.load_s - task.load.guess_s if lane.pending else 0.0
                self._account(task)

    def _account(self, task: Job) -> None:
        error = task.failure()
        if error is not None:
            task.broken = True
            self._streams_failed |= task.ended.error is not None
            self._skipped += task.skipped
            self._failed += not task.skipped
            if not task.skipped and (self._failure is None or task.serial < self._failure.serial):
                self._failure = task
        else:
            if not self.place.is_host:  # `run` has only queued it
                task.start_s = max(task.ended.scheduled_s, task.lane.last_end_s)
                task.end_s = max(task.start_s, task.ended.finished_s)
                task.show()
            metrics = task.lane.metrics
            metrics.works += 1
            metrics.flops += task.load.flops
            metrics.nbytes += task.load.nbytes
            metrics.busy_s += task.end_s - task.start_s
            task.forgotten = True
        task.drop()

    @property
    def metrics(self) -> Metrics:
        """What was done so far, as a copy."""
        with self._lock:
            self._look()
            lanes = [*(lane.metrics for lane in self._lanes), *self._removed.values()]
            return Metrics(tuple(replace(lane) for lane in lanes), self._failed, self._skipped)

    # -- waiting -------------------------------------------------------------------------------------------------------

    def wait(self, variable: Variable, *others: Variable) -> None:
        """Block until what was scheduled to write these variables has ended; raises what it failed with.

        Raises:
            TazzaError: it is called by work of this scheduler.
        """
        with self._lock:
            self._look()
            writers = self._hazards.writers(variables_of((variable, *others)))
        self._await(writers)
        for writer in reversed(writers):
            error = writer.failure()
            if error is not None:
                raise error

    def join(self) -> None:
        """Block until all work that was scheduled has ended; raises the first failure, and forgets all of them.

        The first is that of the work that was scheduled first, whichever failed first.

        Raises:
            TazzaError: it is called by work of this scheduler.
        """
        with self._lock:
            last = [lane.pending[-1] for lane in self._lanes if lane.pending]
        self._await(last)
        with self._lock:
            self._look()
            failure, self._failure = self._failure, None
            self._hazards.forget_broken()
            if self._streams_failed:
                self._streams_failed = False
                for lane in self._lanes:
                    lane.stream.recover()
        error = None if failure is None else failure.failure()
        if failure is not None and error is not None:
            note = f"in work {failure.load.name!r} on {failure.lane.metrics.name}"
            error.add_context(note) if isinstance(error, TazzaError) else error.add_note(note)
            raise error

    def _await(self, tasks: Iterable[Job]) -> None:
        with self._lock:
            self._check_outside()
        for task in tasks:
            with suppress(Exception):  # `failure` tells
                task.ended.wait()

    def _check_outside(self) -> None:
        for task in (task for lane in self._lanes for task in lane.pending):
            if task.thread == threading.get_ident():
                raise TazzaError(f"work {task.load.name!r} waits for the scheduler that runs it", hint="return first")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Join; when the block raised, a failure of work is logged instead."""
        try:
            self.join()
        except Exception:
            if error is None:
                raise
            logger.exception("work failed as well")


def _bounded(work: Work, threads: int, context: Context) -> None:
    with at_most_threads(threads):
        work(current_context(context.place))


def _seen(event: Event) -> None:
    """Do nothing: that somebody is called makes the host see the end of an event when it comes."""
