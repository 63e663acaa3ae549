"""An NCCL that answers as its documentation says, over the fake driver: each stream waits until all have got there.

It is strict: a call outside of a group of several, a communicator that calls twice or not at all, calls that differ in
what, how many or of which type, a stream of another device, and memory that is not the device's are refused when the
group ends.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tazza.device.cuda.vendor import TYPES
from tazza.engines.nccl._declarations import FUNCTIONS
from tazza.engines.nccl.library import NCCL
from tests.device.cuda_driver import FakeCUDA

INVALID_ARGUMENT, INVALID_USAGE = 4, 5
KINDS: dict[int, Any] = {6: np.float16, 7: np.float32}

Array = NDArray[Any]


@dataclass(frozen=True)
class Asked:
    """A call in a group: what all must ask alike, and what each has for itself."""

    alike: tuple[object, ...]
    send: int
    receive: int
    communicator: int
    stream: int


class FakeNccl:
    """The library; `library` has its functions, real C pointers of the declared types."""

    def __init__(self, gpu: FakeCUDA) -> None:
        """Answer over a driver."""
        self.gpu = gpu
        self.cliques: dict[int, tuple[tuple[int, ...], int, int]] = {}
        """A communicator: all of its clique, its place among them, its device."""
        self.calls: list[str] = []
        self._depth = 0
        self._asked: list[Asked] = []
        self._numbers = itertools.count(9000)
        self.library: Any = SimpleNamespace(fake=self)
        for name, letters in FUNCTIONS.items():
            kind = ctypes.CFUNCTYPE(TYPES[letters[0]], *(TYPES[letter] for letter in letters[1:]))
            setattr(self.library, name, kind(getattr(self, name)))

    def ncclGetVersion(self, version: int) -> int:
        """Tell a version."""
        ctypes.c_int.from_address(version).value = 22700
        return 0

    def ncclGetErrorString(self, status: int) -> int | None:
        """Tell nothing."""
        return None

    def ncclCommInitAll(self, communicators: int, count: int, devices: int) -> int:
        """Make a clique."""
        numbers = list((ctypes.c_int * count).from_address(devices))
        if len(set(numbers)) < count or max(numbers) >= self.gpu.devices:
            return INVALID_ARGUMENT
        made = tuple(next(self._numbers) for _ in numbers)
        (ctypes.c_void_p * count).from_address(communicators)[:] = made
        self.cliques |= {one: (made, place, numbers[place]) for place, one in enumerate(made)}
        return 0

    def ncclCommAbort(self, communicator: int) -> int:
        """End one."""
        return 0 if self.cliques.pop(communicator, None) is not None else INVALID_ARGUMENT

    def ncclGroupStart(self) -> int:
        """Open a group."""
        self._depth += 1
        return 0

    def ncclGroupEnd(self) -> int:
        """Queue what was asked in a group."""
        self._depth -= 1
        asked, self._asked = self._asked, []
        return self._queue(asked)

    def _ask(self, name: str, send: int, receive: int, *given: Any) -> int:
        *alike, communicator, stream = given
        if communicator not in self.cliques:
            return INVALID_ARGUMENT
        self.calls.append(name)
        self._asked.append(Asked((name, *alike), send, receive, communicator, stream))
        if self._depth:
            return 0
        asked, self._asked = self._asked, []
        return self._queue(asked)

    def ncclAllReduce(self, send: int, receive: int, count: int, kind: int, op: int, *last: int) -> int:
        """Sum all, for all."""
        return self._ask("all reduce", send, receive, count, kind, op, *last)

    def ncclBroadcast(self, send: int, receive: int, count: int, kind: int, root: int, *last: int) -> int:
        """Give all what the root has."""
        return self._ask("broadcast", send, receive, count, kind, root, *last)

    def ncclReduce(self, send: int, receive: int, count: int, kind: int, op: int, root: int, *last: int) -> int:
        """Sum all, for the root."""
        return self._ask("reduce", send, receive, count, kind, (op, root), *last)

    def ncclAllGather(self, send: int, receive: int, count: int, kind: int, *last: int) -> int:
        """Give all what all have."""
        return self._ask("all gather", send, receive, count, kind, None, *last)

    def ncclReduceScatter(self, send: int, receive: int, count: int, kind: int, op: int, *last: int) -> int:
        """Sum all, and give each a part."""
        return self._ask("reduce scatter", send, receive, count, kind, op, *last)

    # -- work ----------------------------------------------------------------------------------------------------------

    def _queue(self, asked: list[Asked]) -> int:
        clique = self.cliques[asked[0].communicator][0] if asked else ()
        if tuple(sorted(one.communicator for one in asked)) != tuple(sorted(clique)):
            return INVALID_USAGE
        if len({one.alike for one in asked}) > 1:
            return INVALID_USAGE
        asked = sorted(asked, key=lambda one: self.cliques[one.communicator][1])
        for one in asked:
            context = 10 * (100 + self.cliques[one.communicator][2])
            own = {self.gpu.kind_at(at) for at in (one.send, one.receive)} == {f"device {context}"}
            if self.gpu.streams[one.stream].context != context or not own:
                return INVALID_ARGUMENT
        self._start(asked)
        return 0

    def _start(self, asked: list[Asked]) -> None:
        """Let each stream wait until all have got there; the last one does the work."""
        done, there = threading.Event(), list[Asked]()

        def arrive(one: Asked) -> Callable[[], None]:
            def work() -> None:
                there.append(one)
                if len(there) == len(asked):
                    _compute(asked)
                    done.set()

            return work

        for one in asked:
            self.gpu.launch(one.stream, arrive(one))
            self.gpu.launch(one.stream, lambda: None, after=done)


def _compute(asked: list[Asked]) -> None:
    name, count, kind, how = asked[0].alike
    assert isinstance(count, int)
    several = len(asked) if name in ("reduce scatter",) else 1
    sent = [_laid(one.send, several * count, kind) for one in asked]
    total = np.sum([one.astype(np.float32) for one in sent], axis=0)
    given: dict[str, Callable[[int], Array | None]] = {
        "all reduce": lambda place: total,
        "broadcast": lambda place: sent[int(str(how))],
        "reduce": lambda place: total if isinstance(how, tuple) and how[1] == place else None,
        "all gather": lambda place: np.concatenate(sent),
        "reduce scatter": lambda place: total[place * count : (place + 1) * count],
    }
    results = [given[str(name)](place) for place in range(len(asked))]
    results = [None if one is None else one.copy() for one in results]
    for one, result in zip(asked, results, strict=True):
        if result is not None:
            _laid(one.receive, result.size, kind)[...] = result


def _laid(address: int, count: int, kind: object) -> Array:
    dtype = np.dtype(KINDS[int(str(kind))])
    memory: Any = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    return np.ndarray((count,), dtype, memory)


@contextmanager
def fake_nccl(gpu: FakeCUDA) -> Generator[FakeNccl]:
    """Let there be an NCCL for a fake driver until the block ends."""
    made = FakeNccl(gpu)
    NCCL.use(made.library)
    try:
        yield made
    finally:
        NCCL.use(None)
