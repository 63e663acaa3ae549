"""Graphs on the fake driver: what a capture forbids, how many calls a run is, that they end."""

from __future__ import annotations

import ctypes
import gc
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tazza.device import Event, current_context, device_option
from tazza.device.cuda import CUDAContext, CUDAStream, cuda_device
from tazza.device.cuda.graph import UNCOLLECTED, CUDARecorder, RecordingContext
from tazza.errors import KernelError
from tazza.nets import NetBase
from tazza.operator import operator_def
from tazza.proto import NetDef
from tazza.tensor import CUDAPlace, DataType, PinnedPlace, Tensor, allocator_of
from tazza.workspace import Workspace
from tests.device.cublas_library import fake_gpu
from tests.device.cuda_driver import FakeCUDA
from tests.device.cuda_graphs import REFUSED
from tests.engines.cuda.test_graphs import DEVICE, chain, graphs, through
from tests.engines.cuda.test_training import training

GPU = CUDAPlace(0)


def recorder_and_tensors() -> tuple[CUDARecorder, Tensor, Tensor]:
    """Return a recorder of the current context, and two tensors there."""
    first, second = (Tensor.from_numpy(np.full(4, value, np.float32)).to_device(GPU) for value in (1, 2))
    context = current_context(GPU)
    assert isinstance(context, CUDAContext)
    made = context.recorder()
    assert isinstance(made, CUDARecorder)
    return made, first, second


def test_what_is_recorded_runs_when_it_is_queued_and_as_often(gpu: FakeCUDA) -> None:
    recorder, first, second = recorder_and_tensors()
    recording = recorder.record(lambda: recorder.context.copy(first, second))
    assert recording.operations == 1
    assert second.plain().tolist() == [2] * 4
    for value in (3, 4):
        first.assign(np.full(4, value, np.float32))
        recording.queue()
        assert second.plain().tolist() == [value] * 4
    assert gpu.launched == 2
    assert gpu.graphs == {}


def _copy_to_the_host(context: RecordingContext, tensor: Tensor) -> None:
    context.copy(tensor, Tensor((4,), DataType.FLOAT))


def _copy_from_pages(context: RecordingContext, tensor: Tensor) -> None:
    context.copy(Tensor((4,), DataType.FLOAT, PinnedPlace()), tensor)


FORBIDDEN: dict[str, Callable[[RecordingContext, Tensor], object]] = {
    "a copy to the host": _copy_to_the_host,
    "a copy from page-locked memory": _copy_from_pages,
    "a number": lambda context, tensor: context.recorded.set_word(tensor.address, 1),
    "a wait": lambda context, tensor: context.wait(),
    "an event": lambda context, tensor: context.record(Event()),
    "a wait for an event": lambda context, tensor: context.wait_for(Event()),
    "a function of the host": lambda context, tensor: context.recorded.submit(lambda: None),
    "memory": lambda context, tensor: allocator_of(GPU).allocate(1 << 16),
    "a question": lambda context, tensor: current_context(GPU).wait(),
    "a question to what is captured": lambda context, tensor: context.recorded.query(),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_cannot_be_recorded_fails_and_leaves_nothing(gpu: FakeCUDA, what: str) -> None:
    recorder, first, second = recorder_and_tensors()
    with pytest.raises(KernelError):
        recorder.record(lambda: FORBIDDEN[what](recorder.own, first))
    assert (gpu.captures, gpu.graphs, gpu.ready) == ({}, {}, {})
    recorder.record(lambda: recorder.context.copy(first, second)).queue()
    assert second.plain().tolist() == [1] * 4


def test_memory_that_dies_in_a_capture_waits_for_what_may_use_it(gpu: FakeCUDA) -> None:
    recorder, first, second = recorder_and_tensors()
    context = current_context(GPU)
    assert isinstance(context.stream, CUDAStream)
    held = [Tensor((1 << 14,), DataType.FLOAT, GPU)]
    held[0].reserve()
    address, gate = held[0].address, threading.Event()
    gpu.launch(context.stream.handle, lambda: None, after=gate)

    def work() -> None:
        recorder.context.copy(first, second)
        held.clear()
        allocator_of(GPU).allocate(1 << 10)  # takes notice of it, and must ask the driver then

    with pytest.raises(KernelError):  # the allocator had to ask
        recorder.record(work)
    again = Tensor((1 << 14,), DataType.FLOAT, GPU)
    again.reserve()
    assert again.address != address, "what was queued has not ended"
    gate.set()
    context.wait()


def fed() -> tuple[Workspace, NetBase]:
    """Return a net that trains, and its workspace."""
    workspace = Workspace()
    for name, shape in (("W0", (5, 7)), ("b0", (5,)), ("W1", (3, 5)), ("b1", (3,))):
        workspace.feed(name, np.ones(shape, np.float32), DEVICE)
        workspace.feed(f"{name}_m", np.zeros(shape, np.float32), DEVICE)
    workspace.feed("rate", np.array([0.1], np.float32), DEVICE)
    workspace.feed("X", np.ones((4, 7), np.float32), DEVICE)
    workspace.feed("label", np.zeros(4, np.int32), DEVICE)
    return workspace, workspace.create_net(training(DEVICE, "plan"))


@pytest.mark.slow
def test_a_training_step_is_one_launch_and_one_wait_and_its_graph_ends_with_it() -> None:
    with fake_gpu() as library:
        gpu = library.gpu
        workspace, net = fed()
        for _ in range(3):
            net.run()
        assert set(graphs(net)) == {1}
        gpu.calls.clear()
        net.run()
        calls = Counter(gpu.calls)
        assert (calls["cuGraphLaunch"], calls["cuLaunchKernel"], calls["cuMemcpyAsync"]) == (1, 0, 0)
        assert calls.total() <= 16, calls
        assert len(gpu.ready) == 1
        workspace.reset()
        del net
        assert gpu.ready == {}


def test_a_capture_that_fails_is_tried_again_later(caplog: pytest.LogCaptureFixture) -> None:
    with fake_gpu() as library:
        gpu, workspace, X = library.gpu, Workspace(), np.linspace(-2, 2, 8, dtype=np.float32).reshape(2, 4)
        workspace.feed("X", X, DEVICE)
        net = workspace.create_net(chain())

        def spoil(name: str, args: tuple[Any, ...]) -> int | None:
            if name == "cuStreamEndCapture":
                gpu.captures.pop(args[0])
                return REFUSED
            return None

        gpu.tamper = spoil
        for number in range(4):
            net.run()
            np.testing.assert_allclose(workspace.fetch("Y"), through(X), rtol=1e-6)
            if number == 1:
                assert "run launch by launch" in caplog.text
                gpu.tamper = None
        assert graphs(net) == [1] * 4, "the fourth run tries again"
        workspace.reset()


def test_what_goes_through_the_host_from_one_device_to_another_is_no_copy_undone(gpu: FakeCUDA) -> None:
    workspace, X = Workspace(), np.arange(3, dtype=np.float32)
    workspace.feed("X", X, CUDAPlace(0))
    net = NetDef(name="across", type="plan", external_output=["Y"])
    for type, source, target, index in (("CopyGPUToCPU", "X", "h", 0), ("CopyCPUToGPU", "h", "there", 1)):
        net.op.add().CopyFrom(operator_def(type, [source], [target], device=device_option(CUDAPlace(index))))
    net.op.add().CopyFrom(operator_def("Negative", ["there"], ["Y"], device=device_option(CUDAPlace(1))))
    workspace.run_net_once(net)
    np.testing.assert_array_equal(workspace.fetch("Y"), -X)
    workspace.reset()


def test_garbage_that_is_collected_would_end_a_capture(gpu: FakeCUDA) -> None:
    """Handles of libraries give memory back when they end, which a capturing thread must not: so collection rests."""
    recorder, first, second = recorder_and_tensors()

    device = cuda_device(GPU)

    class Handle:
        """Ends as one of cuBLAS does, which has memory."""

    def ring() -> None:
        handle = Handle()
        handle.__dict__["self"] = handle
        address = ctypes.c_uint64()
        device.call("cuMemAlloc_v2", ctypes.byref(address), 8)
        weakref.finalize(handle, device.ask, "cuMemFree_v2", address.value)

    def collected() -> None:
        recorder.context.copy(first, second)
        gc.collect()

    def unless_it_rests() -> None:
        recorder.context.copy(first, second)
        if gc.isenabled():
            gc.collect()

    with UNCOLLECTED:  # else it may be collected before
        ring()
        with pytest.raises(KernelError):
            recorder.record(collected)
    ring()
    assert recorder.record(unless_it_rests).operations == 1
    assert gc.isenabled()


def test_collection_rests_until_the_last_thread_is_done() -> None:
    with UNCOLLECTED:
        with UNCOLLECTED:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with UNCOLLECTED:
            pass
        assert not gc.isenabled(), "it was off before"
    finally:
        gc.enable()
