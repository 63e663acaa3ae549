"""Streams of the NVIDIA driver.

Order with work of the host goes both ways without a thread that waits: a stream waits for an event of the host at a
counter in page-locked memory, which the event's end moves on; and a function of the host in a stream is called by the
driver. What waits at the counter waits in order, so it counts the events that have ended without a gap: the later one
of two may end first and opens nothing.

Work that was queued on a device cannot be taken back. So where an event that the stream waits for fails, what was
queued behind it still runs, on whatever is there; but events that are recorded behind it fail, functions of the host
do not run, and what is queued after the failure is known is skipped.

State: `_roots` (events of the host that may fail what follows), the counter's figures and the order of calls that
belong together change under `_lock`, under which nothing of others is called: no event that could call back is asked.
The counter stays when the stream dies, since the device may look at it once more.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from tazza.device.cuda.device import cuda_device
from tazza.device.cuda.driver import NOT_READY, end_with, new_handle
from tazza.device.cuda.event import CUDAEvent, Look, first_error
from tazza.device.event import Event, EventState
from tazza.device.stream import PRIORITIES, Stream, Work
from tazza.runtime.fork import freed_in_child
from tazza.tensor import Allocation, Place, allocator_of

_WAIT_AT_LEAST = 0  # CU_STREAM_WAIT_VALUE_GEQ, which compares as numbers that wrap around do
_WRAP = 1 << 32
_PORTABLE = 1  # CU_MEMHOSTALLOC_PORTABLE: all contexts may use it


class CUDAStream(Stream):
    """A stream of a CUDA device; `captures` where what is queued is recorded, and runs elsewhere."""

    captures = False

    def __init__(self, place: Place, number: int, priority: str = "normal") -> None:
        """Make the driver's stream.

        Raises:
            UnavailableError: the device is not there, and why.
        """
        super().__init__(place, number, priority)
        self.device = cuda_device(place)
        self.handle = self.device.new_stream(high=priority != PRIORITIES[0])
        end_with(self, self.device.call, "cuStreamDestroy_v2", self.handle)
        self._lock = freed_in_child(threading.RLock())  # collected garbage may ask a stream in the middle of it
        self._roots: list[Event] = []
        self._counter: ctypes.c_uint32 | None = None
        self._given = 0  # waits at the counter so far
        self._ended: set[int] = set()  # of these, whose events have ended, after the first one whose has not
        self._passed = 0  # waits before that one
        self._workspaces: dict[str, Allocation] = {}

    def enqueue(self, work: Work) -> None:
        """Call `work(context)`, which queues on this stream; skipped where what the stream waited for has failed."""
        with self._lock:
            if first_error(self._living_roots()) is not None:
                return
        super().enqueue(work)

    def submit(self, function: Callable[[], object]) -> None:
        """Let a thread of the driver call `function()`, which must not call the driver, after what was queued before.

        What is queued afterwards starts when it has returned.
        """
        called = Event()
        with self._lock:
            before = self._living_roots()

            def run() -> None:
                error = first_error(before)
                if error is None:
                    try:
                        function()
                    except BaseException as found:
                        error = found
                called.finish(error)

            self.device.launch_host_function(self.handle, run)
            self._roots.append(called)

    def workspace(self, name: str, nbytes: int) -> Allocation:
        """Return memory of the device that the work of a library on this stream shares, one piece after the other."""
        with self._lock:
            found = self._workspaces.get(name)
            if found is None:
                found = self._workspaces[name] = allocator_of(self.place).allocate(nbytes, f"workspace of {name}")
            return found

    def set_word(self, address: int, word: int) -> None:
        """Let four bytes of the device be those of a number, which goes with the call: no memory is read later."""
        self.device.call("cuMemsetD32Async", address, word, 1, self.handle)

    def record(self, event: Event) -> None:
        """Schedule `event`, which ends when the work that is queued now has ended, or fails if that failed."""
        event.schedule(self.mark())

    def mark(self) -> CUDAEvent:
        """Record and return an event of the driver."""
        with self._lock:
            return CUDAEvent(self.device, self.handle, self._living_roots())

    def report(self, look: Look) -> None:
        """Ask `look()` when what is queued now has ended; an error that it returns fails what is recorded from now on.

        Nobody waits for that: it is asked when somebody looks at the stream, or at an event behind it.
        """
        found = Event()
        with self._lock:
            found.schedule(CUDAEvent(self.device, self.handle, self._living_roots(), look))
            self._roots.append(found)

    def wait_for(self, event: Event) -> None:
        """Let what is queued from now on start after `event`, which may not be scheduled yet."""
        kept = event.device
        if event.query():
            self._note(event.error)
        elif isinstance(kept, CUDAEvent):
            with self._lock:
                self.device.call("cuStreamWaitEvent", self.handle, kept.handle, 0)
                self._roots += [root for root in kept.roots if root not in self._roots]
        else:
            self._wait_for_host(event)

    def _note(self, error: BaseException | None) -> None:
        if error is not None:
            failed = Event()
            failed.finish(error)
            with self._lock:
                self._roots.append(failed)

    def _wait_for_host(self, event: Event) -> None:
        root = Event()  # a copy of this run's end, since the event may be reset
        with self._lock:
            if self._counter is None:
                self._counter = self._new_counter()
            number = self._given + 1
            address = ctypes.addressof(self._counter)
            self.device.call("cuStreamWaitValue32_v2", self.handle, address, number % _WRAP, _WAIT_AT_LEAST)
            self._given = number
            self._roots.append(root)

        def pass_on(ended: Event) -> None:
            root.finish(ended.error)
            self._count(number)

        event.on_done(pass_on)

    def _new_counter(self) -> ctypes.c_uint32:
        address = new_handle(self.device.call, "cuMemHostAlloc", ctypes.sizeof(ctypes.c_uint32), _PORTABLE)
        counter = ctypes.c_uint32.from_address(address)
        counter.value = 0
        return counter

    def _count(self, number: int) -> None:
        with self._lock:
            self._ended.add(number)
            while self._passed + 1 in self._ended:
                self._passed += 1
                self._ended.remove(self._passed)
            assert self._counter is not None, "something waits at it"
            self._counter.value = self._passed % _WRAP

    def _living_roots(self) -> list[Event]:
        """Return the events that have not ended or have failed, and forget the others."""
        self._roots = [root for root in self._roots if root.state is not EventState.SUCCESS]
        return list(self._roots)

    def query(self) -> bool:
        """Whether all work that was queued has ended.

        Raises:
            KernelError: it failed.
        """
        status = self.device.ask("cuStreamQuery", self.handle)
        if status == NOT_READY:
            return False
        self.device.check("cuStreamQuery", status)
        return True

    def recover(self) -> None:
        """Let what is queued from now on run, whatever fails of what was queued before.

        A failure of the device itself stays: no work runs in its context any more.
        """
        with self._lock:
            self._roots.clear()
