"""Memory that a call works in: parts of the context's scratch memory, and the column buffer of a workspace.

The column buffer is two blobs of the workspace with Caffe2's names, a mutex and a tensor. The first operator that asks
for them makes them, when it is made itself; the tensor gets its memory at the first run. Whoever runs holds the mutex
from the first column to the last product, gives the tensor the shape of its own columns, and leaves it so.

State: a `SharedBuffer` belongs to one operator, the blobs to the workspace; `_creating` orders those who make them.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tazza.engines.gemm.column import Shape, Step
from tazza.operator import Array, BlobOwner, Call
from tazza.runtime.fork import freed_in_child
from tazza.tensor import Allocation, Blob, DataType
from tazza.tensor.allocation import ALIGNMENT

if TYPE_CHECKING:
    from tazza.ops.control.mutex import Mutex

MUTEX = "__CAFFE2_SHARED_CONV_BUFFER_CPU_MUTEX__"
BUFFER = "__CAFFE2_SHARED_CONV_BUFFER_CPU__"

_creating = freed_in_child(threading.Lock())


def scratch_bytes(shapes: Mapping[str, Shape]) -> int:
    """Return the bytes that `carve` needs for float32 arrays of these shapes."""
    return sum(_span_bytes(shape) for shape in shapes.values())


def carve(scratch: Allocation | None, shapes: Mapping[str, Shape]) -> dict[str, Array]:
    """Return float32 arrays of these shapes, one behind the other in `scratch`, each at an aligned address."""
    arrays: dict[str, Array] = {}
    start = 0
    for name, shape in shapes.items():
        nbytes = math.prod(shape) * 4
        part = np.empty(0, np.uint8) if scratch is None else scratch.buffer[start : start + nbytes]
        arrays[name] = part.view(np.float32).reshape(shape)
        start += _span_bytes(shape)
    return arrays


def _span_bytes(shape: Shape) -> int:
    return -(-math.prod(shape) * 4 // ALIGNMENT) * ALIGNMENT


def chain(steps: Iterable[Step]) -> Call:
    """Return the call that does all steps in turn."""
    table = tuple(steps)

    def call() -> None:
        for step in table:
            step()

    return call


class SharedBuffer:
    """The column buffer of a workspace, as one operator sees it."""

    def __init__(self, workspace: BlobOwner) -> None:
        """Remember whose buffer it is; `create` finds or makes it."""
        self._workspace = workspace
        self._mutex: Mutex | None = None
        self._blob: Blob | None = None

    def create(self) -> tuple[Mutex, Blob]:
        """Return mutex and buffer, made when they are not there yet.

        Raises:
            BlobTypeError: a blob of that name holds something else.
        """
        from tazza.ops.control.mutex import Mutex  # few nets have such a buffer

        if self._mutex is None or self._blob is None:
            with _creating:
                mutex = self._workspace.create_blob(MUTEX)
                if mutex.is_empty:
                    mutex.set(Mutex())
                self._mutex, self._blob = mutex.get(Mutex), self._workspace.create_blob(BUFFER)
        return self._mutex, self._blob

    def call(self, shape: Shape, bind: Callable[[Array], Call]) -> Call:
        """Return a call that holds the mutex and works in the buffer, bound anew when another operator moved it."""
        mutex, blob = self.create()
        address, bound = 0, chain(())

        def call() -> None:
            nonlocal address, bound
            with mutex:
                tensor = blob.tensor()
                tensor.resize(shape, DataType.FLOAT)
                if tensor.address != address:
                    address, bound = tensor.address, bind(tensor.array)
                bound()
                tensor.mark_written()

        return call
