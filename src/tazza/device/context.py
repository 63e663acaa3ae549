"""Contexts: what kernels need on one device in one thread.

A `Context` belongs to a thread, a Place, a stream where there is one, and a number of threads. It holds resources that
are made on first use and closed with it: library handles (`resource`), scratch memory (`scratch`). Kernels get it in
`prepare` and touch no global.

State: `_resources` and `_scratch` are used by the owning thread only. The registry `CONTEXTS` maps a kind of Place to
    the class.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

from tazza.device.event import Event
from tazza.device.initializer import device_of
from tazza.device.stream import Stream, current_stream
from tazza.errors import UnavailableError
from tazza.registry import Registry
from tazza.runtime.blas import set_blas_threads
from tazza.runtime.flags import kernel_flags
from tazza.runtime.threads import thread_count, threads_allowed
from tazza.tensor import Allocation, CPUPlace, Place, allocator_of

R = TypeVar("R")


class Context:
    """Base of all contexts; a device fills in `stream`, `wait` and copies.

    >>> context = CPUContext()
    >>> context.resource("handle", lambda: object()) is context.resource("handle", lambda: object())
    True
    """

    def __init__(self, place: Place, stream: Stream | None = None) -> None:
        """Create a context on `place`, for work on `stream`; nothing is allocated yet."""
        self.place = place
        self.stream = stream
        self._resources: dict[str, tuple[Any, Callable[[Any], None] | None]] = {}
        self._scratch: Allocation | None = None

    def resource(self, key: str, create: Callable[[], R], close: Callable[[R], None] | None = None) -> R:
        """Return the resource of that key, made by `create` on first use and ended by `close` with the context."""
        if key not in self._resources:
            self._resources[key] = (create(), close)
        return cast("R", self._resources[key][0])

    def scratch(self, nbytes: int) -> Allocation:
        """Return at least `nbytes` of memory that kernels of this context share, one after the other."""
        if self._scratch is None or self._scratch.nbytes < nbytes:
            self._scratch = allocator_of(self.place).allocate(nbytes, "scratch")
        return self._scratch

    @property
    def key(self) -> Hashable:
        """What a launch may depend on: equal for contexts that can share launches. Place, threads and flags."""
        return self.place, thread_count(), kernel_flags()

    def record(self, event: Event) -> None:
        """Finish `event` when all work given to this context so far has ended; at once where there is no stream."""
        if self.stream is not None:
            self.stream.record(event)
        else:
            event.schedule()
            event.finish()

    def wait_for(self, event: Event) -> None:
        """Let work that is given from now on start after `event`; blocks where there is no stream."""
        if self.stream is not None:
            self.stream.wait_for(event)
        else:
            event.wait()

    def wait(self) -> None:
        """Block until all work that was given to this context has ended."""
        if self.stream is not None:
            self.stream.synchronize()

    def close(self) -> None:
        """End every resource, the last one made first; the context may be used again afterwards."""
        while self._resources:
            _, (value, close) = self._resources.popitem()
            if close is not None:
                close(value)
        self._scratch = None


CONTEXTS: Registry[str, Callable[[Place, Stream | None], Context]] = Registry("device")


class CPUContext(Context):
    """The context of the host: work runs in the calling thread, at once, or on another one where there is a stream."""

    def __init__(self, place: Place | None = None, stream: Stream | None = None) -> None:
        """Create a context on the CPU; the BLAS is told the process's number of threads."""
        super().__init__(CPUPlace() if place is None else place, stream)
        set_blas_threads(thread_count())


CONTEXTS.register("cpu", CPUContext, help="the host's processor")


class _Kept(threading.local):
    def __init__(self) -> None:
        self.contexts: dict[tuple[Place, Stream | None, int], Context] = {}


_kept = _Kept()


def current_context(place: Place) -> Context:
    """Return this thread's context on `place`, for its current stream and number of threads; made on first use.

    Raises:
        UnavailableError: there is no such device, and why, or tazza has no context for its kind.
    """
    key = place, current_stream(place), threads_allowed()
    found = _kept.contexts.get(key)
    if found is None:
        create = CONTEXTS.get(place.kind)
        if create is None:
            properties = device_of(place).properties  # raises with the reason where there is no such device
            raise UnavailableError(
                f"no device {place} here that tazza runs on: {properties}", hint=f"devices: {', '.join(CONTEXTS)}"
            )
        found = _kept.contexts[key] = create(place, key[1])
    return found
