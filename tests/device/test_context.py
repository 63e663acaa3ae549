"""Contexts: copies, and the end of what they hold."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tazza.device import Context, CPUContext, Event, current_context, streaming
from tazza.errors import ArgumentError, DTypeError, ShapeError, UnsupportedError
from tazza.tensor import Allocation, CPUPlace, CUDAPlace, DataType, Tensor, channels_last, default_allocator
from tests.device.host_stream import HostStream

Array = np.ndarray


def span(nbytes: int) -> Allocation:
    """Return memory that counts up."""
    made = default_allocator().allocate(nbytes)
    made.buffer[:] = np.arange(nbytes, dtype=np.uint8)
    return made


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.booleans(), st.booleans())
def test_bytes_are_copied_inside_of_spans_only(
    nbytes: int, source_offset: int, target_offset: int, same: bool, streamed: bool
) -> None:
    source = span(37)
    target = source if same else span(31)
    expected = target.buffer.copy()
    stream = HostStream(CPUPlace(), 0) if streamed else None
    context = CPUContext(CPUPlace(), stream)
    if source_offset + nbytes > source.nbytes or target_offset + nbytes > target.nbytes:
        with pytest.raises(ArgumentError, match="do not lie inside of"):
            context.copy_bytes(source, target, nbytes, source_offset=source_offset, target_offset=target_offset)
    else:
        expected[target_offset : target_offset + nbytes] = source.buffer[source_offset : source_offset + nbytes].copy()
        context.copy_bytes(source, target, nbytes, source_offset=source_offset, target_offset=target_offset)
    context.wait()
    assert target.buffer.tolist() == expected.tolist()


def test_spans_that_cannot_be_copied() -> None:
    context, source = CPUContext(), span(8)
    for wrong in ({"source_offset": -1}, {"target_offset": -1}):
        with pytest.raises(ArgumentError, match="8 bytes at byte -1 do not lie inside of"):
            context.copy_bytes(source, span(8), 8, **wrong)
    with pytest.raises(ArgumentError, match="-1 bytes at byte 0 do not lie inside of source"):
        context.copy_bytes(source, span(8), -1)
    fixed = np.zeros(8, np.uint8)
    fixed.flags.writeable = False
    with pytest.raises(ArgumentError, match="can only be read"):
        context.copy_bytes(source, Allocation.adopt(fixed), 8)
    away = Allocation(CUDAPlace(1), 1 << 20, 8, memory=None, owner=object())
    with pytest.raises(
        UnsupportedError, match=r"a context of cpu does not copy from cpu to cuda:1\n.*ask one of cuda:1"
    ):
        context.copy_bytes(source, away, 8)
    closed = span(8)
    closed.close()
    with pytest.raises(ArgumentError, match=r"do not lie inside of source, .*closed"):
        context.copy_bytes(closed, source, 8)


def test_copies_are_in_order_with_the_work_of_the_stream() -> None:
    stream, gate = HostStream(CPUPlace(), 0), Event()
    context = CPUContext(CPUPlace(), stream)
    source, target = span(16), default_allocator().allocate(16)
    target.buffer.fill(0)
    view = target.buffer
    stream.wait_for(gate)
    stream.submit(lambda: source.buffer.fill(9))
    context.copy_bytes(source, target, 16)
    target.close()  # the copy keeps the memory
    assert view.tolist() == [0] * 16, "it has to wait"
    gate.finish()
    context.wait()
    assert view.tolist() == [9] * 16


@pytest.mark.parametrize("streamed", [False, True])
def test_tensors_are_copied_whatever_their_layouts(streamed: bool) -> None:
    dims = (2, 3, 5, 7)
    values = np.arange(210, dtype=np.float32).reshape(dims)
    context = CPUContext(CPUPlace(), HostStream(CPUPlace(), 0) if streamed else None)
    source, target = Tensor.from_numpy(values), Tensor(dims, layout=channels_last(dims))
    version = target.storage.version
    context.copy(source, target)
    context.wait()
    assert target.plain().tolist() == values.tolist()
    assert target.layout == channels_last(dims)
    assert target.storage.version > version
    text = Tensor.from_numpy(np.array([b"a", b"bc"], object))
    other = Tensor((2,), DataType.STRING)
    context.copy(text, other)
    context.wait()
    assert other.tolist() == [b"a", b"bc"]


def test_tensors_that_do_not_fit() -> None:
    context, x = CPUContext(), Tensor.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    with pytest.raises(ShapeError, match=r"extents of the source \(2, 3\) != \(3, 2\) of the target"):
        context.copy(x, Tensor((3, 2)))
    with pytest.raises(DTypeError, match="source of FLOAT != target of DOUBLE"):
        context.copy(x, Tensor((2, 3), DataType.DOUBLE))
    with pytest.raises(UnsupportedError, match="does not copy from cpu to cuda:0"):
        context.copy(x, Tensor((2, 3), place=CUDAPlace(0)))


def hold(context: Context, log: list[str], name: str) -> None:
    """Let a context have something that notes its end."""
    context.resource(name, lambda: name, lambda value: log.append(f"{value} ended"))


def test_what_a_context_holds_ends_when_nobody_refers_to_it() -> None:
    log: list[str] = []
    context = CPUContext()
    hold(context, log, "first")
    hold(context, log, "second")
    context.scratch(100)
    in_use = default_allocator().statistics.in_use_bytes
    del context
    gc.collect()
    assert log == ["second ended", "first ended"]
    assert default_allocator().statistics.in_use_bytes <= in_use - 100


def test_what_the_contexts_of_a_thread_hold_ends_with_it() -> None:
    """Although somebody still refers to one of them."""
    log: list[str] = []
    kept: list[Context] = []
    stream = HostStream(CPUPlace(), 0)

    def work() -> None:
        kept.append(current_context(CPUPlace()))
        hold(kept[0], log, "kept")
        with streaming(stream):
            hold(current_context(CPUPlace()), log, "on a stream")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    gc.collect()
    assert sorted(log) == ["kept ended", "on a stream ended"]
    hold(kept[0], log, "again")
    kept[0].close()
    assert log[2:] == ["again ended"]


def test_one_resource_that_cannot_end_keeps_no_other(caplog: pytest.LogCaptureFixture) -> None:
    context, log = CPUContext(), list[str]()

    def refuse(value: str) -> None:
        raise ValueError("will not end")

    hold(context, log, "first")
    context.resource("second", lambda: "x", refuse)
    context.close()
    assert log == ["first ended"]
    assert "resource 'second' of a context could not be closed" in caplog.text


CYCLES = """
import gc, sys, threading
from tazza.device import current_context
from tazza.tensor import CPUPlace, default_allocator

def cycle():
    thread = threading.Thread(target=lambda: current_context(CPUPlace()).scratch(1000))
    thread.start()
    thread.join()

def left():
    gc.collect()
    statistics = default_allocator().statistics
    return statistics.in_use_bytes, statistics.count, threading.active_count()

cycle()
before = left()
for _ in range(int(sys.argv[1])):
    cycle()
print(before == left(), before, left())
"""


@pytest.mark.slow
@pytest.mark.parametrize("cycles", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_byte_is_left_of_threads_that_are_gone(cycles: int) -> None:
    """In a process of its own, where nothing of other tests comes or goes meanwhile."""
    process = subprocess.run([sys.executable, "-c", CYCLES, str(cycles)], capture_output=True, text=True, check=False)
    assert process.stdout.startswith("True"), process.stdout + process.stderr
