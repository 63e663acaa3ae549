"""A second device for tests: memory of its own, which nobody reads but its kernels while they run.

It stands where a CUDA device would (`cuda:0`, `cuda:1`). Each allocation is a mapping of its own, without any right of
access but while a kernel or a copy works on it: a host read at another time ends the process. So what hands out
addresses of the wrong place, or looks at a result before the device is done, cannot pass a test.

Its one engine runs the reference functions on that memory, on a stream. Kernels are made when they are asked for, by
the maker of the engine for this kind of device.
"""

from __future__ import annotations

import ctypes
import mmap
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.device import CONTEXTS, STREAMS, Context, Stream, context, initializer, stream, stream_pool
from tazza.device.context import recorded
from tazza.operator import (
    ENGINES,
    KERNELS,
    SCHEMAS,
    Array,
    Call,
    Kernel,
    Launch,
    Operands,
    OpView,
    Spec,
    Unsupported,
    engine,
    kernel_key,
)
from tazza.operator.index import MAKERS
from tazza.registry import Registry
from tazza.tensor import ALLOCATORS, Allocation, Allocator, DataType, Place, Tensor, TensorSpec, allocation
from tazza.tensor.allocation import Taken
from tests.device.host_stream import HostStream

KIND, ENGINE = "cuda", "second"
NONE, READ_AND_WRITE = 0, 3  # PROT_NONE, PROT_READ | PROT_WRITE

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


class Memory:
    """All mappings of the device, and which of them are open; shared by its allocators."""

    def __init__(self) -> None:
        """Hold none."""
        self._lock = threading.Lock()
        self._sizes: dict[int, int] = {}
        self._users: Counter[int] = Counter()

    def take(self, nbytes: int) -> tuple[mmap.mmap, int]:
        """Return a new mapping that nobody may touch, and its address."""
        size = -(-max(nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        made = mmap.mmap(-1, size)
        address = ctypes.addressof(ctypes.c_char.from_buffer(made))
        with self._lock:
            self._sizes[address] = size
            self._protect(address, NONE)
        return made, address

    def give(self, address: int) -> None:
        """Forget a mapping, which is gone."""
        with self._lock:
            del self._sizes[address]
            self._users.pop(address, None)

    @contextmanager
    def opened(self, spans: Sequence[Allocation]) -> Generator[None]:
        """Let spans be read and written until the block ends; those of the host are so anyway."""
        starts = [self._start(span.address) for span in spans if span.place.kind == KIND]
        with self._lock:
            for start in starts:
                self._users[start] += 1
                if self._users[start] == 1:
                    self._protect(start, READ_AND_WRITE)
        try:
            yield
        finally:
            with self._lock:
                for start in starts:
                    self._users[start] -= 1
                    if self._users[start] == 0:
                        self._protect(start, NONE)

    def _start(self, address: int) -> int:
        with self._lock:
            return max(start for start in self._sizes if start <= address)

    def _protect(self, address: int, rights: int) -> None:
        assert _libc.mprotect(address, self._sizes[address], rights) == 0, ctypes.get_errno()


MEMORY = Memory()


class SecondAllocator(Allocator):
    """Memory of the device: spans that have an address, and no array."""

    def _take(self, nbytes: int) -> Taken | None:
        mapping, address = MEMORY.take(nbytes)
        return mapping, address, None, None

    def _give(self, address: int, nbytes: int, block: Any) -> None:
        MEMORY.give(address)


class SecondStream(HostStream):
    """A stream of the device: operators queue their work on it themselves."""

    enqueue = Stream.enqueue


class SecondContext(Context):
    """A context of the device, which always has a stream; copies from and to the host have ended on return."""

    def __init__(self, place: Place, stream: Stream | None = None) -> None:
        """Work on `stream`, by default the device's default one."""
        super().__init__(place, stream_pool(place).default if stream is None else stream)

    def _copy_bytes(self, source: Allocation, target: Allocation) -> None:
        assert self.stream is not None, "it always has one"

        def move() -> None:
            with MEMORY.opened([source, target]):
                ctypes.memmove(target.address, source.address, target.nbytes)

        self.stream.submit(move)
        if source.place.is_host or target.place.is_host:
            recorded(self).wait()


@dataclass(frozen=True, slots=True)
class SecondLaunch:
    """Queues the reference function of an operator on its stream."""

    function: Callable[..., None]
    parameters: tuple[str, ...]
    op: OpView
    scratch_bytes: int = 0
    capturable: bool = False

    def bind(self, operands: Operands) -> Call:
        """Keep the spans that the work needs; what lies on the host is read when the work is queued."""
        queue = operands.context.stream
        assert queue is not None, "the device's contexts have one"
        letters = {name: operands.tensors[name] for name in self.parameters if name not in ("op", "random")}
        bound = {name: _bound(value) for name, value in letters.items()}
        spans = [one.span for value in bound.values() for one in _each(value) if one is not None]

        def call() -> None:
            given = {name: _on_host(value) for name, value in bound.items()}

            def work() -> None:
                with MEMORY.opened(spans), np.errstate(all="ignore"):
                    values: dict[str, Any] = {name: _shown(bound[name], given[name]) for name in bound}
                    named = {"op": self.op, "random": operands.random, **values}
                    arguments = {name: named[name] for name in self.parameters}
                    if "random" in arguments:
                        arguments["random"] = operands.random()
                    self.function(**arguments)

            queue.submit(work)

        return call


@dataclass(frozen=True, slots=True)
class _Bound:
    """A tensor as it was bound: its span is kept alive as long as work may be queued."""

    spec: TensorSpec
    span: Allocation
    address: int

    def view(self) -> NDArray[Any]:
        """Return the elements, which must be open."""
        item, dtype = self.spec.dtype.itemsize, self.spec.dtype.numpy
        steps = None
        if (strides := getattr(self.spec.layout, "strides", None)) is not None:
            steps = tuple(step * item for step in strides)
        nbytes = self.spec.layout.span_bytes(self.spec.shape, item)
        memory: Any = (ctypes.c_uint8 * max(nbytes, 1)).from_address(self.address)
        return np.ndarray(self.spec.shape, dtype, memory, 0, steps)


_Value = _Bound | tuple[_Bound, ...] | None


def _bound(value: Any) -> _Value:
    if isinstance(value, tuple):
        found = [_bound(one) for one in cast("tuple[Any, ...]", value)]
        return tuple(one for one in found if isinstance(one, _Bound))
    if value is None:
        return None
    assert isinstance(value, Tensor), "prepare refuses what is none"
    value.reserve()
    span = value.storage.allocation
    assert span is not None, "it was reserved"
    return _Bound(value.spec, span, value.address)


def _each(value: _Value) -> Iterator[_Bound | None]:
    yield from value if isinstance(value, tuple) else (value,)


def _on_host(value: _Value) -> Array | None:
    """Return a copy of what lies on the host, as it is now."""
    if isinstance(value, _Bound) and value.span.place.is_host:
        return value.view().copy()
    return None


def _shown(value: _Value, given: Array | None) -> Any:
    if given is not None:
        return given
    if isinstance(value, tuple):
        return tuple(one.view() for one in value)
    return None if value is None else value.view()


def make_kernel(type: str) -> None:
    """Register the device's kernel of an operator whose reference kernel is a function on arrays."""
    found = SCHEMAS.get(type)
    reference = KERNELS.get(kernel_key(type, "reference"))
    if found is None or reference is None or reference.function is None or reference.host is not None:
        return
    if found.inputs_can_cross_devices:  # copies are the matter of the context
        return
    function = reference.function
    names = tuple(function.__code__.co_varnames[: function.__code__.co_argcount])

    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | Unsupported:
        del context
        specs = [spec for spec in (*inputs, *outputs) if isinstance(spec, TensorSpec)]
        if len(specs) < len(inputs) + len(outputs) or op.schema.dynamic:
            return Unsupported("it takes tensors whose sizes are known")
        if any(spec.dtype is DataType.STRING for spec in specs):
            return Unsupported("no strings are on the device")
        if any(op.schema.outputs_by_letter[letter].host for letter in op.output_letters):
            return Unsupported("it writes nothing on the host")
        return SecondLaunch(function, names, op)

    key = kernel_key(type, ENGINE, KIND)
    KERNELS.setdefault(key, Kernel(*key, prepare=prepare), help="the reference function on the device's memory")


@contextmanager
def second_device() -> Generator[None]:
    """Let places of kind `cuda` be the second device, which nobody has seen before, until the block ends."""
    patch = pytest.MonkeyPatch()
    patch.setattr(initializer, "_found", None)
    patch.setattr(stream, "_pools", {})
    patch.setattr(allocation, "_made", {})
    patch.setattr(context, "_kept", context._Kept())  # pyright: ignore[reportPrivateUsage] -- contexts of its own
    brought: list[tuple[Registry[str, Any], Any]] = [
        (STREAMS, SecondStream),
        (CONTEXTS, SecondContext),
        (ALLOCATORS, SecondAllocator),
    ]
    former = [(registry, registry.entry(KIND)) for registry, _ in brought]
    for registry, made in brought:
        registry.register(KIND, made, help="a second device", priority=9)
    engine(ENGINE, "reference functions on a second device", device=KIND, priority=5)
    MAKERS.register((KIND, ENGINE), make_kernel, help="whatever has a reference function")
    try:
        yield
    finally:
        for key in [key for key in KERNELS.registered() if key[2] == ENGINE]:
            KERNELS.unregister(key)
        MAKERS.unregister((KIND, ENGINE))
        ENGINES.unregister(ENGINE)
        for registry, entry in former:
            registry.unregister(KIND)
            if entry is not None:
                registry.register(KIND, entry.value, help=entry.help, priority=entry.priority)
        patch.undo()
