"""Streams of the CPU: order, waits, failures, threads; pools of streams."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Generator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tazza.device import (
    Event,
    Stream,
    StreamPool,
    current_context,
    current_stream,
    stream_pool,
    streaming,
)
from tazza.errors import NetError, TazzaError, UnavailableError
from tazza.runtime.workers import WorkerPool
from tazza.tensor import CPUPlace, CUDAPlace, PinnedPlace
from tests.device.host_stream import HostStream

LONG_S = 60.0


@pytest.fixture
def threads() -> Generator[WorkerPool]:
    """Two threads of the test's own."""
    with WorkerPool(2, "test-stream") as pool:
        yield pool


def make(pool: WorkerPool, number: int = 0) -> HostStream:
    """Return a stream that these threads work for."""
    return HostStream(CPUPlace(), number, pool=pool)


def test_work_runs_in_order_on_another_thread(threads: WorkerPool) -> None:
    stream, seen, idents = make(threads), list[int](), set[int]()
    for number in range(100):
        stream.enqueue(lambda context, number=number: seen.append(number))
        stream.submit(lambda: idents.add(threading.get_ident()))
    stream.synchronize()
    assert stream.query()
    assert seen == list(range(100))
    assert threading.get_ident() not in idents


def test_work_gets_the_context_of_its_thread(threads: WorkerPool) -> None:
    stream, same = make(threads), list[bool]()
    stream.enqueue(lambda context: same.append(context is current_context(CPUPlace()) and context.stream is None))
    stream.synchronize()
    assert same == [True]


def test_streams_wait_for_each_other_without_threads() -> None:
    """One thread works for fifty streams that wait: none of them holds it."""
    with WorkerPool(1, "single") as pool:
        streams, seen = [make(pool, number) for number in range(50)], list[int]()
        first = Event()
        events = [first, *(Event() for _ in streams)]
        for number, stream in reversed(list(enumerate(streams))):
            stream.wait_for(events[number])
            stream.submit(lambda number=number: seen.append(number))
            stream.record(events[number + 1])
        assert not any(stream.query() for stream in streams)
        free = threading.Event()
        pool.submit(free.set)
        assert free.wait(LONG_S), "the thread is held"
        assert seen == []
        first.finish()
        events[-1].wait(LONG_S)
        assert seen == list(range(50))
        assert pool.threads == 1


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(["work", "record", "wait", "host"]), st.integers(0, 5)),
        max_size=40,
    )
)
def test_any_mixture_of_work_and_waits_is_in_order(steps: list[tuple[int, str, int]]) -> None:
    """Each piece of work sees all that came before it: on its stream, and before the events that it waited for."""
    done: set[int] = set()
    missed: list[tuple[int, set[int]]] = []
    with WorkerPool(3, "mixture") as pool:
        streams = [make(pool, number) for number in range(4)]
        before: list[set[int]] = [set() for _ in streams]
        recorded: list[tuple[Event, set[int]]] = []
        for number, (index, kind, choice) in enumerate(steps):
            stream = streams[index]
            if kind == "work":
                wanted = set(before[index])

                def work(number: int = number, wanted: set[int] = wanted) -> None:
                    if not wanted <= done:
                        missed.append((number, wanted - done))
                    done.add(number)

                stream.submit(work)
                before[index].add(number)
            elif kind == "record":
                event = Event()
                stream.record(event)
                recorded.append((event, set(before[index])))
            elif recorded:
                event, known = recorded[choice % len(recorded)]
                if kind == "wait":
                    stream.wait_for(event)
                    before[index] |= known
                else:
                    event.wait(LONG_S)
                    assert known <= done
        for stream in streams:
            stream.synchronize()
    assert missed == []
    assert done == {number for number, (_, kind, _) in enumerate(steps) if kind == "work"}


def fail() -> None:
    """Fail as work does."""
    raise ValueError("work failed")


def test_a_failure_stops_what_follows_until_it_is_told(threads: WorkerPool) -> None:
    stream, seen, after = make(threads), list[str](), Event()
    before = Event()
    stream.submit(lambda: seen.append("before"))
    stream.record(before)
    stream.submit(fail)
    stream.submit(lambda: seen.append("skipped"))
    stream.record(after)
    assert before.wait(LONG_S)
    with pytest.raises(ValueError, match="work failed"):
        after.wait(LONG_S)
    with pytest.raises(ValueError, match="work failed"):
        stream.synchronize()
    stream.submit(lambda: seen.append("again"))
    stream.synchronize()
    assert seen == ["before", "again"]


def test_a_failure_goes_on_to_streams_that_wait(threads: WorkerPool) -> None:
    first, second, seen, event = make(threads, 1), make(threads, 2), list[int](), Event()
    gate = Event()
    first.wait_for(gate)
    first.submit(fail)
    first.record(event)
    second.wait_for(event)
    second.submit(lambda: seen.append(1))
    gate.finish()
    with pytest.raises(ValueError, match="work failed"):
        second.synchronize()
    second.wait_for(event)  # has ended by now: in failure
    second.submit(lambda: seen.append(2))
    with pytest.raises(ValueError, match="work failed"):
        second.synchronize()
    second.submit(lambda: seen.append(3))
    second.synchronize()
    assert seen == [3]


def test_what_an_event_came_to_is_known_when_the_stream_is_told_to_wait(threads: WorkerPool) -> None:
    """Later it may be reset for another run, for which this stream does not wait."""
    stream, event, seen = make(threads), Event(), list[int]()
    gate = Event()
    stream.wait_for(gate)
    event.finish()
    stream.wait_for(event)
    stream.submit(lambda: seen.append(1))
    event.reset()
    gate.finish()
    stream.synchronize()
    assert seen == [1]


def test_recovering_drops_earlier_failures_in_order(threads: WorkerPool) -> None:
    stream, seen, gate, ended = make(threads), list[int](), Event(), Event()
    stream.wait_for(gate)
    stream.submit(fail)
    stream.record(ended)
    stream.recover()
    stream.submit(lambda: seen.append(1))
    gate.finish()
    stream.synchronize()
    assert seen == [1]
    with pytest.raises(ValueError, match="work failed"):
        ended.wait()


def test_work_that_waits_for_its_own_stream_is_told(threads: WorkerPool) -> None:
    stream = make(threads)
    stream.submit(stream.synchronize)
    with pytest.raises(TazzaError, match="waits for its own stream"):
        stream.synchronize()


def test_a_stream_whose_threads_are_closed() -> None:
    pool = WorkerPool(1, "gone")
    stream, gate, ended = make(pool), Event(), Event()
    stream.wait_for(gate)
    stream.record(ended)
    free = threading.Event()
    pool.submit(free.set)  # behind what the stream has got, so that it is waiting now
    assert free.wait(LONG_S)
    pool.close()
    gate.finish()
    with pytest.raises(NetError, match="'gone' are closed"):
        ended.wait(LONG_S)
    with pytest.raises(NetError, match="'gone' are closed"):
        stream.submit(lambda: None)
    assert stream.query(), "what could not be queued is not waited for"


def test_sixty_four_streams_handed_out_in_turn_and_made_once() -> None:
    pool = StreamPool(CPUPlace())
    assert len(pool) == 0
    for priority in ("normal", "high"):
        first = [pool.take(priority) for _ in range(32)]
        assert [pool.take(priority) for _ in range(32)] == first
        assert {stream.priority for stream in first} == {priority}
    assert len(pool) == 64
    assert pool.default is pool.default
    assert len(pool) == 65
    names = {pool.take(priority).name for priority in ("normal", "high") for _ in range(32)} | {pool.default.name}
    assert len(names) == 65
    with pytest.raises(UnavailableError, match="no streams of priority 'low'"):
        pool.take("low")
    assert stream_pool(CPUPlace()) is stream_pool(CPUPlace())


def test_threads_taking_streams_at_once_get_different_ones() -> None:
    pool, taken, lock = StreamPool(CPUPlace()), list[Stream](), threading.Lock()
    ready = threading.Barrier(8)

    def take() -> None:
        ready.wait()
        for _ in range(4):
            stream = pool.take()
            with lock:
                taken.append(stream)

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(taken)) == len(pool) == 32


def test_high_priority_never_queues_behind_other_work() -> None:
    pool, gate = stream_pool(CPUPlace()), threading.Event()
    normal = [pool.take() for _ in range(32)]
    for stream in normal:
        stream.submit(lambda: gate.wait(LONG_S))
    urgent, done = pool.take("high"), Event()
    urgent.record(done)
    assert done.wait(LONG_S), "all threads are busy with other work"
    gate.set()
    for stream in normal:
        stream.synchronize()


def test_places_without_streams() -> None:
    with pytest.raises(UnavailableError, match="pinned has no streams"):
        stream_pool(PinnedPlace())
    with pytest.raises(UnavailableError, match="no device cuda:63 here"):
        current_stream(CUDAPlace(63))


def test_the_current_stream_of_a_thread(threads: WorkerPool) -> None:
    outer, inner = make(threads, 1), make(threads, 2)

    def enter_and_fail() -> None:
        with streaming(inner):
            assert current_stream(CPUPlace()) is inner
            assert current_context(CPUPlace()).stream is inner
            raise ValueError("inside")

    assert current_stream(CPUPlace()) is None
    with streaming(outer):
        with pytest.raises(ValueError, match="inside"):
            enter_and_fail()
        assert current_stream(CPUPlace()) is outer
        seen: list[object] = []
        thread = threading.Thread(target=lambda: seen.append(current_stream(CPUPlace())))
        thread.start()
        thread.join()
        assert seen == [None]
    assert current_stream(CPUPlace()) is None


def cycle(pool: WorkerPool, streams: int) -> None:
    """Let streams work, wait for each other, and end."""
    made = [make(pool, number) for number in range(streams)]
    for first, second in itertools.pairwise(made):
        event = Event()
        first.submit(lambda: None)
        first.record(event)
        second.wait_for(event)
    for stream in made:
        stream.synchronize()


@pytest.mark.parametrize("cycles", [30, pytest.param(1000, marks=pytest.mark.slow)])
def test_nothing_is_left_of_streams_that_are_gone(cycles: int, threads: WorkerPool) -> None:
    cycle(threads, 5)
    gc.collect()
    for _ in range(cycles):
        cycle(threads, 5)
    gc.collect()
    own = [each.name for each in threading.enumerate() if each.name.startswith("test-stream")]
    assert 0 < len(own) <= 2, "others may start and end meanwhile"
    left = [each for each in gc.get_objects() if isinstance(each, HostStream) and each.name.startswith("cpu normal")]
    assert [each for each in left if each._pool is threads] == []  # pyright: ignore[reportPrivateUsage] -- whose it is


@pytest.mark.slow
def test_many_streams_work_at_once() -> None:
    counts = [0] * 64
    pool = stream_pool(CPUPlace())
    streams = [pool.take(priority) for priority in ("normal", "high") for _ in range(32)]

    def add(number: int) -> None:
        counts[number] += 1

    for _ in range(300):
        for number, stream in enumerate(streams):
            stream.submit(lambda number=number: add(number))
            event = Event()
            stream.record(event)
            streams[(number + 7) % 64].wait_for(event)
    for stream in streams:
        stream.synchronize()
    assert counts == [300] * 64
