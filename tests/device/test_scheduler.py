"""The scheduler, case by case: hazards, choice of streams, failures, spans, leaks."""

from __future__ import annotations

import gc
import itertools
import threading
import time
import weakref

import numpy as np
import pytest

from tazza.device import Context, CPUStream, Event, EventState, Stream
from tazza.device.scheduler import Scheduler
from tazza.device.stream import Work
from tazza.errors import ArgumentError, KernelError, TazzaError
from tazza.observers.timeline import SpanKind, Timeline
from tazza.runtime.threads import thread_count
from tazza.tensor import CPUPlace, CUDAPlace, Tensor
from tests.device.watched import LIMIT_S, Cell, WatchedStream, held, nothing, own_streams

# -- waits -------------------------------------------------------------------------------------------------------------


def waits_of(*accesses: tuple[str, str]) -> int:
    """Return the waits between works on 8 streams, each given as (what it reads, what it writes)."""
    streams = own_streams(8)
    scheduler = Scheduler(streams=streams)
    with held(streams):
        for reads, writes in accesses:
            scheduler.schedule(nothing, reads, writes)
    scheduler.join()
    return scheduler.metrics.waits


def test_each_hazard_by_hand() -> None:
    assert waits_of(("", "x"), ("x", "y"), ("y", "z")) == 0, "a chain stays on its stream"
    assert waits_of(("", "x"), ("", "y"), ("", "z")) == 0, "independent"
    assert waits_of(("x", ""), ("x", ""), ("x", "")) == 0, "readers of one variable"
    assert waits_of(("", "x"), ("x", "y"), ("x", "z")) == 1, "read after write, by a second reader"
    assert waits_of(("x", ""), ("x", ""), ("", "x")) == 2, "write after two reads"
    assert waits_of(("", "x"), ("", "x")) == 1, "write after write"
    assert waits_of(("", "x"), ("", "y"), ("xy", "z")) == 2, "read after two writes"
    assert waits_of(("", "x"), ("", "x"), ("", "x")) == 2, "the third waits for the second alone"
    assert waits_of(("", "x"), ("x", "y"), ("x", "z"), ("z", "z"), ("xz", "z")) == 2, "z comes after x"


def test_nobody_waits_for_what_has_ended() -> None:
    scheduler = Scheduler(streams=own_streams(2))
    scheduler.schedule(nothing, (), "x").wait(LIMIT_S)
    scheduler.schedule(nothing, (), "y").wait(LIMIT_S)
    scheduler.schedule(nothing, "xy", "z")
    scheduler.join()
    assert scheduler.metrics.waits == 0


# -- choosing streams --------------------------------------------------------------------------------------------------


def lanes_of(*works: tuple[str, str, int, int]) -> list[int]:
    """Return the streams that works go to, of three: each given as (reads, writes, flops, bytes)."""
    log: list[tuple[str, int, Event | None]] = []
    streams = [WatchedStream(number, log) for number in range(3)]
    scheduler = Scheduler(streams=streams)
    with held(streams):
        for reads, writes, flops, nbytes in works:
            scheduler.schedule(nothing, reads, writes, flops=flops, nbytes=nbytes)
    scheduler.join()
    assert scheduler.metrics.flops == sum(flops for _, _, flops, _ in works)
    assert scheduler.metrics.nbytes == sum(nbytes for _, _, _, nbytes in works)
    return [number for what, number, _ in log if what == "work"]


def test_work_goes_where_the_least_is_queued() -> None:
    large, small = 10**9, 10**6
    assert lanes_of(("", "a", 0, 0), ("", "b", 0, 0), ("", "c", 0, 0)) == [0, 1, 2]
    assert lanes_of(("", "a", large, 0), ("", "b", small, 0), ("", "c", 0, large), ("", "d", 0, 0)) == [0, 1, 2, 1]


def test_work_goes_on_where_its_input_was_written() -> None:
    assert lanes_of(("", "a", 10**9, 0), ("a", "b", 0, 0), ("b", "c", 0, 0)) == [0, 0, 0]
    assert lanes_of(("", "a", 1, 0), ("", "b", 1, 0), ("ab", "c", 0, 0)) == [0, 1, 2], "two writers"
    assert lanes_of(("", "a", 1, 0), ("a", "b", 1, 0), ("a", "c", 0, 0)) == [0, 0, 1], "another went on already"


def test_work_can_be_put_on_a_lane_of_its_own() -> None:
    log: list[tuple[str, int, Event | None]] = []
    scheduler = Scheduler(streams=[WatchedStream(0, log), WatchedStream(1, log)])
    own = WatchedStream(7, log)
    lane = scheduler.add_lane(own, "mine", shared=False)
    for _ in range(4):
        scheduler.schedule(nothing)
    assert {number for _, number, _ in log} == {0, 1}
    scheduler.schedule(nothing, lane=lane)
    assert log[-1][1] == 7
    with pytest.raises(ArgumentError, match="used by this scheduler already"):
        scheduler.add_lane(own)
    scheduler.remove_lane(lane)
    with pytest.raises(ArgumentError, match="is not one of this scheduler"):
        scheduler.schedule(nothing, lane=lane)
    assert {lane.name: lane.works for lane in scheduler.metrics.lanes}["mine"] == 1
    scheduler.add_lane(own)


def test_mistakes_are_named() -> None:
    with pytest.raises(ArgumentError, match="has 0 streams"):
        Scheduler(streams=0)
    with pytest.raises(ArgumentError, match="is at cpu, the scheduler at cuda:0"):
        Scheduler(CUDAPlace(0), own_streams(1))
    scheduler = Scheduler(streams=1)
    with pytest.raises(ArgumentError, match="list is not hashable"):
        scheduler.schedule(nothing, [["x"]])  # pyright: ignore[reportArgumentType] -- that is the mistake
    other = Scheduler(streams=own_streams(1)).add_lane(own_streams(1)[0])
    with pytest.raises(ArgumentError, match="is not one of this scheduler"):
        scheduler.schedule(nothing, lane=other)
    assert (len(scheduler), scheduler.metrics.works) == (0, 0)
    lane = Scheduler(streams=1)
    with pytest.raises(ArgumentError, match="is the last one"):
        lane.remove_lane(lane._lanes[0])  # pyright: ignore[reportPrivateUsage] -- nobody has the lanes of the pool


# -- variables, contexts, waiting --------------------------------------------------------------------------------------


def test_views_of_one_storage_are_one_variable() -> None:
    x = Tensor.from_numpy(np.zeros((2, 3), np.float32))
    row, same = x[1], Tensor.from_numpy(np.zeros((2, 3), np.float32))
    streams = own_streams(3)
    scheduler = Scheduler(streams=streams)
    order: list[str] = []
    with held(streams):
        scheduler.schedule(lambda context: order.append("x"), (), [x])
        scheduler.schedule(nothing, (), [same])
        scheduler.schedule(lambda context: order.append("row"), (), [row])
        scheduler.schedule(lambda context: order.append("storage"), (), [x.storage])
    scheduler.join()
    assert order == ["x", "row", "storage"]
    assert scheduler.metrics.waits == 2


def test_work_gets_a_context_and_as_many_threads_as_it_may_have() -> None:
    found: list[tuple[str, int]] = []
    for threads in (0, 1):
        with Scheduler(streams=1, threads=threads) as scheduler:
            scheduler.schedule(lambda context: found.append((str(context.place), thread_count())))
    assert found == [("cpu", thread_count()), ("cpu", 1)]


def test_waiting_for_a_variable_waits_for_no_other() -> None:
    streams = own_streams(2)
    scheduler = Scheduler(streams=streams)
    gate, done = Event(), threading.Event()
    scheduler.schedule(lambda context: gate.wait(LIMIT_S), (), "x")
    scheduler.schedule(lambda context: done.set(), (), "y")
    scheduler.wait("y", "z")
    assert done.is_set()
    gate.finish()
    scheduler.wait("x")
    scheduler.join()


def test_a_failure_is_told_by_events_waits_and_join() -> None:
    def fail(context: Context) -> None:
        raise KernelError("milk is off")

    scheduler = Scheduler(streams=own_streams(2))
    event = scheduler.schedule(fail, (), "x", name="froth")
    with pytest.raises(KernelError, match="milk is off"):
        event.wait(LIMIT_S)
    with pytest.raises(KernelError, match="milk is off"):
        scheduler.wait("x")
    # scheduled when the failure is known already
    late = scheduler.schedule(nothing, "x", "y", lane=scheduler.add_lane(own_streams(1)[0], "late"))
    assert scheduler.metrics.waits == 0, "what has ended is not waited for, failed or not"
    told: list[BaseException | None] = []
    late.on_done(lambda ended: told.append(ended.error))
    with pytest.raises(KernelError, match=r"milk is off\n  in work 'froth' on cpu normal 0"):
        scheduler.join()
    assert told == [event.error]
    scheduler.schedule(nothing, "x", "y").wait(LIMIT_S)


def test_errors_that_are_not_ours_get_a_note() -> None:
    scheduler = Scheduler(streams=1)
    scheduler.schedule(lambda context: 1 // 0, name="divide")
    with pytest.raises(ZeroDivisionError) as caught:
        scheduler.join()
    assert caught.value.__notes__[0].startswith("in work 'divide' on cpu")


def test_a_block_that_raises_waits_and_raises_its_own_error(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []
    scheduler = Scheduler(streams=1)

    def fail(error: Exception | None) -> None:
        with scheduler:
            scheduler.schedule(lambda context: 1 // 0)
            scheduler.schedule(lambda context: done.append(1))
            if error is not None:
                raise error

    with pytest.raises(KeyError):
        fail(KeyError("mine"))
    assert done == [1]
    assert "work failed as well" in caplog.text
    with pytest.raises(ZeroDivisionError):
        fail(None)


def test_a_stream_that_others_broke_fails_work_until_join() -> None:
    (stream,) = own_streams(1)
    scheduler = Scheduler(streams=[stream])
    stream.submit(lambda: 1 // 0)
    ran: list[int] = []
    event = scheduler.schedule(lambda context: ran.append(1), (), "x")
    with pytest.raises(ZeroDivisionError):
        scheduler.join()
    assert (event.state, ran, scheduler.metrics.failed) == (EventState.FAILED, [], 1)
    scheduler.schedule(lambda context: ran.append(2), "x")
    scheduler.join()
    assert ran == [2]


def test_work_may_schedule_but_not_wait_for_its_scheduler() -> None:
    scheduler = Scheduler(streams=own_streams(2))
    done: list[str] = []

    def outer(context: Context) -> None:
        scheduler.schedule(lambda context: done.append("inner"), "x")
        scheduler.join()

    scheduler.schedule(outer, (), "x", name="outer")
    with pytest.raises(TazzaError, match="work 'outer' waits for the scheduler that runs it"):
        scheduler.join()
    scheduler.join()
    assert done == [], "the inner one depends on the outer one, which failed"


def test_events_tell_times_and_call_back() -> None:
    scheduler = Scheduler(streams=own_streams(2))
    first = scheduler.schedule(nothing, (), "x")
    second = scheduler.schedule(nothing, "x", "x")
    called = threading.Event()
    second.on_done(lambda event: called.set())
    assert called.wait(LIMIT_S)
    assert first.query()
    assert second.elapsed_s(first) >= 0
    stream = own_streams(1)[0]
    stream.wait_for(second)
    stream.synchronize()
    scheduler.join()


# -- devices, as far as they can be had here ---------------------------------------------------------------------------


class AtOnceStream(CPUStream):
    """Calls work when it is queued, as streams of devices do."""

    def enqueue(self, work: Work) -> None:
        """Call it."""
        Stream.enqueue(self, work)


def test_work_that_is_called_at_once() -> None:
    scheduler = Scheduler(streams=[AtOnceStream(CPUPlace(), 0), AtOnceStream(CPUPlace(), 1)])
    ran: list[str] = []
    event = scheduler.schedule(lambda context: ran.append(repr(context)), (), "x")
    assert ran == ["CPUContext(cpu normal 0)"]
    event.wait(LIMIT_S)
    scheduler.schedule(lambda context: scheduler.schedule(nothing), (), "x", name="outer")
    scheduler.schedule(lambda context: ran.append("late"), "x")
    with pytest.raises(TazzaError, match="scheduled by work that is being queued"):
        scheduler.join()
    assert (len(ran), scheduler.metrics.failed, scheduler.metrics.skipped) == (1, 1, 1)


# -- measuring ---------------------------------------------------------------------------------------------------------


def test_spans_of_work_and_of_waits() -> None:
    timeline = Timeline()
    streams = own_streams(2)
    scheduler = Scheduler(streams=streams, timeline=timeline)
    with held(streams):
        scheduler.schedule(lambda context: time.sleep(2e-3), (), "x", name="slow", flops=3)
        scheduler.schedule(nothing, (), "y", name="quick", kind="copy", nbytes=5)
        scheduler.schedule(nothing, (), "z", name="other")
        scheduler.schedule(nothing, "xy", "z", name="last")
    scheduler.join()
    spans = {span.name: span for span in timeline.spans}
    assert (spans["slow"].kind, spans["slow"].flops, spans["slow"].lane) == (SpanKind.COMPUTE, 3, "cpu normal 0")
    assert (spans["quick"].kind, spans["quick"].nbytes, spans["quick"].lane) == (SpanKind.COPY, 5, "cpu normal 1")
    waits = [span for span in timeline.spans if span.kind is SpanKind.WAIT]
    assert len(waits) == scheduler.metrics.waits == 1
    assert waits[0].name in ("wait for slow", "wait for other")
    assert waits[0].end_s <= spans["last"].start_s
    assert spans["last"].start_s >= max(spans[name].end_s for name in ("slow", "quick", "other"))
    assert len(timeline.rows()) == 2, "spans of a stream do not overlap"
    busy = {lane.name: lane.busy_s for lane in scheduler.metrics.lanes}
    for lane in timeline.lanes:
        assert busy[lane] == pytest.approx(timeline.busy_s(SpanKind.COMPUTE, SpanKind.COPY, lane=lane), abs=1e-9)


# -- many threads, and no leaks ----------------------------------------------------------------------------------------


def test_many_threads_schedule_at_once() -> None:
    scheduler = Scheduler(streams=own_streams(3))
    cells = [Cell() for _ in range(4)]
    broken: list[str] = []

    def add(cell: Cell) -> Work:
        def work(context: Context) -> None:
            with cell.use(write=True, broken=broken):
                cell.value += 1

        return work

    def fill() -> None:
        for position in range(50):
            number = position % 4
            scheduler.schedule(add(cells[number]), [number], [number])

    threads = [threading.Thread(target=fill) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT_S)
    scheduler.join()
    assert broken == []
    assert sum(cell.value for cell in cells) == scheduler.metrics.works == 200


class Variable:
    """A variable whose end can be watched."""


@pytest.mark.parametrize("failing", [False, True])
def test_what_has_ended_is_forgotten(failing: bool) -> None:
    scheduler = Scheduler(streams=own_streams(3))
    shared = Variable()
    alive: weakref.WeakSet[Variable] = weakref.WeakSet()

    def work(number: int, uses: Variable) -> Work:
        def run(context: Context) -> None:
            if failing and number == 3:
                raise KernelError("once")
            assert uses is not None

        return run

    most = 0
    for number in range(1200):
        variable = Variable()
        alive.add(variable)
        scheduler.schedule(work(number, variable), [shared], [variable]).query()
        del variable
        if number % 20 == 0:
            scheduler.schedule(nothing, [], ["fence"])
            scheduler.wait("fence")
            while len(scheduler) > 20:
                time.sleep(1e-4)
            most = max(most, len(alive))
    assert most < 400
    if failing:
        with pytest.raises(KernelError, match="once"):
            scheduler.join()
    scheduler.join()
    gc.collect()
    assert len(alive) <= 1, "the loop's own work may be kept by the thread that ran it"
    watched = weakref.ref(shared)
    del shared
    gc.collect()
    assert watched() is None


@pytest.mark.slow
def test_a_thousand_schedulers_leave_nothing() -> None:
    def cycle() -> None:
        with Scheduler(streams=4) as scheduler:
            for name, other in itertools.product("abc", "xyz"):
                scheduler.schedule(nothing, [name], [other])

    cycle()
    gc.collect()
    threads, objects = threading.active_count(), len(gc.get_objects())
    for _ in range(1000):
        cycle()
    gc.collect()
    assert threading.active_count() <= threads + 8
    assert len(gc.get_objects()) < objects + 2000
