"""A driver that answers as NVIDIA's manual says, without a GPU: memory of the host, streams worked off by a thread.

Its functions are real C function pointers of the types that `tazza.device.cuda.driver` declares, so a call with other
arguments fails as it would there. It is stricter than the real one: ordinary memory of the host is read and written
when the stream gets there, never before; every call needs the current context of what it is about.

Where others assemble PTX it takes the text that PTX is made of, and runs that on the CPU.

Its clock is its own: each piece of work takes a millisecond. With `delays` it is as late as can be: nothing is done
before somebody waits or asks, and then that of the first stream in their order which can go on. `tamper` does another
thing than what was asked for. Memory that is given back stays readable, and no kernel may be given it.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tazza.codegen import nvptx
from tazza.device import context, initializer, stream
from tazza.device.cuda import driver, event
from tazza.device.cuda.driver import DECLARATIONS, NOT_READY, OUT_OF_MEMORY, SUCCESS
from tazza.tensor import ALLOCATORS, allocation
from tests.cuda_grid import Grid, grid_of
from tests.device.cuda_graphs import FakeGraphs
from tests.device.cuda_status import (
    INVALID_CODE,
    INVALID_CONTEXT,
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_FOUND,
    NOT_PERMITTED,
    TEXTS,
    TIMED_OUT,
)  # fmt: skip
from tests.device.happens import Mark, Order

NEEDS_CONTEXT = ("cuStream", "cuEvent", "cuMem", "cuLaunch", "cuModule", "cuGraph")
POLL_S, IDLE_POLL_S = 0.0002, 0.004
"""How long the thread sleeps where it can do nothing, at first and at last: who queues or waits wakes it, and looks for
what the host writes into counters are all that is left."""

LOOKED_AT = 4
"""Bytes of what a kernel was given that are compared: every tensor has as many."""
GIVE_UP_S = 20.0
"""How long a caller waits for the end of work while nothing is done: machines may be slow."""

Step = Callable[[], bool]
"""Does a piece of work of a stream; False where it has to wait."""
Tamper = Callable[[str, tuple[Any, ...]], int | None]
"""Looks at a call before it is made, may do something else, and answers then; None: the call goes on."""


class FakeStream:
    """Work in order."""

    def __init__(self, context: int, priority: int) -> None:
        self.context, self.priority = context, priority
        self.steps: deque[Step] = deque()


Delays = Callable[[list[FakeStream]], list[FakeStream]]
"""Returns streams in the order in which they are asked whether they can go on."""


class FakeEvent:
    """What was recorded last; who waits for a recording is not held up, or let go, by later ones."""

    def __init__(self, context: int) -> None:
        self.context = context
        self.last = Mark()
        self.last.at_ms = 0


class FakeCUDA(FakeGraphs):
    """The driver. `library` has its functions; `calls` are the names of those that were called."""

    def __init__(self, devices: int = 2, memory_bytes: int = 3 << 20) -> None:
        """Start the thread that works for all streams."""
        super().__init__()
        self.devices, self.memory_bytes = devices, memory_bytes
        self.answers: dict[str, int] = {}
        """Statuses that functions answer instead of doing anything."""
        self.sticky = SUCCESS
        """What every function of a context answers after work of a device failed."""
        self.calls: list[str] = []
        self.faults: list[str] = []
        self.streams: dict[int, FakeStream] = {}
        self.events: dict[int, FakeEvent] = {}
        self.memory: dict[int, tuple[Any, str]] = {}
        self.given_back: list[Any] = []
        self.order = Order()
        self.delays: Delays | None = None
        self.tamper: Tamper | None = None
        self.modules: dict[int, str] = {}
        self.kernels: dict[int, Grid] = {}
        self.results: dict[int, int] = {}
        """How many of the operands of a kernel, the last ones, it writes."""
        self.retained = self.clock_ms = 0
        self._handles = itertools.count(1000)
        self._texts: list[Any] = []
        self._threads = threading.local()
        self._changed = threading.Condition()
        self._going = threading.Event()
        self._going.set()
        self._closed = False
        self._waiting = self._asked = 0  # threads that wait; questions that were answered with no
        self.library: Any = SimpleNamespace()
        for name, types in DECLARATIONS.items():
            setattr(self.library, name, ctypes.CFUNCTYPE(ctypes.c_int, *types)(self._function(name)))
        self._worker = threading.Thread(target=self._serve, daemon=True)
        self._worker.start()

    def _function(self, name: str) -> Callable[..., int]:
        function: Callable[..., int] = getattr(self, name)

        def call(*args: Any) -> int:
            self.calls.append(name)
            if getattr(self._threads, "in_host_function", False):
                self.faults.append(f"{name} was called by a host function")
                return NOT_PERMITTED
            if name in self.answers:
                return self.answers[name]
            if name.startswith(NEEDS_CONTEXT):
                if not self._stack:
                    return INVALID_CONTEXT
                if self.sticky:
                    return self.sticky
            done = self.refused(name, args)
            if done is None and self.tamper is not None:
                done = self.tamper(name, args)
            return function(*args) if done is None else done

        return call

    # -- what tests do -------------------------------------------------------------------------------------------------

    def launch(self, stream: int, work: Callable[[], object], *, after: threading.Event | None = None) -> int:
        """Queue a kernel, which other streams overtake until `after` is set; return the status."""

        def step() -> bool:
            if after is not None and not after.is_set():
                return False
            work()
            return True

        return self.work(stream, ((), ()), step)

    def hold(self) -> None:
        """Let no stream get any further."""
        self._going.clear()

    def go(self) -> None:
        """Let streams go on."""
        self._going.set()

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._going.set()
        self._worker.join()

    # -- how work is done ----------------------------------------------------------------------------------------------

    def _queue(self, stream: int, step: Step) -> None:
        with self._changed:
            self.streams[stream].steps.append(step)
            self._changed.notify_all()

    def _serve(self) -> None:
        sleep_s = POLL_S
        while not self._closed:
            self._going.wait()
            if self._turn() if self.delays is None else self._late_turn(self.delays):
                sleep_s = POLL_S
                continue
            with self._changed:
                woken = self._changed.wait(sleep_s)
            sleep_s = POLL_S if woken else min(2 * sleep_s, IDLE_POLL_S)

    def _turn(self) -> bool:
        """Let every stream go on; False where none could."""
        return any([self._advance(stream) for stream in list(self.streams.values())])

    def _late_turn(self, delays: Delays) -> bool:
        """Let one stream go on, if somebody waits for that; False where none did."""
        with self._changed:
            if not self._waiting and not self._asked:
                return False
            self._asked = max(0, self._asked - 1)
        return any(self._advance(stream) for stream in delays(list(self.streams.values())))

    def _advance(self, stream: FakeStream) -> bool:
        if not stream.steps or not stream.steps[0]():
            return False
        with self._changed:
            self.clock_ms += 1
            stream.steps.popleft()
            self._changed.notify_all()
        return True

    def _wait(self, ended: Callable[[], bool]) -> int:
        done, end_s = -1, 0.0
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            try:
                while not ended():
                    if self.sticky:
                        return self.sticky
                    if done != self.clock_ms:
                        done, end_s = self.clock_ms, time.monotonic() + GIVE_UP_S
                    elif time.monotonic() > end_s:
                        return TIMED_OUT
                    self._changed.wait(IDLE_POLL_S)
            finally:
                self._waiting -= 1
        return SUCCESS

    def _not_yet(self) -> int:
        """Answer that something has not ended, and let one piece of work be done."""
        with self._changed:
            self._asked += 1
            self._changed.notify_all()
        return NOT_READY

    @property
    def _stack(self) -> list[int]:
        stack: list[int] = self._threads.__dict__.setdefault("stack", [])
        return stack

    def _own(self, context: int) -> bool:
        return bool(self._stack) and self._stack[-1] == context

    # -- devices and contexts ------------------------------------------------------------------------------------------

    def cuInit(self, flags: int) -> int:
        """Succeed."""
        return SUCCESS

    def cuGetErrorString(self, status: int, text: Any) -> int:
        """Tell what a status means."""
        self._texts.append(ctypes.c_char_p(TEXTS.get(status, b"unknown")))
        text[0] = self._texts[-1]
        return SUCCESS

    def cuDeviceGetCount(self, count: Any) -> int:
        """Tell how many devices there are."""
        count[0] = self.devices
        return SUCCESS

    def cuDeviceGet(self, device: Any, index: int) -> int:
        """Tell the number of a device."""
        device[0] = 100 + index
        return SUCCESS

    def cuDeviceGetName(self, name: Any, nbytes: int, device: int) -> int:
        """Tell the name."""
        ctypes.memmove(name, f"GPU {device}".encode() + b"\0", len(f"GPU {device}") + 1)
        return SUCCESS

    def cuDeviceTotalMem_v2(self, memory_bytes: Any, device: int) -> int:
        """Tell the memory."""
        memory_bytes[0] = self.memory_bytes
        return SUCCESS

    def cuDeviceGetAttribute(self, value: Any, number: int, device: int) -> int:
        """Tell an attribute: here its number."""
        value[0] = number
        return SUCCESS

    def cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> int:
        """Give the one context of a device."""
        self.retained += 1
        context[0] = 10 * device
        return SUCCESS

    def cuDevicePrimaryCtxRelease_v2(self, device: int) -> int:
        """Take it back."""
        self.retained -= 1
        return SUCCESS

    def cuCtxGetCurrent(self, context: Any) -> int:
        """Tell the top of the thread's stack; it may be empty."""
        context[0] = self.current
        return SUCCESS

    def cuCtxPushCurrent_v2(self, context: int) -> int:
        """Push."""
        self._stack.append(context)
        return SUCCESS

    def cuCtxPopCurrent_v2(self, context: Any) -> int:
        """Pop."""
        if not self._stack:
            return INVALID_CONTEXT
        context[0] = self._stack.pop()
        return SUCCESS

    @property
    def current(self) -> int | None:
        """The current context of the calling thread."""
        return self._stack[-1] if self._stack else None

    def cuCtxGetStreamPriorityRange(self, least: Any, greatest: Any) -> int:
        """Tell the range."""
        least[0], greatest[0] = 0, -5
        return SUCCESS

    # -- streams -------------------------------------------------------------------------------------------------------

    def cuStreamCreateWithPriority(self, stream: Any, flags: int, priority: int) -> int:
        """Make a stream of the current context."""
        handle = stream[0] = next(self._handles)
        self.streams[handle] = FakeStream(self._stack[-1], priority)
        return SUCCESS

    def cuStreamDestroy_v2(self, stream: int) -> int:
        """End a stream when its work has ended."""
        found = self.streams[stream]

        def step() -> bool:
            self.streams.pop(stream, None)
            return True

        found.steps.append(step)
        return SUCCESS

    def cuStreamQuery(self, stream: int) -> int:
        """Tell whether all is done."""
        if self.streams[stream].steps:
            return self._not_yet()
        self.order.host_waits_for(stream)
        return SUCCESS

    def cuStreamSynchronize(self, stream: int) -> int:
        """Wait for all that is queued."""
        status = self._wait(lambda: not self.streams[stream].steps)
        if status == SUCCESS:
            self.order.host_waits_for(stream)
        return status

    def cuStreamWaitEvent(self, stream: int, event: int, flags: int) -> int:
        """Queue a wait for what was recorded last."""
        mark = self.events[event].last
        self.order.wait(stream, mark.before)
        self._queue(stream, lambda: mark.at_ms is not None)
        return SUCCESS

    def cuStreamWaitValue32_v2(self, stream: int, address: int, value: int, flags: int) -> int:
        """Queue a wait for a number in memory."""
        if flags != 0 or self.memory.get(address, (None, ""))[1] != "pinned":
            return INVALID_VALUE
        counter = ctypes.c_uint32.from_address(address)
        self._queue(stream, lambda: (counter.value - value) % (1 << 32) < 1 << 31)
        return SUCCESS

    def cuLaunchHostFunc(self, stream: int, function: Any, data: Any) -> int:
        """Queue a call of a function of the host."""
        if not self._own(self.streams[stream].context):
            return INVALID_HANDLE

        def step() -> bool:
            self._threads.in_host_function = True
            try:
                function(data)
            finally:
                self._threads.in_host_function = False
            return True

        self._queue(stream, step)
        return SUCCESS

    # -- events --------------------------------------------------------------------------------------------------------

    def cuEventCreate(self, event: Any, flags: int) -> int:
        """Make an event of the current context."""
        handle = event[0] = next(self._handles)
        self.events[handle] = FakeEvent(self._stack[-1])
        return SUCCESS

    def cuEventRecord(self, event: int, stream: int) -> int:
        """Queue its end."""
        found = self.events[event]
        if found.context != self.streams[stream].context or not self._own(found.context):
            return INVALID_HANDLE
        mark = found.last = Mark()
        mark.before = self.order.record(stream)

        def step() -> bool:
            mark.at_ms = self.clock_ms
            return True

        self._queue(stream, step)
        return SUCCESS

    def cuEventQuery(self, event: int) -> int:
        """Tell whether it was reached."""
        mark = self.events[event].last
        if mark.at_ms is None:
            return self._not_yet()
        self.order.host_waits(mark.before)
        return SUCCESS

    def cuEventSynchronize(self, event: int) -> int:
        """Wait for it."""
        mark = self.events[event].last
        status = self._wait(lambda: mark.at_ms is not None)
        if status == SUCCESS:
            self.order.host_waits(mark.before)
        return status

    def cuEventElapsedTime(self, milliseconds: Any, start: int, end: int) -> int:
        """Tell the time between two events."""
        marks = [self.events[event].last.at_ms for event in (start, end)]
        if marks[0] is None or marks[1] is None:
            return NOT_READY
        milliseconds[0] = float(marks[1] - marks[0])
        return SUCCESS

    # -- memory --------------------------------------------------------------------------------------------------------

    def _take(self, nbytes: int, kind: str) -> int | None:
        used = sum(array.nbytes for array, _ in self.memory.copy().values())
        if used + nbytes > self.memory_bytes:
            return None
        array = np.zeros(nbytes, np.uint8)
        self.memory[array.ctypes.data] = array, kind
        return array.ctypes.data

    def cuMemAlloc_v2(self, address: Any, nbytes: int) -> int:
        """Take memory of the device."""
        found = self._take(nbytes, f"device {self._stack[-1]}")
        if found is None:
            return OUT_OF_MEMORY
        address[0] = found
        return SUCCESS

    def cuMemHostAlloc(self, address: Any, nbytes: int, flags: int) -> int:
        """Take page-locked memory."""
        address[0] = self._take(nbytes, "pinned")
        return SUCCESS if address[0] else OUT_OF_MEMORY

    def cuMemFree_v2(self, address: int) -> int:
        """Give memory back."""
        found = self.memory.pop(address, None)
        self.given_back.append(found)
        return INVALID_VALUE if found is None else SUCCESS

    def cuMemFreeHost(self, address: int) -> int:
        """Give page-locked memory back."""
        return self.cuMemFree_v2(address)

    def kind_at(self, address: int) -> str:
        """Tell whose memory an address is."""
        for start, (array, kind) in self.memory.copy().items():
            if start <= address < start + array.nbytes:
                return kind
        return "ordinary"

    def cuMemcpyAsync(self, target: int, source: int, nbytes: int, stream: int) -> int:
        """Queue a copy."""
        kinds = self.kind_at(target), self.kind_at(source)

        def step() -> bool:
            if (self.kind_at(target), self.kind_at(source)) != kinds:
                self.faults.append("memory was given back before it was copied")
            else:
                ctypes.memmove(target, source, nbytes)
            return True

        return self.work(stream, ([source], [target]), step, to_host=not kinds[0].startswith("device"))

    def cuMemsetD32Async(self, target: int, word: int, count: int, stream: int) -> int:
        """Queue words of one number."""
        given = (ctypes.c_uint32 * count)(*[word] * count)
        return self.work(stream, ([], [target]), lambda: bool(ctypes.memmove(target, given, 4 * count)))

    # -- kernels -------------------------------------------------------------------------------------------------------

    def cuModuleLoadDataEx(self, module: Any, image: Any, count: int, options: Any, values: Any) -> int:
        """Take code, or say in the buffer for errors what is wrong with it."""
        text = ctypes.cast(image, ctypes.c_char_p).value
        given = {options[i]: values[i] for i in range(count)}
        if text is None or b"ptx_kernel" not in text:
            ctypes.memmove(given[5], b"fatal: no kernel in it\0", 23)
            return INVALID_CODE
        handle = module[0] = next(self._handles)
        self.modules[handle] = text.decode()
        return SUCCESS

    def cuModuleGetFunction(self, function: Any, module: int, name: bytes) -> int:
        """Give a kernel of a module."""
        if f"@{name.decode()}(" not in self.modules[module]:
            return NOT_FOUND
        handle = function[0] = next(self._handles)
        self.kernels[handle] = grid_of(self.modules[module], name.decode())
        self.results[handle] = max(1, self.modules[module].count("store "))
        return SUCCESS

    def cuLaunchKernel(self, function: int, *given: Any) -> int:
        """Queue a kernel; its arguments are copied now."""
        blocks, _, _, threads, _, _, _, stream, parameters, extra = given
        if blocks == 0 or threads == 0 or parameters or (extra[0], extra[2], extra[4]) != (1, 2, None):
            return INVALID_VALUE
        size = ctypes.c_size_t.from_address(extra[3]).value
        words = list((ctypes.c_int64 * (size // 8)).from_address(extra[1]))
        if not self._own(self.streams[stream].context):
            return INVALID_HANDLE
        strange = [word for word in words if 1 << 40 <= word < 1 << 47 and self.kind_at(word) == "ordinary"]
        if strange:  # numbers are smaller; as bits of a float64 they would be none that anybody computes with
            self.faults.append(f"a kernel was given {strange[0]:#x}, which no device can read")
        touched = [word for word in words if self.kind_at(word).startswith("device")]
        end = len(touched) - self.results[function]  # as kernels of formulas of one element a thread: the last ones
        touches = touched[: max(end, 0)], touched[max(end, 0) :]
        return self.work(stream, touches, lambda: self._run(function, (blocks, threads, words), touches))

    def _run(self, function: int, given: tuple[int, int, list[int]], touches: tuple[list[int], list[int]]) -> bool:
        """Run a kernel; where the order counts, see that it leaves alone all but what it was given last."""
        read = set(touches[0]) - set(touches[1]) if self.delays is not None else ()
        before = {at: ctypes.string_at(at, LOOKED_AT) for at in read}
        self.kernels[function](*given)
        wrong = [at for at, held in before.items() if ctypes.string_at(at, LOOKED_AT) != held]
        self.faults += [f"a kernel wrote at {at:#x}, which it was not given last" for at in wrong]
        return True


def _uncompiled(key: str, kind: str, build: Callable[[str], bytes]) -> tuple[str, bytes]:
    """Return a kernel's code without a look at what was kept."""
    name = f"{kind}_{zlib.crc32(key.encode()):08x}"
    return name, build(name)


@contextmanager
def fake_cuda(memory_bytes: int = 3 << 20) -> Generator[FakeCUDA]:
    """Let there be two devices of a fake driver until the block ends; what tazza knew of devices is put back."""
    fake = FakeCUDA(memory_bytes=memory_bytes)
    former = {name: ALLOCATORS.entry(name) for name in ("cuda", "pinned")}  # those of a real device, where there is one
    ALLOCATORS.unregister("cuda")
    patch = pytest.MonkeyPatch()
    patch.setattr(driver, "_loaded", driver.Driver(fake.library))
    patch.setattr(event, "SPIN_S", 0.0)  # it is the waits that are counted, and dropped
    patch.setattr(initializer, "_found", None)
    patch.setattr(stream, "_pools", {})
    patch.setattr(allocation, "_made", {})
    patch.setattr(context, "_kept", context._Kept())  # pyright: ignore[reportPrivateUsage] -- contexts of its own
    patch.setattr(nvptx, "ptx_of", str)
    patch.setattr(nvptx, "kept_code", _uncompiled)
    try:
        yield fake
        assert fake.faults == [], fake.faults
    finally:
        patch.undo()
        for name, entry in former.items():
            ALLOCATORS.unregister(name)
            if entry is not None:
                ALLOCATORS.register(name, entry.value, help=entry.help, priority=entry.priority)
        gc.collect()  # what is left of the devices is ended while the driver is there
        fake.go()
        fake.close()
