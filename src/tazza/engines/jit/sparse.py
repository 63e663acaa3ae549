"""Sparse products, compiled: float32 and float64, and 16-bit numbers computed in float32."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tazza.engines.jit import unavailable
from tazza.engines.jit.emit import Lines
from tazza.engines.jit.loop import compiled, threads_for
from tazza.engines.jit.sparse_product import (
    STATUS,
    TILE,
    tile_floats,
    write_from_left,
    write_gathered,
    write_rows,
    write_scattered,
    write_transposed,
)
from tazza.errors import KernelError
from tazza.runtime.native import call_native
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType
from tazza.tensor.sparse.task import SPARSE_ENGINES, Array, Form, Task
from tazza.tensor.tasks import Offer, Unsupported

_COMPUTED = {DataType.FLOAT: DataType.FLOAT, DataType.DOUBLE: DataType.DOUBLE}
_HALF = (DataType.FLOAT16, DataType.BFLOAT16)
_INDEX_BITS = {4: 32, 8: 64}
CONFLICT_BYTES, LINE_BYTES, USES = 512, 64, 8
"""Rows that lie a multiple of the first apart are spread, if each is read more often than the last says."""
Write = Callable[[Lines, DataType, int], None]


@SPARSE_ENGINES.solving(
    "jit",
    dtype=(*_COMPUTED, *_HALF),
    help="vector code of our own, rows shared among the threads by their elements",
    priority=15,
)
def prepare(task: Task) -> Offer[Callable[[], None]] | Unsupported:
    """Return what computes a product, or why it is not compiled."""
    reason = unavailable()
    return Offer(functools.partial(run, task), describe(task)) if reason is None else Unsupported(reason)


def run(task: Task) -> None:
    """Compute a product.

    Raises:
        ShapeError: starts or columns are out of their range.
    """
    if task.form is not Form.ROWS and task.dtype in _HALF:  # sums in memory are kept in float32
        wide = np.empty(task.Y.shape, np.float32)
        values, D = (array.astype(np.float32) for array in (task.values, task.D))
        run(Task(task.form, task.shape, task.starts, task.columns, values, D, wide, DataType.FLOAT))
        task.Y[...] = wide
        return
    name, write = _kernel(task)
    spread = _spread(task)
    block, kept = _block(spread)
    status = call_native(
        _compiled(name, write, task.dtype, _INDEX_BITS[task.columns.itemsize]), block.ctypes.data, threads=int(block[0])
    )
    del kept
    if status != 0:
        task.check()
        raise KernelError(f"sparse product {task.form.value} ended with status {status}")
    if spread.Y is not task.Y:
        task.Y[...] = spread.Y


def describe(task: Task) -> str:
    """Tell which kernel runs, on how many threads."""
    return f"{_kernel(task)[0]}, compiled, threads: {_threads(task)}"


def _kernel(task: Task) -> tuple[str, Write]:
    if task.form is Form.TRANSPOSED and task.vectors == 1:
        return "sums of columns one by one", write_scattered
    if task.form is Form.TRANSPOSED:
        return "sums of columns in memory", write_transposed
    if task.form is Form.FROM_LEFT:
        return "sums of columns in tiles", write_from_left
    # Without a vector of D to load, the elements of the row themselves are taken as one.
    if task.vectors == 1 and task.dtype in _COMPUTED:
        return "dot products of rows", write_gathered
    return "sums of rows in registers", write_rows


@functools.cache
def _compiled(name: str, write: Write, dtype: DataType, index_bits: int) -> int:
    return compiled(
        f"sparse: {name}, {dtype}, {index_bits}-bit indices", lambda lines: write(lines, dtype, index_bits), finish
    )


def finish(lines: Lines) -> None:
    """Return the status; the block is not used again."""
    lines.do(f"ret i64 {lines.load_word('%block', STATUS)}")


def _threads(task: Task) -> int:
    parts = task.shape[0] if task.form is Form.ROWS else -(-task.vectors // (tile_floats(task.dtype) // TILE))
    most = min(thread_count(), max(parts, 1))
    return threads_for(most, len(task.values) + len(task.starts), 2 * task.vectors, 8 + 4 * task.vectors)


def _block(task: Task) -> tuple[Array, tuple[Array, ...]]:
    """Return the words of a kernel's block, and the arrays that they point to."""
    threads, item = _threads(task), task.Y.itemsize
    tile, lanes = (tile_floats(task.dtype), tile_floats(task.dtype) // TILE) if task.form is Form.FROM_LEFT else (0, 0)
    scratch = np.empty(threads * (sum(task.shape) + 2 * lanes) * tile, task.Y.dtype)
    pitches = [array.strides[0] // item for array in (task.D, task.Y)]
    arrays = (task.starts, task.columns, task.values, task.D, task.Y, scratch)
    addresses = [array.__array_interface__["data"][0] for array in arrays]
    words = [threads, 0, *task.shape, len(task.values), task.vectors, *pitches, *addresses]
    return np.array(words, np.int64), arrays


def _spread(task: Task) -> Task:
    """Return the task with a longer pitch of what is read or written row by row in no order.

    Rows that lie a multiple of `CONFLICT_BYTES` apart share few lines of a cache. The result of another Y is copied.
    """
    form, often = task.form, len(task.values) > USES * task.shape[1]
    scattered = task.D if form is Form.ROWS else task.Y
    if form is Form.FROM_LEFT or not often or scattered.strides[0] % CONFLICT_BYTES or task.vectors == 1:
        return task
    spread = np.empty((len(scattered), task.vectors + LINE_BYTES // scattered.itemsize), scattered.dtype)
    part = spread[:, : task.vectors]
    if form is Form.TRANSPOSED:
        return replace(task, Y=part)
    part[...] = scattered
    return replace(task, D=part)
