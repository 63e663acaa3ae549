"""Streams and events of CUDA, on a fake driver: order with the host, failures, notification, timing."""

from __future__ import annotations

import gc
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tazza.device import Event, EventState, Stream, current_context, stream_pool
from tazza.device.cuda import CUDAEvent, CUDAStream, cuda_device
from tazza.device.cuda import event as cuda_event
from tazza.errors import KernelError, UnavailableError
from tazza.tensor import CPUPlace, CUDAPlace
from tests.device.cuda_driver import FakeCUDA
from tests.device.host_stream import HostStream

GPU = CUDAPlace(1)
LONG_S = 60.0


def take(priority: str = "normal") -> CUDAStream:
    """Return the next stream of the device."""
    stream = stream_pool(GPU).take(priority)
    assert isinstance(stream, CUDAStream)
    return stream


def test_streams_are_made_once_with_the_drivers_priorities(gpu: FakeCUDA) -> None:
    pool = stream_pool(GPU)
    made = [pool.take(priority) for priority in ("normal", "high") for _ in range(40)]
    assert len(set(made)) == len(gpu.streams) == 64
    priorities = {
        stream.priority: gpu.streams[stream.handle].priority for stream in made if isinstance(stream, CUDAStream)
    }
    assert priorities == {"normal": 0, "high": -5}


def test_events_end_with_the_work_before_them(gpu: FakeCUDA) -> None:
    stream, event, seen = take(), Event(), list[str]()
    gpu.hold()
    gpu.launch(stream.handle, lambda: seen.append("kernel"))
    stream.record(event)
    assert isinstance(event.device, CUDAEvent)
    assert not event.query()
    assert not stream.query()
    assert not event.wait(0.001)
    gpu.go()
    assert event.wait(LONG_S)
    assert seen == ["kernel"]
    stream.synchronize()
    assert stream.query()


def test_who_waits_asks_for_a_while_and_is_woken_then(gpu: FakeCUDA, monkeypatch: pytest.MonkeyPatch) -> None:
    for spin_s, done in ((LONG_S, "cuEventQuery"), (0.001, "cuEventSynchronize")):
        monkeypatch.setattr(cuda_event, "SPIN_S", spin_s)
        stream, event, gate = take(), Event(), threading.Event()
        gpu.launch(stream.handle, lambda: None, after=gate)
        stream.record(event)
        enough = gpu.calls.count(done) + (3 if done == "cuEventQuery" else 1)

        def open_gate(gate: threading.Event = gate, done: str = done, enough: int = enough) -> None:
            while gpu.calls.count(done) < enough:
                time.sleep(0.001)
            gate.set()

        watcher = threading.Thread(target=open_gate, daemon=True)
        watcher.start()
        assert event.wait()
        watcher.join(LONG_S)


def test_time_between_events_is_the_devices(gpu: FakeCUDA) -> None:
    stream, first, second = take(), Event(), Event()
    stream.record(first)
    for _ in range(4):
        gpu.launch(stream.handle, lambda: None)
    stream.record(second)
    second.wait()
    first.wait()
    assert second.elapsed_s(first) == pytest.approx(0.005)
    other = Event()
    current_context(CUDAPlace(0)).record(other)
    other.wait()
    assert other.elapsed_s(first) == other.finished_s - first.finished_s, "another device, another clock"


def test_work_is_called_at_once_and_queues_on_the_stream(gpu: FakeCUDA) -> None:
    stream, streams = take("high"), list[Stream | None]()
    stream.enqueue(lambda context: streams.append(context.stream))
    assert streams == [stream]


def test_functions_of_the_host_are_called_in_order(gpu: FakeCUDA) -> None:
    stream, seen = take(), list[str]()
    gpu.hold()
    gpu.launch(stream.handle, lambda: seen.append("kernel"))
    stream.submit(lambda: seen.append("host"))
    gpu.launch(stream.handle, lambda: seen.append("later"))
    gpu.go()
    stream.synchronize()
    assert seen == ["kernel", "host", "later"]


def test_a_function_of_the_host_that_fails(gpu: FakeCUDA) -> None:
    stream, other, seen = take(), take(), list[str]()
    before, after, passed_on = Event(), Event(), Event()

    def fail() -> None:
        raise ValueError("on the host")

    gpu.hold()
    stream.record(before)
    stream.submit(fail)
    stream.submit(lambda: seen.append("skipped"))
    stream.record(after)
    other.wait_for(after)
    other.record(passed_on)
    gpu.go()
    assert before.wait()
    for event in (after, passed_on):
        with pytest.raises(ValueError, match="on the host"):
            event.wait()
    stream.enqueue(lambda context: seen.append("known to have failed"))
    for each in (stream, other):
        with pytest.raises(ValueError, match="on the host"):
            each.synchronize()
        each.synchronize()
    stream.enqueue(lambda context: seen.append("again"))
    assert seen == ["again"]


def test_streams_wait_for_each_other_on_the_device(gpu: FakeCUDA) -> None:
    first, second, seen, event = take(), take(), list[int](), Event()
    gpu.hold()
    gpu.launch(first.handle, lambda: seen.append(1))
    first.record(event)
    calls = len(gpu.calls)
    second.wait_for(event)
    assert "cuStreamWaitEvent" in gpu.calls[calls:]
    gpu.launch(second.handle, lambda: seen.append(2))
    gpu.go()
    second.synchronize()
    assert seen == [1, 2]
    calls = len(gpu.calls)
    second.wait_for(event)
    assert not any("Wait" in name for name in gpu.calls[calls:]), "it has ended"


def test_a_device_waits_for_the_host_in_order(gpu: FakeCUDA) -> None:
    """The second event ends first, and opens nothing."""
    stream, seen = take(), list[int]()
    events = [Event() for _ in range(3)]
    for number, event in enumerate(events):
        stream.wait_for(event)
        gpu.launch(stream.handle, lambda number=number: seen.append(number))
    for number, expected in ((1, []), (0, [0, 1]), (2, [0, 1, 2])):
        events[number].finish()
        done = Event()
        take().record(done)
        done.wait()
        if expected:
            while len(seen) < len(expected):
                assert not stream.query() or len(seen) == len(expected)
        assert seen == expected
    stream.synchronize()


def test_the_counter_of_waits_wraps_around(gpu: FakeCUDA) -> None:
    stream, event = take(), Event()
    event.schedule()
    stream.wait_for(event)
    event.finish()
    stream.synchronize()
    for name in ("_given", "_passed"):
        setattr(stream, name, (1 << 32) - 2)
    counter = stream._counter  # pyright: ignore[reportPrivateUsage] -- four thousand million waits take long
    assert counter is not None
    counter.value = (1 << 32) - 2
    for _ in range(5):
        event, seen = Event(), list[int]()
        stream.wait_for(event)
        gpu.launch(stream.handle, lambda seen=seen: seen.append(1))
        assert seen == []
        event.finish()
        stream.synchronize()
        assert seen == [1]


def test_host_and_device_wait_for_each_other(gpu: FakeCUDA) -> None:
    stream, host, seen = take(), HostStream(CPUPlace(), 0), list[int]()
    gpu.hold()
    for number in range(0, 20, 2):
        gpu.launch(stream.handle, lambda number=number: seen.append(number))
        there, back = Event(), Event()
        stream.record(there)
        host.wait_for(there)
        host.submit(lambda number=number: seen.append(number + 1))
        host.record(back)
        stream.wait_for(back)
    gpu.go()
    stream.synchronize()
    assert seen == list(range(20))


def test_a_failure_of_the_host_reaches_the_device_and_comes_back(gpu: FakeCUDA) -> None:
    stream, host = take(), HostStream(CPUPlace(), 0)
    failed, there = Event(), Event()

    def fail() -> None:
        raise ValueError("on the host")

    gate = Event()
    host.wait_for(gate)
    host.submit(fail)
    host.record(failed)
    stream.wait_for(failed)
    stream.record(there)
    host.recover()
    host.wait_for(there)
    gate.finish()
    with pytest.raises(ValueError, match="on the host"):
        host.synchronize()
    with pytest.raises(ValueError, match="on the host"):
        stream.synchronize()


def test_who_wants_to_be_told_is_told_in_success_and_failure(gpu: FakeCUDA) -> None:
    stream, told, done = take(), list[EventState](), threading.Semaphore(0)
    events = [Event() for _ in range(5)]
    gpu.hold()

    def tell(event: Event) -> None:
        told.append(event.state)
        done.release()

    for event in events:
        stream.record(event)
        event.on_done(tell)
    assert told == []
    gpu.go()
    for _ in events:
        assert done.acquire(timeout=LONG_S)
    assert told == [EventState.SUCCESS] * 5
    gpu.hold()
    last = Event()
    stream.record(last)
    last.on_done(tell)
    gpu.sticky = 700
    assert done.acquire(timeout=LONG_S), "the driver itself would not have called"
    assert told[-1] is EventState.FAILED
    with pytest.raises(KernelError, match="an illegal memory access"):
        last.wait()
    with pytest.raises(KernelError, match="an illegal memory access"):
        stream.query()
    gpu.sticky = 0


def test_notices_come_in_the_order_of_the_ends(gpu: FakeCUDA) -> None:
    """The first event that was asked for waits for something that the second one's notice brings about."""
    first, second, gate = take(), take(), Event()
    one, two = Event(), Event()
    first.wait_for(gate)
    first.record(one)
    one.on_done(lambda event: None)
    second.record(two)
    two.on_done(lambda event: gate.finish())
    assert one.wait(LONG_S)


def test_events_of_the_driver_are_used_again(gpu: FakeCUDA) -> None:
    stream, event = take(), Event()
    for _ in range(50):
        stream.record(event)
        event.wait()
        event.reset()
    del event
    assert len(gpu.events) <= 2


def test_streams_that_are_gone_are_ended(gpu: FakeCUDA) -> None:
    stream = CUDAStream(GPU, 99)
    handle = stream.handle
    stream.record(Event())
    del stream
    gc.collect()
    done = threading.Event()
    while handle in gpu.streams:
        assert not done.wait(0.0002)


def test_a_driver_that_cannot_wait_for_memory(gpu: FakeCUDA) -> None:
    stream, event = take(), Event()
    gpu.answers["cuStreamWaitValue32_v2"] = 801
    with pytest.raises(KernelError, match="cuStreamWaitValue32_v2 with status 801"):
        stream.wait_for(event)
    del gpu.answers["cuStreamWaitValue32_v2"]
    stream.wait_for(event)
    event.finish()
    stream.synchronize()
    gpu.answers["cuStreamCreateWithPriority"] = 100
    with pytest.raises(UnavailableError, match="no CUDA-capable device"):
        CUDAStream(GPU, 50)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["work", "record", "wait"]), st.integers(0, 5)), max_size=30)
)
def test_any_mixture_over_host_and_device_is_in_order(gpu: FakeCUDA, steps: list[tuple[int, str, int]]) -> None:
    """Two streams of a device and two of the host: each piece of work sees all that came before it."""
    done: set[int] = set()
    missed: list[frozenset[int]] = []
    streams: list[Stream] = [take(), take(), HostStream(CPUPlace(), 0), HostStream(CPUPlace(), 1)]
    before: list[set[int]] = [set() for _ in streams]
    recorded: list[tuple[Event, set[int]]] = []
    for number, (index, kind, choice) in enumerate(steps):
        stream = streams[index]
        if kind == "work":

            def work(number: int = number, wanted: frozenset[int] = frozenset(before[index])) -> None:
                if not wanted <= done:
                    missed.append(wanted - done)
                done.add(number)

            if isinstance(stream, CUDAStream):
                gpu.launch(stream.handle, work)
            else:
                stream.submit(work)
            before[index].add(number)
        elif kind == "record":
            event = Event()
            stream.record(event)
            recorded.append((event, set(before[index])))
        elif recorded:
            event, known = recorded[choice % len(recorded)]
            stream.wait_for(event)
            before[index] |= known
    for stream in streams:
        stream.synchronize()
    assert missed == []
    assert cuda_device(GPU).watcher is not None
