"""What tests of parallel nets run: a device that is simulated on the host, and operators that notice overlap.

The device stands for CUDA devices: its memory is the host's, its streams are queues that threads of the host work off.
`TestMix` hashes its inputs into its outputs, so that any other order of operators gives other bits; its kernels tell a
`Watch` when they begin and end to read and write which memory, and do what a test planned for an operator of that name.
`TestHost` does the same as a host kernel, which is on the CPU, `TestMove` as a copy, which blocks whoever queues it.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from tazza.device import CONTEXTS, STREAMS, Context, Stream
from tazza.device import stream as streams
from tazza.device.context import recorded
from tazza.operator import (
    ANY,
    ENGINES,
    KERNELS,
    SCHEMAS,
    Array,
    Call,
    Launch,
    Operands,
    OpView,
    Spec,
    arg,
    blob,
    ends,
    engine,
    host_kernel,
    kernel_key,
    launcher,
    operator_def,
    schema,
)
from tazza.proto import DeviceOption, OperatorDef
from tazza.registry import Registry
from tazza.tensor import ALLOCATORS, Blob, DataType, Place, Tensor, TensorSpec
from tazza.tensor.allocation import AlignedAllocator
from tests.device.host_stream import HostStream

SHAPE = (3, 5)
PRIME = np.int64(6364136223846793005)


class Overlap(AssertionError):
    """Somebody wrote what somebody else read or wrote at the same time."""


@dataclass
class Watch:
    """Sees who reads and writes what at each moment, and makes operators do what a test wants of them."""

    plans: dict[str, Callable[[], object]] = field(default_factory=dict[str, Callable[[], object]])
    """What operators of these names do in the middle of their work."""
    overlaps: list[str] = field(default_factory=list[str])
    order: list[str] = field(default_factory=list[str])
    """The names of the operators that ran, in the order of their ends."""
    threads: set[str] = field(default_factory=set[str])
    running: int = 0
    most: int = 0
    """The most operators that ran at once."""
    pause: Callable[[], object] = lambda: None
    """Called in the middle of every operator."""

    def __post_init__(self) -> None:
        """Make the state that changes under the lock."""
        self._lock = threading.Lock()
        self._readers: Counter[int] = Counter()
        self._writers: Counter[int] = Counter()

    @contextmanager
    def working(self, name: str, reads: Iterable[object], writes: Iterable[object]) -> Generator[None]:
        """Note that an operator works on this memory.

        Raises:
            Overlap: it must not.
        """
        written = {id(one) for one in writes}
        read = {id(one) for one in reads} - written
        with self._lock:
            clash = [key for key in written if self._readers[key] or self._writers[key]]
            clash += [key for key in read if self._writers[key]]
            if clash:
                self.overlaps.append(name)
                raise Overlap(f"{name} overlaps")
            self._readers.update(read)
            self._writers.update(written)
            self.running += 1
            self.most = max(self.most, self.running)
            self.threads.add(threading.current_thread().name)
        try:
            self.pause()
            if name in self.plans:
                self.plans[name]()
            yield
            self.order.append(name)
        finally:
            with self._lock:
                self._readers.subtract(read)
                self._writers.subtract(written)
                self.running -= 1


_watches = [Watch()]
"""The last one is in force: kernels are registered once for all tests. See `watching`."""


@contextmanager
def watching(pause: Callable[[], object] = lambda: None) -> Generator[Watch]:
    """Watch with nothing planned; checks at the end that nobody overlapped or is still at work."""
    watch = Watch(pause=pause)
    _watches.append(watch)
    try:
        yield watch
        assert watch.overlaps == []
        assert watch.running == 0
    finally:
        _watches.pop()


LINGER_S = 5e-4


class Blind(Watch):
    """Sees nothing: for runs that are interrupted, maybe in the middle of a note.

    The device lingers, so that what it was given has not ended when a run that was interrupted has.
    """

    @contextmanager
    def working(self, name: str, reads: Iterable[object], writes: Iterable[object]) -> Generator[None]:
        """Note nothing."""
        if threading.current_thread().name.startswith("tazza-stream"):
            time.sleep(LINGER_S)
        yield


@contextmanager
def unwatched() -> Generator[None]:
    """Let nobody watch until the block ends."""
    _watches.append(Blind())
    try:
        yield
    finally:
        _watches.pop()


def mixed(salt: int, inputs: Sequence[NDArray[Any]], count: int) -> list[NDArray[np.int64]]:
    """Return what `TestMix` computes: `count` hashes of the inputs, which tell their order."""
    state = np.full(SHAPE, salt, np.int64)
    for one in inputs:
        state = state * PRIME + one.astype(np.int64)
        state ^= state >> np.int64(29)
    return [state * (PRIME + np.int64(2 * number)) for number in range(count)]


@dataclass(frozen=True)
class MixLaunch:
    """The launch of `TestMix` on either device."""

    op: OpView
    blocks: bool
    """Whether the call returns when the device has done the work, as copies from and to the host do."""
    scratch_bytes: int = 0
    capturable: bool = False

    def bind(self, operands: Operands) -> Call:
        """Return the call; on the device it queues."""
        inputs = cast("tuple[Tensor, ...]", operands.tensors["X"])
        outputs = cast("tuple[Tensor, ...]", operands.tensors["Y"])
        sources, targets = [one.array for one in inputs], [one.array for one in outputs]
        stream = operands.context.stream

        def work() -> None:
            with _watches[-1].working(self.op.definition.name, inputs, outputs):
                _put(self.op, sources, targets)

        if stream is None:
            return work
        return partial(_queue, operands.context, work, self.blocks)


def _queue(context: Context, work: Callable[[], None], blocks: bool) -> None:
    assert context.stream is not None, "work is queued on one"
    context.stream.submit(work)
    if blocks:
        with suppress(Exception):  # the stream tells whoever waits for it
            recorded(context).wait()


def _put(op: OpView, sources: Sequence[Array], targets: Sequence[Array]) -> None:
    for target, value in zip(targets, mixed(op.arguments["salt"], sources, len(targets)), strict=True):
        np.copyto(target, value)


class SimulatedStream(HostStream):
    """A stream of the device: operators queue their work themselves."""

    enqueue = Stream.enqueue


class SimulatedContext(Context):
    """A context of the device; all of it is the base's."""


class SimulatedAllocator(AlignedAllocator):
    """Memory of the device."""

    def __init__(self, place: Place) -> None:
        """Serve `place`."""
        super().__init__()
        self.place = place


TEST_ENGINE = "test of nets"


@contextmanager
def simulated_device() -> Generator[None]:
    """Let places of kind `cuda` be simulated, and the test operators be there, until the block ends."""
    with _restored((STREAMS, "cuda"), (CONTEXTS, "cuda"), (ALLOCATORS, "cuda")):
        STREAMS.register("cuda", SimulatedStream, priority=9)
        CONTEXTS.register("cuda", SimulatedContext, priority=9)
        ALLOCATORS.register("cuda", SimulatedAllocator, priority=9)
        _forget_streams()
        _register()
        try:
            yield
        finally:
            SCHEMAS.unregister("TestMix")
            SCHEMAS.unregister("TestHost")
            SCHEMAS.unregister("TestMove")
            for type in ("TestMix", "TestMove"):
                KERNELS.unregister((type, "cpu", "reference"))
                KERNELS.unregister((type, "cuda", TEST_ENGINE))
            KERNELS.unregister(kernel_key("TestHost", "reference", ANY))
            ENGINES.unregister(TEST_ENGINE)
            _forget_streams()


@contextmanager
def _restored(*places: tuple[Registry[str, Any], str]) -> Generator[None]:
    """Put back on exit what the registries had at these keys."""
    former = [(registry, key, registry.entry(key)) for registry, key in places]
    try:
        yield
    finally:
        for registry, key, entry in former:
            registry.unregister(key)
            if entry is not None:
                registry.register(key, entry.value, help=entry.help, priority=entry.priority)


def _forget_streams() -> None:
    for place in [place for place in streams._pools if place.kind == "cuda"]:  # pyright: ignore[reportPrivateUsage] -- there is no public way to make streams anew
        del streams._pools[place]  # pyright: ignore[reportPrivateUsage] -- as above


def _register() -> None:
    letters: Any = {
        "inputs": [blob("X", variadic=True, optional=True)],
        "outputs": [blob("Y", variadic=True)],
        "args": [arg("salt", int, 0, doc="what the hash begins with")],
        "in_place": {"Y": "X"},
        "no_gradient": ends("a test"),
        "inputs_can_cross_devices": True,
    }
    mix = schema("TestMix", "Y = hashes of X.", **letters)
    move = schema("TestMove", "Y = hashes of X, as if they were copied.", **letters)
    move.copies()
    host = schema("TestHost", "Y = hashes of X.", **letters)
    engine(TEST_ENGINE, "kernels of the simulated device", device="cuda")

    def infer(op: OpView, X: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
        del X
        return (TensorSpec(SHAPE, DataType.INT64),) * len(op.output_letters)

    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
        del context, inputs, outputs
        return MixLaunch(op, op.schema.copying)

    def run(op: OpView, X: Sequence[Blob], Y: Sequence[Blob]) -> None:
        inputs, outputs = [one.tensor() for one in X], [one.tensor() for one in Y]
        with _watches[-1].working(op.definition.name, inputs, outputs):
            for one in outputs:
                one.resize(SHAPE, DataType.INT64)
            _put(op, [one.array for one in inputs], [one.array for one in outputs])

    for each in (mix, move):
        each.infer(infer)
        launcher(each, engine="reference")(prepare)
        launcher(each, engine=TEST_ENGINE, device="cuda")(prepare)
    host.infer(infer)
    host_kernel(host)(run)


def mix(
    name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    device: int | None = None,
    control: Sequence[str] = (),
    host: bool = False,
    copies: bool = False,
) -> OperatorDef:
    """Return a `TestMix` (`TestHost` with `host`, `TestMove` with `copies`) whose salt follows from its name.

    It is on the CPU without `device`.
    """
    option = None if device is None else DeviceOption(device_type=1, device_id=device)
    salt = sum(map(ord, name))
    type = "TestHost" if host else "TestMove" if copies else "TestMix"
    made = operator_def(type, inputs, outputs, name=name, device=option, salt=salt)
    made.control_input.extend(control)
    return made
