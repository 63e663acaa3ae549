"""The scheduler and the copier on a device of a fake driver: waits stay there, and nothing of the host is called."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.device import Context, EventState, current_context
from tazza.device.copier import Copier
from tazza.device.cuda import CUDAEvent, CUDAStream
from tazza.device.scheduler import Scheduler
from tazza.errors import KernelError
from tazza.observers.timeline import SpanKind, Timeline
from tazza.tensor import CUDAPlace, PinnedPlace, Tensor
from tests.device.cuda_driver import FakeCUDA

GPU = CUDAPlace(1)


def pinned(value: float) -> Tensor:
    """Return page-locked numbers."""
    current_context(GPU)
    x = Tensor((3, 5), place=PinnedPlace())
    x.reserve()
    x.array[...] = value
    return x


def on_gpu() -> Tensor:
    """Return room for as many on the device."""
    current_context(GPU)  # brings the device's memory
    x = Tensor((3, 5), place=GPU)
    x.reserve()
    return x


def numbers(x: Tensor) -> NDArray[np.float32]:
    """Return what a kernel sees: memory of the fake device is memory of the host."""
    return np.ctypeslib.as_array((ctypes.c_float * x.size).from_address(x.storage.address)).reshape(x.shape)


def times_two(gpu: FakeCUDA, source: Tensor, target: Tensor, context: Context) -> None:
    """Queue a kernel, as those of a device do."""
    assert isinstance(context.stream, CUDAStream)
    gpu.launch(context.stream.handle, lambda: np.multiply(numbers(source), 2, out=numbers(target)))


def test_copies_and_kernels_are_ordered_on_the_device(gpu: FakeCUDA) -> None:
    source, x, y, out = pinned(7), on_gpu(), on_gpu(), pinned(0)
    scheduler = Scheduler(GPU, 2)
    copier = Copier(scheduler)
    gpu.hold()
    events = [
        copier.copy(source, x),
        scheduler.schedule(lambda context: times_two(gpu, x, y, context), [x], [y]),
        scheduler.schedule(lambda context: times_two(gpu, y, x, context), [y], [x]),
        copier.copy(x, out),
    ]
    assert len(scheduler) == 4
    assert all(isinstance(event.device, CUDAEvent) for event in events)
    assert (out.array == 0).all()
    assert "cuLaunchHostFunc" not in gpu.calls
    assert gpu.calls.count("cuStreamWaitEvent") == scheduler.metrics.waits == 2
    gpu.go()
    scheduler.join()
    copier.close()
    assert (out.array == 28).all()
    assert (scheduler.metrics.works, len(scheduler)) == (4, 0)


def test_work_that_fails_when_it_is_queued(gpu: FakeCUDA) -> None:
    x, y = on_gpu(), on_gpu()
    scheduler = Scheduler(GPU, 2)
    ran: list[str] = []

    def fail(context: Context) -> None:
        raise KernelError("no descriptor")

    failed = scheduler.schedule(fail, (), [x], name="conv")
    behind = scheduler.schedule(lambda context: ran.append("behind"), [x], [y])
    other = scheduler.schedule(lambda context: ran.append("other"), (), ["z"])
    with pytest.raises(KernelError, match=r"no descriptor\n  in work 'conv' on cuda:1"):
        scheduler.join()
    assert ran == ["other"]
    states = [event.state for event in (failed, behind, other)]
    assert states == [EventState.FAILED, EventState.FAILED, EventState.SUCCESS]
    scheduler.schedule(lambda context: ran.append("again"), [x], [y])
    scheduler.join()
    assert ran == ["other", "again"]


def test_spans_are_as_the_host_sees_them(gpu: FakeCUDA) -> None:
    timeline = Timeline()
    x, y, z = on_gpu(), on_gpu(), on_gpu()
    with Scheduler(GPU, 2, timeline=timeline) as scheduler:
        scheduler.schedule(lambda context: times_two(gpu, x, y, context), [x], [y], name="first", flops=15)
        scheduler.schedule(lambda context: times_two(gpu, y, z, context), [y], [z], name="second", flops=15)
    first, second = (span for span in timeline.spans if span.kind is SpanKind.COMPUTE)
    assert (first.name, second.name, first.flops) == ("first", "second", 15)
    assert first.end_s <= second.start_s <= second.end_s
    assert first.lane.startswith("cuda:1 normal")
    assert second.lane.startswith("cuda:1 normal")
