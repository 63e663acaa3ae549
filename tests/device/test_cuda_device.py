"""CUDA devices that are really there: streams, events, copies, kernels; skipped with the reason where there is none."""

from __future__ import annotations

import ctypes
import subprocess
import sys
import threading
from collections.abc import Sequence

import numpy as np
import pytest

import tazza.array as ta
from tazza.codegen.kernel import unavailable
from tazza.codegen.nvptx import ptx_of
from tazza.device import Event, current_context, device_of, initialize_devices, stream_pool, streaming
from tazza.device.cuda import CUDAEvent, CUDAStream, cuda_device
from tazza.device.cuda.module import Arguments, CUDAModule, launch, loaded
from tazza.errors import KernelError, OutOfMemoryError
from tazza.tensor import CPUPlace, CUDAPlace, DataType, PinnedPlace, Tensor, allocator_of
from tazza.tensor.expression import Expression
from tests.cuda_there import why_no_device
from tests.device.host_stream import HostStream
from tests.grid_kernels import elementwise, row_sums

pytestmark = pytest.mark.skipif(why_no_device() is not None, reason=str(why_no_device()))

GPU = CUDAPlace(0)
LONG_S = 60.0

SPIN = """
.version 6.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 turns)
{
  .reg .pred %p;
  .reg .b64 %n, %t, %u;
  ld.param.u64 %n, [turns];
  mov.u64 %t, %clock64;
again:
  mov.u64 %u, %clock64;
  sub.u64 %u, %u, %t;
  setp.lt.u64 %p, %u, %n;
  @%p bra again;
  ret;
}
"""
"""Waits for so many cycles of the device."""


def take(priority: str = "normal") -> CUDAStream:
    """Return the next stream of the device."""
    stream = stream_pool(GPU).take(priority)
    assert isinstance(stream, CUDAStream)
    return stream


def arguments(*values: int) -> Arguments:
    """Return the arguments of a kernel."""
    return Arguments(np.array(values, np.int64))


def spin(stream: CUDAStream, cycles: int) -> None:
    """Keep a stream busy."""
    function = loaded(stream.device, "spin", SPIN)
    launch(stream.device, function, (1, 1), stream.handle, arguments(cycles))


def run_kernel(text: str, name: str, grid: tuple[int, int], tensors: Sequence[Tensor], *numbers: int) -> None:
    """Assemble, load and launch a kernel on the current stream."""
    stream = current_context(GPU).stream
    assert isinstance(stream, CUDAStream)
    function = CUDAModule(stream.device, ptx_of(text).encode()).function(name)
    given = arguments(*(tensor.address for tensor in tensors), *numbers)
    launch(stream.device, function, grid, stream.handle, given)


def test_the_device_says_what_it_is() -> None:
    found = device_of(GPU).properties
    print("device:", found)
    assert found.memory_bytes is not None
    assert found.memory_bytes > 1 << 30
    assert found.parallel_units > 0
    assert found.features[0].startswith("compute capability ")


def test_streams_have_the_drivers_priorities() -> None:
    least, greatest = cuda_device(GPU).priorities
    assert greatest <= 0 <= least or greatest <= least
    normal, high = take(), take("high")
    assert normal.handle != high.handle


def test_events_end_with_the_work_before_them() -> None:
    stream, event = take(), Event()
    spin(stream, 200_000_000)
    stream.record(event)
    assert isinstance(event.device, CUDAEvent)
    assert not event.query()
    assert not stream.query()
    assert not event.wait(0.001)
    assert event.wait(LONG_S)
    assert stream.query()


def test_time_between_events_is_the_devices() -> None:
    stream, first, second = take(), Event(), Event()
    spin(stream, 1)
    stream.record(first)
    spin(stream, 20_000_000)
    stream.record(second)
    second.wait()
    first.wait()
    elapsed = second.elapsed_s(first)
    assert elapsed is not None
    assert 20_000_000 / 4e9 < elapsed < 1, "no device runs at 4 GHz"


def test_streams_wait_for_each_other_on_the_device() -> None:
    n = 1 << 20
    first, second, event = take(), take(), Event()
    x = ta.ones((n,), dtype="float32").to_device(GPU)
    y, back = Tensor((n,), place=GPU), Tensor((n,), place=PinnedPlace())
    current_context(GPU).wait()
    with streaming(first):
        spin(first, 100_000_000)
        current_context(GPU).copy(x, y)
        first.record(event)
    second.wait_for(event)
    with streaming(second):
        current_context(GPU).copy(y, back)
    assert not second.query()
    second.synchronize()
    assert back.tolist() == [1.0] * n


def test_pinned_copies_return_before_they_have_run() -> None:
    stream = take()
    values = np.arange(1 << 20, dtype=np.float32)
    source = Tensor(values.shape, place=PinnedPlace())
    source.assign(values)
    there, back = Tensor(values.shape, place=GPU), Tensor(values.shape, place=PinnedPlace())
    back.assign(np.zeros_like(values))
    there.reserve()  # the driver waits for the device's work before it gives memory
    with streaming(stream):
        spin(stream, 200_000_000)
        current_context(GPU).copy(source, there)
        current_context(GPU).copy(there, back)
        assert not stream.query()
        assert back.numpy()[5] == 0
    stream.synchronize()
    np.testing.assert_array_equal(back.numpy(), values)


def test_ordinary_memory_is_copied_on_return() -> None:
    values = np.arange(210, dtype=np.float32).reshape(2, 3, 5, 7)
    x = Tensor.from_numpy(values)
    for place in ("cpu", "pinned", "cuda:0"):
        there = x.to_device(place).to_device(GPU)
        for back in ("cpu", "pinned"):
            assert there.to_device(back).tolist() == values.tolist()
    assert x[0, :, 1:3].to_device(GPU).to_device("cpu").tolist() == values[0, :, 1:3].tolist()
    assert Tensor((0, 3)).to_device(GPU).shape == (0, 3)


def test_functions_of_the_host_are_called_in_order() -> None:
    stream, seen = take(), list[int]()
    for number in range(20):
        spin(stream, 1000)
        stream.submit(lambda number=number: seen.append(number))
    stream.synchronize()
    assert seen == list(range(20))


def test_a_function_of_the_host_that_fails() -> None:
    stream, other, seen = take(), take(), list[str]()
    before, after, passed_on = Event(), Event(), Event()

    def fail() -> None:
        raise ValueError("on the host")

    spin(stream, 50_000_000)
    stream.record(before)
    stream.submit(fail)
    stream.submit(lambda: seen.append("skipped"))
    stream.record(after)
    other.wait_for(after)
    other.record(passed_on)
    assert before.wait(LONG_S)
    for event in (after, passed_on):
        with pytest.raises(ValueError, match="on the host"):
            event.wait(LONG_S)
    for each in (stream, other):
        with pytest.raises(ValueError, match="on the host"):
            each.synchronize()
        each.synchronize()
    assert seen == []


def test_a_device_waits_for_the_host() -> None:
    stream, seen = take(), list[int]()
    events = [Event() for _ in range(3)]
    for number, event in enumerate(events):
        stream.wait_for(event)
        stream.submit(lambda number=number: seen.append(number))
    done = [Event() for _ in events]
    events[1].finish()
    beside = Event()
    take().record(beside)
    assert beside.wait(LONG_S)
    assert seen == []
    assert not stream.query()
    events[0].finish()
    events[2].finish()
    stream.record(done[0])
    assert done[0].wait(LONG_S)
    assert seen == [0, 1, 2]


def test_host_and_device_wait_for_each_other() -> None:
    stream, host, seen = take(), HostStream(CPUPlace(), 0), list[int]()
    for number in range(0, 20, 2):
        stream.submit(lambda number=number: seen.append(number))
        there, back = Event(), Event()
        stream.record(there)
        host.wait_for(there)
        host.submit(lambda number=number: seen.append(number + 1))
        host.record(back)
        stream.wait_for(back)
    stream.synchronize()
    assert seen == list(range(20))


def test_who_wants_to_be_told_is_told() -> None:
    stream, event, told = take(), Event(), threading.Event()
    spin(stream, 20_000_000)
    stream.record(event)
    event.on_done(lambda ended: told.set())
    assert not told.is_set()
    assert told.wait(LONG_S)


def test_a_context_is_current_inside_of_its_guard_and_put_back() -> None:
    context, device = current_context(GPU), cuda_device(GPU)
    current = ctypes.c_void_p()

    def now() -> int | None:
        device._driver.call("cuCtxGetCurrent", ctypes.byref(current))  # pyright: ignore[reportPrivateUsage] -- asked as libraries do
        return current.value

    before = now()
    context.enter()
    assert now() == device.handle.value
    context.leave()
    assert now() == before


def test_memory_that_is_not_there_is_an_error_and_nothing_else() -> None:
    with pytest.raises(OutOfMemoryError):
        allocator_of(GPU).allocate(1 << 50)
    assert ta.ones((3,), dtype="float32").to_device(GPU).to_device("cpu").tolist() == [1, 1, 1]


def test_memory_is_given_back_while_work_uses_it() -> None:
    stream = take()
    with streaming(stream):
        spin(stream, 50_000_000)
        there = ta.arange(1000, dtype="float32").to_device(GPU)
        back = Tensor((1000,), place=PinnedPlace())
        current_context(GPU).copy(there, back)
        del there
    stream.synchronize()
    assert back.tolist() == list(range(1000))


# -- kernels -----------------------------------------------------------------------------------------------------------

needs_compiler = pytest.mark.skipif(unavailable() is not None, reason=str(unavailable()))


@needs_compiler
@pytest.mark.parametrize("n", [1, 8, 1000, 1 << 20])
def test_a_pointwise_kernel(n: int) -> None:
    random = np.random.default_rng(n)
    a, b = (random.standard_normal(n).astype(np.float32) for _ in range(2))
    there = [Tensor.from_numpy(one).to_device(GPU) for one in (a, b)]
    result = Tensor((n,), place=GPU)
    kernel = elementwise(Expression.parse("where(isnan(a), 0, tanh(a) * exp(b))"), ("a", "b"), 256)
    run_kernel(kernel.text("curve"), "curve", (-(-n // 256), 256), [*there, result], n)
    np.testing.assert_allclose(result.plain(), np.tanh(a) * np.exp(b), rtol=2e-6)


@needs_compiler
@pytest.mark.parametrize("rows", [1, 300])
def test_a_reducing_kernel(rows: int) -> None:
    X = np.random.default_rng(rows).standard_normal((rows, 256))
    there, result = Tensor.from_numpy(X).to_device(GPU), Tensor((rows,), DataType.DOUBLE, GPU)
    run_kernel(row_sums(256).text("row_sums"), "row_sums", (rows, 256), [there, result])
    np.testing.assert_allclose(result.plain(), X.sum(1), rtol=1e-12)


def test_code_that_is_none_is_refused_with_what_the_assembler_says() -> None:
    with pytest.raises(KernelError, match="cuModuleLoadDataEx") as raised:
        CUDAModule(cuda_device(GPU), SPIN.replace("setp.lt.u64", "setp.lt.nothing").encode())
    print("hint:", raised.value.hint)
    assert "assembler says" in str(raised.value.hint)
    with pytest.raises(KernelError, match="cuModuleGetFunction"):
        CUDAModule(cuda_device(GPU), SPIN.encode()).function("spun")


FAILING = """
import numpy as np
from tazza.codegen.nvptx import ptx_of
from tazza.device import Event
from tazza.device.cuda.module import launch, loaded
from tazza.errors import KernelError
from tazza.tensor import Tensor
from tazza.tensor.expression import Expression
from tests.device.test_cuda_device import GPU, arguments, take
from tests.grid_kernels import elementwise

stream, event, told = take(), Event(), []
text = elementwise(Expression.parse("a"), ("a",), 32).text("kernel")
launch(stream.device, loaded(stream.device, "kernel", ptx_of(text)), (1, 32), stream.handle, arguments(64, 128, 32))
stream.record(event)
event.on_done(lambda ended: told.append(ended.error))
for wait in (event.wait, stream.synchronize, stream.query):
    try:
        wait()
    except KernelError as error:
        print("KernelError", error.message)
    else:
        print("nothing was raised by", wait)
try:
    Tensor.from_numpy(np.ones(3, np.float32)).to_device(GPU)
except KernelError as error:
    print("KernelError", error.message)
print("told", [type(one).__name__ for one in told])
"""


@needs_compiler
def test_a_kernel_that_fails_is_told_where_it_is_waited_for() -> None:
    """In a process of its own, since the failure ends the device's context."""
    done = subprocess.run([sys.executable, "-c", FAILING], capture_output=True, text=True, timeout=LONG_S, check=False)
    print(done.stdout, done.stderr[-2000:])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["KernelError"] * 4 + ["told"]
    assert "illegal memory access" in lines[0]


def test_devices_are_listed() -> None:
    assert GPU in initialize_devices().present
