"""Contexts: what kernels need on one device in one thread.

A `Context` belongs to a thread, a Place, a stream where there is one, and a number of threads. It holds resources that
are made on first use and closed with it: library handles (`resource`), scratch memory (`scratch`). Kernels get it in
`prepare` and touch no global. It is closed when its thread ends, or when nobody refers to it any more; not at the end
of the process, where libraries end what is theirs.

State: `_resources` and `_scratch` are used by the owning thread only, but for the last closing. The registry `CONTEXTS`
maps a kind of Place to the class.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np

from tazza.device.event import Event, recorded
from tazza.device.initializer import device_of, listed_kinds, load_kind
from tazza.device.recorder import Recorder
from tazza.device.stream import Stream, current_stream
from tazza.errors import ArgumentError, DTypeError, ShapeError, UnavailableError, UnsupportedError
from tazza.registry import Registry
from tazza.runtime.flags import kernel_flags
from tazza.runtime.log import logger
from tazza.runtime.threads import thread_count, threads_allowed
from tazza.tensor import ROW_MAJOR, Allocation, CPUPlace, DataType, Opaque, Place, Tensor, allocator_of
from tazza.tensor.place import CPU_KIND, PLACE_KINDS
from tazza.tensor.transfer import COPIERS, check_writable

R = TypeVar("R")

_Resources = dict[str, tuple[Any, Callable[[Any], None] | None]]


class Context:
    """Base of all contexts; a device fills in the stream and how bytes are copied.

    >>> context = CPUContext()
    >>> context.resource("handle", lambda: object()) is context.resource("handle", lambda: object())
    True
    """

    def __init__(self, place: Place, stream: Stream | None = None) -> None:
        """Create a context on `place`, for work on `stream`; nothing is allocated yet."""
        self.place = place
        self.stream = stream
        self._resources: _Resources = {}
        self._scratch: Allocation | None = None
        weakref.finalize(self, _end, self._resources).atexit = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.place if self.stream is None else self.stream.name})"

    def resource(self, key: str, create: Callable[[], R], close: Callable[[R], None] | None = None) -> R:
        """Return the resource of that key, made by `create` on first use and ended by `close` with the context.

        `close` must not refer to the context, which would then never be collected; its exceptions are logged.
        """
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

    def copy_bytes(
        self, source: Allocation, target: Allocation, nbytes: int, *, source_offset: int = 0, target_offset: int = 0
    ) -> None:
        """Copy `nbytes` after the work that was given to this context before; offsets are in bytes.

        Where the context has a stream this may return before the bytes are there: `record` an event, or `wait`. Until
        then the source must not be written nor the target be used; both spans are kept alive. They may overlap.

        Raises:
            ArgumentError: one of the spans does not hold these bytes, is closed, or cannot be written.
            UnsupportedError: a span is at a place that this context does not reach.

        >>> from tazza.tensor import default_allocator
        >>> one, two = default_allocator().allocate(64), default_allocator().allocate(64)
        >>> one.buffer[:], two.buffer[:] = 1, 2
        >>> CPUContext().copy_bytes(one, two, 3, source_offset=8, target_offset=1); two.buffer[:5].tolist()
        [2, 1, 1, 1, 2]
        """
        _check_bytes("source", source, source_offset, nbytes)
        _check_bytes("target", target, target_offset, nbytes)
        if target.place.is_host and not target.buffer.flags.writeable:
            raise ArgumentError(f"target, {target}, is memory that can only be read")
        self._check_reach(source.place, target.place)
        if nbytes:
            self._copy_bytes(source.part(source_offset, nbytes), target.part(target_offset, nbytes))

    def _check_reach(self, source: Place, target: Place) -> None:
        for place in (source, target):
            if not place.is_host and place != self.place:
                raise UnsupportedError(
                    f"a context of {self.place} does not copy from {source} to {target}", hint=f"ask one of {place}"
                )

    def _copy_bytes(self, source: Allocation, target: Allocation) -> None:
        """Copy between spans of one size, which this context reaches; here of the host."""
        move = partial(np.copyto, target.buffer, source.buffer)  # without the GIL
        if self.stream is None:
            move()
        else:
            self.stream.submit(move)

    def copy(self, source: Tensor, target: Tensor) -> None:
        """Copy all elements, as `copy_bytes` does bytes; the target keeps its layout.

        Between host tensors any layouts go. A device's are copied as they lie, so there both have one layout, without
        gaps; what has another is reordered where it is first.

        Raises:
            ShapeError: other extents.
            DTypeError: other element types, or strings on a device.
            UnsupportedError: a layout as said, or a place that this context does not reach.

        >>> x, y = Tensor.from_numpy(np.arange(3)), Tensor((3,), DataType.INT64)
        >>> CPUContext().copy(x, y); y.tolist()
        [0, 1, 2]
        """
        if source.shape != target.shape:
            raise ShapeError(
                f"copy: extents of the source {tuple(source.shape)} != {tuple(target.shape)} of the target"
            )
        if source.dtype is not target.dtype:
            raise DTypeError(f"copy: source of {source.dtype.name} != target of {target.dtype.name}")
        self._check_reach(source.place, target.place)
        if source.place.is_host and target.place.is_host:
            self._copy_host(source, target)
        elif source.size:
            self._copy_span(source, target)
        target.mark_written()

    def _copy_host(self, source: Tensor, target: Tensor) -> None:
        check_writable(target, "copy")
        target.reserve()

        def move() -> None:
            np.copyto(target.array, source.plain())

        if self.stream is None:
            move()
        else:
            self.stream.submit(move)

    def _copy_span(self, source: Tensor, target: Tensor) -> None:
        """Copy the bytes from the first element to the last, with those of a host tensor made to lie as wanted."""
        if source.dtype is DataType.STRING:
            raise DTypeError(f"strings are not copied from {source.place} to {target.place}: they are references")
        if source.place.is_host and source.layout != target.layout and target.layout == ROW_MAJOR:
            source = Tensor.from_numpy(np.ascontiguousarray(source.plain()))
        span = source.layout.span_bytes(source.shape, source.dtype.itemsize)
        gaps = span != source.nbytes and not isinstance(source.layout, Opaque)
        if source.layout != target.layout or gaps:
            raise UnsupportedError(
                f"{source.spec} is not copied to {target.spec} as it lies: one layout without gaps is needed",
                hint="copy it to a row-major tensor at its place first",
            )
        first, second = _memory(source), _memory(target)
        self.copy_bytes(first, second, span, source_offset=source.offset_bytes, target_offset=target.offset_bytes)

    def recorder(self) -> Recorder | None:
        """Return a recorder of work that is to be queued on this context as one; None where the device has none."""
        return None

    def enter(self) -> None:
        """Make the device current for libraries that ask which one is; see `DeviceGuard`."""

    def leave(self) -> None:
        """Undo `enter`."""

    def __enter__(self) -> None:
        """As `enter`, for the block of a `with`."""
        self.enter()

    def __exit__(self, *error: object) -> None:
        """As `leave`, on errors too."""
        self.leave()

    def close(self) -> None:
        """End every resource, the last one made first; the context may be used again afterwards."""
        _end(self._resources)
        self._scratch = None


def _check_bytes(name: str, span: Allocation, offset: int, nbytes: int) -> None:
    if offset < 0 or nbytes < 0 or offset + nbytes > span.nbytes or span.closed:
        raise ArgumentError(f"{nbytes} bytes at byte {offset} do not lie inside of {name}, {span}")


def _memory(tensor: Tensor) -> Allocation:
    tensor.reserve()
    assert tensor.storage.allocation is not None, "reserved"
    return tensor.storage.allocation


def _end(resources: _Resources) -> None:
    """End resources, the last one made first; one that fails keeps none of the others from it."""
    while resources:
        key, (value, close) = resources.popitem()
        try:
            if close is not None:
                close(value)
        except Exception:
            logger.exception("resource %r of a context could not be closed", key)


CONTEXTS: Registry[str, Callable[[Place, Stream | None], Context]] = Registry(
    "device", loader=load_kind, listed=listed_kinds
)
"""Makes a context of a kind of place; raises `UnavailableError` where the device is not."""


class CPUContext(Context):
    """The context of the host: work runs in the calling thread, at once, or on another one where there is a stream."""

    def __init__(self, place: Place | None = None, stream: Stream | None = None) -> None:
        """Create a context on the CPU."""
        super().__init__(CPUPlace() if place is None else place, stream)


CONTEXTS.register(CPU_KIND, CPUContext, help="the host's processor")


class _Owner:
    """Dies with its thread."""

    __slots__ = ("__weakref__",)


class _Kept(threading.local):
    def __init__(self) -> None:
        self.contexts: dict[tuple[Place, Stream | None, int], Context] = {}
        self.last: tuple[Place | None, Stream | None, int, Context | None] = (None, None, 0, None)
        """What was asked for last, with the answer: small nets ask in every run."""
        self.owner = _Owner()
        weakref.finalize(self.owner, _close_all, self.contexts).atexit = False


def _close_all(contexts: dict[tuple[Place, Stream | None, int], Context]) -> None:
    """Close the contexts of a thread that has ended, whoever else refers to them."""
    while contexts:
        _, context = contexts.popitem()
        try:
            context.close()
        except Exception:
            logger.exception("%r could not be closed", context)


_kept = _Kept()


def current_context(place: Place) -> Context:
    """Return this thread's context on `place`, for its current stream and number of threads; made on first use.

    Raises:
        UnavailableError: there is no such device, and why, or tazza has no context for its kind.
    """
    stream, threads = current_stream(place), threads_allowed()
    last = _kept.last
    if last[0] is place and last[1] is stream and last[2] == threads and last[3] is not None:
        return last[3]
    key = place, stream, threads
    found = _kept.contexts.get(key)
    if found is None:
        found = _kept.contexts[key] = new_context(place, stream)
    _kept.last = (*key, found)
    return found


def new_context(place: Place, stream: Stream | None = None) -> Context:
    """Return a context on `place` that belongs to whoever asked, for work on a stream; the device's own by default.

    Raises:
        UnavailableError: there is no such device, and why, or tazza has no context for its kind.
    """
    create = CONTEXTS.get(place.kind)
    if create is None:
        properties = device_of(place).properties  # raises with the reason where there is no such device
        raise UnavailableError(
            f"no device {place} here that tazza runs on: {properties}", hint=f"devices: {', '.join(CONTEXTS)}"
        )
    return create(place, stream)


def copy_between(source: Tensor, target: Tensor) -> None:
    """Copy between the host and a device, or two devices, on the current streams of this thread.

    Where one of them is of the host, all is done on return: what follows may read or write it. Between devices what is
    queued afterwards on the streams of both comes after the copy. `Context.copy` waits for nothing.

    Raises:
        UnavailableError: a device is not there, and why.
    """
    try:
        contexts = [
            current_context(place) for place in dict.fromkeys((target.place, source.place)) if not place.is_host
        ]
    except UnavailableError as error:
        away = target.place if source.place.is_host else source.place
        raise UnavailableError(
            f"no {away.kind.upper()} engine is here, so that nothing is copied from {source.place} to {target.place}: "
            f"{error.message}",
            hint=error.hint,
        ) from error
    context, *others = contexts
    for other in others:
        context.wait_for(recorded(other))
    context.copy(source, target)
    done = recorded(context)
    for other in others:
        other.wait_for(done)
    if source.place.is_host or target.place.is_host:
        done.wait()


for _source, _target in itertools.product(sorted(PLACE_KINDS), repeat=2):
    if not (Place(_source).is_host and Place(_target).is_host):
        COPIERS.register((_source, _target), copy_between, help="on the streams of the devices")
