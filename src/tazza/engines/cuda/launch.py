"""The launch of a kernel of ours on a CUDA device: its code, the words of its block, and its grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from tazza.codegen.block import Slot, Word, block_of
from tazza.codegen.nvptx import Code, GridKernel, code_of
from tazza.data_class import dataclass
from tazza.device import current_context
from tazza.device.cuda import CUDAStream, queue_of
from tazza.device.cuda.module import Arguments, launch, loaded
from tazza.engines.cuda import SOURCES
from tazza.errors import NumericError, TazzaError, UnsupportedError
from tazza.operator import Call, Operands
from tazza.operator.split_call import SplitCall
from tazza.random import Generator
from tazza.tensor import DataType, PinnedPlace, Place, Tensor, allocator_of

THREADS = 256
"""Threads of a block, where nothing speaks for another number."""
SMALL = 1 << 31
"""So many elements are not counted in 32 bits any more."""


def own_code(description: str, kernel: GridKernel) -> Code:
    """Return the code of a kernel of this engine."""
    return code_of(description, lambda: kernel, SOURCES.digest)


def blocks_for(count: int, threads: int = THREADS) -> int:
    """Return how many blocks have at least so many threads together.

    >>> blocks_for(0), blocks_for(256), blocks_for(257)
    (0, 1, 2)
    """
    return -(-count // threads)


@dataclass(frozen=True, slots=True)
class Held:
    """A word that is the number of a blob of the host, as it is when the kernel is launched: no device reads there."""

    read: Slot


@dataclass(frozen=True, slots=True)
class Brought:
    """A word that is the address of such a number on the device, to which the host brings it before a graph."""

    read: Slot


def fetched(operands: Operands, letter: str) -> npt.NDArray[Any]:
    """Return a copy of a blob on the host, and wait for it: where the data say how much there is."""
    tensor = operands[letter]
    found = Tensor(tensor.shape, tensor.dtype, PinnedPlace())
    if tensor.size:
        operands.context.copy(tensor, found)
        operands.context.wait()
    return found.numpy()


@dataclass(frozen=True, slots=True)
class Status:
    """Which word of a block is the address of one that is not 0 when the kernel found something wrong, and what."""

    word: int
    complaint: str


@dataclass(frozen=True, slots=True)
class GridLaunch:
    """A kernel, the words of its block, and how many blocks of how many threads run it; of no blocks nothing runs.

    `recorded` makes the launch that is recorded in its place: a graph keeps words, and so numbers of the host, as they
    are; addresses do as well.
    """

    code: Code
    words: Sequence[Word | Held | Brought]
    blocks: int
    threads: int = THREADS
    scratch_bytes: int = 0
    status: Status | None = None
    recorded: Callable[[], GridLaunch] | None = None

    @property
    def capturable(self) -> bool:
        """Whether no word is read anew at each launch, or another launch does without."""
        return self.recorded is not None or not any(isinstance(word, Held) for word in self.words)

    def bind(self, operands: Operands) -> Call:
        """Return what queues the kernel on the stream of the context."""
        queue = queue_of(operands.context)
        if self.blocks == 0:
            return _nothing
        if queue.captures and self.recorded is not None:
            return self.recorded().bind(operands)
        kept: list[Any] = [operands.scratch]
        block = block_of([0 if isinstance(word, Held | Brought) else word for word in self.words], operands, kept)
        brought = {k: _Number.of(word, operands) for k, word in enumerate(self.words) if isinstance(word, Brought)}
        for k, number in brought.items():
            block[k] = number.address
        look = None if self.status is None else _status(block, self.status, kept)
        read = [_reader(block, k, word, operands) for k, word in enumerate(self.words) if isinstance(word, Held)]
        arguments = Arguments(block)
        function = loaded(queue.device, self.code.name, self.code.ptx)
        device, grid, stream = queue.device, (self.blocks, self.threads), queue.handle

        def call(kept: Sequence[Any] = kept) -> None:
            for one in read:
                one()
            launch(device, function, grid, stream, arguments)
            if look is not None:
                queue.report(look)

        return reduce(lambda queued, number: SplitCall(number, queued), brought.values(), call)


@dataclass(frozen=True, slots=True)
class _Number:
    """Brings a number of the host to the device; equal ones bring the same one to the same place."""

    address: int
    source: Tensor = field(compare=False)
    queue: CUDAStream = field(compare=False)

    @classmethod
    def of(cls, word: Brought, operands: Operands) -> _Number:
        """Return what brings the number of a blob; a context has one place for each of them."""
        source, context = word.read.of(operands), operands.context
        places = context.resource("numbers of the host", dict[int, "tuple[Tensor, Tensor]"])
        if id(source) not in places:
            places[id(source)] = source, Tensor((1,), DataType.INT64, context.place)
        return cls(places[id(source)][1].address, source, queue_of(context))

    def __call__(self) -> None:
        """Let the work that follows read the number as it is now: it goes with the calls that set it."""
        found = np.zeros(1, np.int64)
        found.view(np.uint8)[: self.source.dtype.itemsize] = self.source.numpy().reshape(1).view(np.uint8)
        for half, value in enumerate(found.view(np.uint32)):
            self.queue.set_word(self.address + 4 * half, int(value))


def _reader(block: npt.NDArray[np.int64], k: int, word: Held, operands: Operands) -> Callable[[], None]:
    """Return what reads the number of a blob of the host into a word."""
    tensor = word.read.of(operands)
    target = block[k : k + 1].view(np.uint8)[: tensor.dtype.itemsize]

    def read() -> None:
        target[:] = tensor.numpy().reshape(1).view(np.uint8)

    return read


def _status(block: npt.NDArray[np.int64], status: Status, kept: list[Any]) -> Callable[[], TazzaError | None]:
    """Let a word of a block be the address of a status that the device writes, and return what looks at it."""
    span = allocator_of(PinnedPlace()).allocate(block.itemsize, "status of kernels")
    found = span.buffer.view(np.int64)
    found[0], block[status.word] = 0, span.address
    kept.append(span)

    def look() -> TazzaError | None:
        if found[0] == 0:
            return None
        found[0] = 0
        return NumericError(
            f"a kernel on the device found {status.complaint}", hint="run it on the CPU, which says where it stands"
        )

    return look


def _nothing() -> None:
    return


def bound_alone(launch: GridLaunch, tensors: Mapping[str, Tensor], place: Place) -> Call:
    """Return the call of a launch that belongs to no operator, and draws no random numbers."""
    return launch.bind(Operands(tensors, None, _no_generator, current_context(place)))


def _no_generator() -> Generator:
    raise UnsupportedError("no random numbers are drawn")
