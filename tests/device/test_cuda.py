"""CUDA devices, their memory and contexts, on a fake driver."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tazza.array as ta
from tazza.device import (
    CPUContext,
    Event,
    cuda,
    current_context,
    current_stream,
    device_of,
    initialize_devices,
    initializer,
    stream_pool,
    streaming,
)
from tazza.device.cuda import CUDAContext, CUDAStream, cuda_device, described_by, driver
from tazza.device.cuda.memory import OrderedAllocator, ordered
from tazza.errors import (
    ArgumentError,
    DTypeError,
    KernelError,
    OutOfMemoryError,
    UnavailableError,
    UnsupportedError,
)
from tazza.tensor import (
    Allocation,
    CPUPlace,
    CUDAPlace,
    DataType,
    PinnedPlace,
    Place,
    Tensor,
    allocator_of,
    channels_last,
)
from tests.device.cuda_driver import OUT_OF_MEMORY, FakeCUDA

GPU = CUDAPlace(1)


def wait_until(condition: Any) -> None:
    """Give other threads time."""
    done = threading.Event()
    while not condition():
        assert not done.wait(0.0002)


# -- the driver --------------------------------------------------------------------------------------------------------


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "DRIVER", "libno_such_driver.so.1")
    monkeypatch.setattr(driver, "_loaded", None)
    monkeypatch.setattr(initializer, "_found", None)
    reason = "no device cuda:3 here: the NVIDIA driver cannot be loaded: libno_such"
    for ask in (device_of, current_context, current_stream, stream_pool):
        with (
            pytest.raises(UnavailableError, match=reason) if ask is not stream_pool else pytest.raises(UnavailableError)
        ):
            _ = ask(CUDAPlace(3)) if ask is not stream_pool else stream_pool(CUDAPlace(3)).take()
    with pytest.raises(UnavailableError, match=f"nothing is copied from cpu to cuda:3: {reason}"):
        ta.ones(3).to_device("cuda:3")


def test_what_a_driver_tells(gpu: FakeCUDA) -> None:
    first, second = described_by(gpu.library)
    assert (first.name, first.memory_bytes, first.parallel_units) == ("GPU 100", 3 << 20, 16)
    assert (second.place, second.features) == (CUDAPlace(1), ("compute capability 75.76",))
    assert gpu.retained == 0, "listing makes no context"
    gpu.devices = 0
    with pytest.raises(UnavailableError, match="lists no device"):
        described_by(gpu.library)
    gpu.answers["cuInit"] = 100
    with pytest.raises(UnavailableError, match="cuInit with status 100: no CUDA-capable device is detected"):
        described_by(gpu.library)
    gpu.answers["cuInit"] = 1
    with pytest.raises(UnavailableError, match="cuInit with status 1: invalid argument"):
        described_by(gpu.library)
    with pytest.raises(UnavailableError, match="has no cuInit"):
        described_by(SimpleNamespace())


@pytest.mark.slow
def test_importing_loads_no_driver() -> None:
    program = """
import ctypes, sys
def refuse(name, *args): raise AssertionError(name)
ctypes.CDLL = refuse
import tazza.device.cuda
from tazza.tensor import ALLOCATORS
assert "cuda" not in ALLOCATORS.registered()
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_statuses_become_errors(gpu: FakeCUDA) -> None:
    asked = driver.Driver(gpu.library)
    for status, kind in ((OUT_OF_MEMORY, OutOfMemoryError), (100, UnavailableError), (700, KernelError)):
        gpu.answers["cuInit"] = status
        with pytest.raises(kind, match=f"the NVIDIA driver answers cuInit with status {status}: "):
            asked.call("cuInit", 0)
    asked.lost = True
    with pytest.raises(UnavailableError, match="does not survive a fork"):
        asked.call("cuInit", 0)


def test_every_function_that_is_called_is_declared(gpu: FakeCUDA) -> None:
    driver.declare(gpu.library)
    called: set[str] = set()
    for module in Path(cuda.__file__).parent.glob("*.py"):
        called |= set(
            re.findall(r'(?:(?:ask|call|check|make)\(|call,)\s*"(cu\w+)"', module.read_text(encoding="utf-8"))
        )
    assert called == set(driver.DECLARATIONS)


def test_devices_that_are_there(gpu: FakeCUDA) -> None:
    assert [str(place) for place in initialize_devices().present] == ["cpu", "cuda:0", "cuda:1"]
    with pytest.raises(UnavailableError, match="no device cuda:2 here: there are cuda:0, cuda:1"):
        current_context(CUDAPlace(2))
    assert gpu.retained == 0
    assert cuda_device(GPU) is cuda_device(GPU)
    assert gpu.retained == 1
    device_of(GPU).close()
    assert gpu.retained == 0
    with pytest.raises(ArgumentError, match="cpu is not a place of CUDA"):
        cuda_device(CPUPlace())


def test_calls_leave_the_current_context_of_others(gpu: FakeCUDA) -> None:
    gpu.library.cuCtxPushCurrent_v2(77)
    current_context(GPU).wait()
    assert gpu.current == 77
    gpu.library.cuCtxPopCurrent_v2(driver.POINTER(driver.c_void_p)(driver.c_void_p()))
    assert gpu.current is None


# -- memory ------------------------------------------------------------------------------------------------------------


def test_memory_is_counted_and_given_back(gpu: FakeCUDA) -> None:
    for place in (GPU, PinnedPlace()):
        device_of(GPU)
        allocator = allocator_of(place)
        spans = [allocator.allocate(nbytes, "x") for nbytes in (100, 0, 5000)]
        assert allocator.statistics.in_use_bytes == 5100
        assert allocator.statistics.reserved_bytes in (5100, 128 + 64 + 5120), "what is kept has sizes of classes"
        with pytest.raises(OutOfMemoryError, match=r"has no more memory.*; largest holders in bytes: x 5000"):
            allocator.allocate(4 << 20)
        del spans
        assert allocator.statistics.in_use_bytes == 0
        allocator.trim()
        assert not isinstance(allocator, OrderedAllocator) or allocator.upstream.statistics.in_use_bytes == 0
    assert gpu.memory == {}


@pytest.mark.parametrize("place", [GPU, PinnedPlace()], ids=str)
def test_memory_is_used_again_behind_all_that_may_use_it(gpu: FakeCUDA, place: Place) -> None:
    streams = [stream_pool(GPU).take() for _ in range(2)]
    allocator, taking = allocator_of(place), "cuMemAlloc_v2" if place == GPU else "cuMemHostAlloc"
    span = allocator.allocate(1000)
    first = span.address
    gpu.hold()
    assert isinstance(streams[1], CUDAStream)
    gpu.launch(streams[1].handle, lambda: None)
    del span
    calls = len(gpu.calls)
    second = allocator.allocate(1000)
    assert second.address != first, "a stream may still use it"
    assert taking in gpu.calls[calls:]
    gpu.go()
    streams[1].synchronize()
    calls = len(gpu.calls)
    assert allocator.allocate(900).address == first
    assert taking not in gpu.calls[calls:]


def test_memory_of_the_device_has_a_limit(gpu: FakeCUDA) -> None:
    device_of(GPU)
    limited = ordered(GPU, limit_bytes=1000)
    span = limited.allocate(600)
    with pytest.raises(OutOfMemoryError, match="600 in use \\+ 600 asked for > limit of 1000 bytes at cuda:1"):
        limited.allocate(600)
    del span
    limited.allocate(600)


def test_page_locked_memory_is_read_by_the_host(gpu: FakeCUDA) -> None:
    device_of(GPU)
    x = Tensor((2, 3), place=PinnedPlace())
    x.assign(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert gpu.kind_at(x.address) == "pinned"
    view = x.numpy()
    del x
    assert view.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert gpu.kind_at(view.ctypes.data) == "pinned", "a view keeps the memory"


def test_policies_cut_up_memory_of_the_device(gpu: FakeCUDA) -> None:
    device_of(GPU)
    cached = allocator_of(GPU, "caching")
    first = cached.allocate(1000).address
    assert cached.allocate(1000).address == first


# -- contexts ----------------------------------------------------------------------------------------------------------


def test_a_context_queues_on_the_current_stream(gpu: FakeCUDA) -> None:
    context = current_context(GPU)
    assert isinstance(context, CUDAContext)
    assert context.stream is stream_pool(GPU).default is current_stream(GPU)
    other = stream_pool(GPU).take("high")
    with streaming(other):
        assert current_context(GPU).stream is other
    assert current_context(GPU) is context
    with pytest.raises(ArgumentError, match="a context on cuda:0 does not queue on the stream cuda:1 high 1"):
        CUDAContext(CUDAPlace(0), other)
    assert context.scratch(500).place == GPU


def test_closing_waits_for_the_stream(gpu: FakeCUDA) -> None:
    context, log = current_context(GPU), list[str]()
    context.resource("handle", lambda: 1, lambda value: log.append("ended"))
    assert isinstance(context.stream, CUDAStream)
    gpu.launch(context.stream.handle, lambda: log.append("kernel"))
    context.close()
    assert log == ["kernel", "ended"]


def pinned(values: list[int]) -> Allocation:
    """Return page-locked memory with these bytes."""
    device_of(GPU)
    span = allocator_of(PinnedPlace()).allocate(len(values))
    span.buffer[:] = values
    return span


def test_copies_of_page_locked_memory_wait_for_nothing(gpu: FakeCUDA) -> None:
    source, target = pinned([1, 2, 3, 4]), pinned([0, 0, 0, 0])
    there = allocator_of(GPU).allocate(4)
    context, done = current_context(GPU), Event()
    gpu.hold()
    context.copy_bytes(source, there, 3, source_offset=1)
    context.copy_bytes(there, target, 2, source_offset=1, target_offset=2)
    context.record(done)
    assert target.buffer.tolist() == [0, 0, 0, 0]
    assert not done.query()
    gpu.go()
    assert done.wait()
    assert target.buffer.tolist() == [0, 0, 3, 4]


def test_spans_live_until_they_are_copied(gpu: FakeCUDA) -> None:
    source, target = pinned([5, 6]), pinned([0, 0])
    there, view = allocator_of(GPU).allocate(2), target.buffer
    context = current_context(GPU)
    gpu.hold()
    context.copy_bytes(source, there, 2)
    context.copy_bytes(there, target, 2)
    del source, there
    target.close()
    gc.collect()
    for place in (GPU, PinnedPlace()):
        assert allocator_of(place).statistics.in_use_bytes >= 2, "still needed"
    gpu.go()
    context.wait()
    assert view.tolist() == [5, 6]
    wait_until(lambda: allocator_of(GPU).statistics.in_use_bytes == 0)


def test_copies_of_ordinary_memory_have_ended_on_return(gpu: FakeCUDA) -> None:
    context, host = current_context(GPU), ta.arange(6, dtype="float32")
    there, back = Tensor((6,), place=GPU), Tensor((6,))
    assert isinstance(context.stream, CUDAStream)
    for source, target in ((host, there), (there, back)):
        gate = threading.Event()
        gpu.launch(context.stream.handle, lambda gate=gate: gate.wait(60))
        timer = threading.Timer(0.005, gate.set)
        timer.start()
        context.copy(source, target)
        assert gate.is_set()
        host.assign(np.zeros(6, np.float32))
        timer.join()
    assert back.tolist() == [0, 1, 2, 3, 4, 5]


def test_what_a_context_does_not_copy(gpu: FakeCUDA) -> None:
    context = current_context(GPU)
    here, there = Tensor((2, 3)), Tensor((2, 3), place=GPU)
    with pytest.raises(UnsupportedError, match="a context of cpu does not copy from cpu to cuda:1"):
        CPUContext().copy(here, there)
    with pytest.raises(DTypeError, match="strings are not copied from cpu to cuda:1"):
        context.copy(Tensor((2,), DataType.STRING), Tensor((2,), DataType.STRING, GPU))
    dims = (2, 3, 5, 7)
    odd = Tensor(dims, place=GPU, layout=channels_last(dims))
    with pytest.raises(UnsupportedError, match="one layout without gaps is needed"):
        context.copy(odd, Tensor(dims))
    with pytest.raises(ArgumentError, match="9 bytes at byte 0 do not lie inside of target"):
        context.copy_bytes(pinned([0] * 9), allocator_of(GPU).allocate(8), 9)


def test_tensors_go_there_and_back(gpu: FakeCUDA) -> None:
    dims = (2, 3, 5, 7)
    values = np.arange(210, dtype=np.float32).reshape(dims)
    x = Tensor.from_numpy(values)
    for place in ("cpu", "pinned", "cuda:0"):
        there = x.to_device(place).to_device(GPU)
        assert gpu.kind_at(there.address) == "device 1010"
        for back in ("cpu", "pinned"):
            assert there.to_device(back).tolist() == values.tolist()
        assert there.to_device("cuda:0").to_device("cpu").tolist() == values.tolist()
    odd = ta.to_layout(x, channels_last(dims))
    assert odd.to_device(GPU).to_device("cpu").tolist() == values.tolist()
    assert x[0, :, 1:3].to_device(GPU).to_device("cpu").tolist() == values[0, :, 1:3].tolist()
    empty = Tensor((0, 3)).to_device(GPU)
    assert (empty.shape, empty.place) == ((0, 3), GPU)


@pytest.mark.parametrize("later", ["source", "target"])
def test_copies_between_devices_are_in_order_with_both(gpu: FakeCUDA, later: str) -> None:
    x = ta.arange(4, dtype="float32").to_device(CUDAPlace(0))
    source, target = current_context(CUDAPlace(0)), current_context(GPU)
    assert isinstance(source.stream, CUDAStream)
    assert isinstance(target.stream, CUDAStream)
    values = gpu.memory[x.address][0].view(np.float32)
    slow, slower = threading.Event(), threading.Event()  # what the source and what the target has before the copy
    gpu.launch(source.stream.handle, lambda: values.fill(7), after=slow)
    gpu.launch(target.stream.handle, lambda: None, after=slower)
    y = x.to_device(GPU)
    gpu.launch(source.stream.handle, lambda: values.fill(8))
    for gate in (slow, slower) if later == "target" else (slower, slow):
        beside = Event()  # who overtakes has time to do so
        stream_pool(GPU).take().record(beside)
        beside.wait()
        gate.set()
    target.wait()
    assert y.to_device("cpu").tolist() == [7] * 4
