"""The launch of a kernel of ours on a CUDA device: its code, the words of its block, and its grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tazza.codegen.block import Slot, Word, block_of
from tazza.codegen.nvptx import Code, GridKernel, code_of
from tazza.data_class import dataclass
from tazza.device.cuda import queue_of
from tazza.device.cuda.module import Arguments, launch, loaded
from tazza.engines.cuda import SOURCES
from tazza.errors import NumericError, TazzaError
from tazza.operator import Call, Operands
from tazza.tensor import PinnedPlace, Tensor, allocator_of

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
    """A kernel, the words of its block, and how many blocks of how many threads run it; of no blocks nothing runs."""

    code: Code
    words: Sequence[Word | Held]
    blocks: int
    threads: int = THREADS
    scratch_bytes: int = 0
    status: Status | None = None

    @property
    def capturable(self) -> bool:
        """Whether no word is read anew at each launch."""
        return not any(isinstance(word, Held) for word in self.words)

    def bind(self, operands: Operands) -> Call:
        """Return what queues the kernel on the stream of the context."""
        queue = queue_of(operands.context)
        if self.blocks == 0:
            return _nothing
        kept: list[Any] = [operands.scratch]
        block = block_of([0 if isinstance(word, Held) else word for word in self.words], operands, kept)
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

        return call


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
