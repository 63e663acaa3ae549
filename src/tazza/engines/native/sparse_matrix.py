"""Sparse products, compiled: float32 and float64, and 16-bit numbers computed in float32."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tazza.array.sparse.task import SPARSE_ENGINES, Array, Form, Multiply, SparseTask
from tazza.codegen.kernel import threads_for
from tazza.codegen.term import Lines
from tazza.engines.native import SOURCES, unavailable
from tazza.engines.native.sparse_product import (
    BLOCK,
    TILE,
    finish,
    tile_floats,
    write_from_left,
    write_rows,
    write_scattered,
    write_transposed,
)
from tazza.engines.native.sparse_vector import write_gathered
from tazza.errors import KernelError
from tazza.runtime.cache import remembered
from tazza.runtime.native import call_native
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType
from tazza.tensor.allocation import address_of
from tazza.tensor.offer import Offer, Unsupported

_COMPUTED = {DataType.FLOAT: DataType.FLOAT, DataType.DOUBLE: DataType.DOUBLE}
_HALF = (DataType.FLOAT16, DataType.BFLOAT16)
_INDEX_BITS = {4: 32, 8: 64}
CONFLICT_BYTES, LINE_BYTES, USES = 512, 64, 8
"""Rows that lie a multiple of the first apart are spread, if each is read more often than the last says."""
ELEMENT_NS, ROW_NS = 0.7, 5.0
"""What products of rows with one vector take of one thread."""
DOT_THREAD_NS = 200_000
"""What a thread must have to do of them. At 300 us in all, a second thread gains a sixth on an idle machine, and on a
busy one makes the product take several times as long: it has to wait until both have a processor."""
Write = Callable[[Lines, DataType, int], None]


@SPARSE_ENGINES.solving(
    "native",
    dtype=(*_COMPUTED, *_HALF),
    help="vector code of our own, rows shared among the threads by their elements",
    priority=15,
)
def prepare(task: SparseTask) -> Offer[Multiply]:
    """Return what computes a product, or why it is not compiled."""
    reason = unavailable()
    if reason is not None:
        raise Unsupported(reason)
    if task.form is not Form.ROWS and task.dtype in _HALF:
        multiply = functools.partial(_multiply_wide, task.bare())
    elif _is_spread(task):
        multiply = functools.partial(_multiply_spread, task.bare())
    else:
        multiply = _Product(task)
    return Offer(multiply, describe(task))


def _multiply_wide(task: SparseTask, D: Array, Y: Array) -> None:
    """Compute in float32, which sums in memory are kept in."""
    wide = np.empty(Y.shape, np.float32)
    values, given = (array.astype(np.float32) for array in (task.values, D))
    inner = replace(task, values=values, D=given, Y=wide, dtype=DataType.FLOAT)
    SPARSE_ENGINES.choose(inner, "native").run(given, wide)
    Y[...] = wide


def _multiply_spread(task: SparseTask, D: Array, Y: Array) -> None:
    """Compute with a longer pitch of what is read or written row by row in no order, which is a copy."""
    scattered = D if task.form is Form.ROWS else Y
    spread = np.empty((len(scattered), scattered.shape[1] + LINE_BYTES // scattered.itemsize), scattered.dtype)
    part = spread[:, : scattered.shape[1]]
    if task.form is Form.TRANSPOSED:
        _Product(replace(task, D=D, Y=part))(D, part)
        Y[...] = part
    else:
        part[...] = D
        _Product(replace(task, D=part, Y=Y))(part, Y)


class _Product:
    """A product whose kernel reads D and writes Y where they are."""

    __slots__ = ("_block", "_choice", "_kernel", "_scratch_elements", "_task", "_threads")

    def __init__(self, task: SparseTask) -> None:
        self._task = task.bare()
        self._threads = _threads(task)
        self._choice, self._kernel = _kernel(task), 0
        extents = {"R": task.shape[0], "C": task.shape[1], "Z": len(task.values), "N": task.vectors}
        pitches = {name: one.strides[0] // one.itemsize for name, one in (("D_pitch", task.D), ("Y_pitch", task.Y))}
        addresses = {name: address_of(getattr(task, name)) for name in ("starts", "columns", "values")}
        words = BLOCK.words(threads=self._threads, **extents, **pitches, **addresses, D=0, Y=0, scratch=0)
        self._block = _Block(*words)
        self._scratch_elements = 0
        if task.form is Form.FROM_LEFT:
            tile, lanes = tile_floats(task.dtype), tile_floats(task.dtype) // TILE
            self._scratch_elements = self._threads * (sum(task.shape) + 2 * lanes) * tile

    def __call__(self, D: Array, Y: Array) -> None:
        """Write Y.

        Raises:
            ShapeError: starts or columns are out of their range.
        """
        self.at(address_of(D), address_of(Y))

    def at(self, D: int, Y: int) -> None:
        """Write Y; both are addresses."""
        task = self._task
        if self._kernel == 0:  # an offer that nobody takes is not compiled
            self._kernel = compiled_once(*self._choice, task.dtype, _INDEX_BITS[task.columns.itemsize])
        block = _Block.from_buffer_copy(self._block)  # many threads may be in here
        block[BLOCK.place("D")], block[BLOCK.place("Y")] = D, Y
        if self._scratch_elements:
            scratch = np.empty(self._scratch_elements, task.dtype.numpy)
            block[BLOCK.place("scratch")] = address_of(scratch)
        if call_native(self._kernel, ctypes.addressof(block), threads=self._threads) != 0:
            task.check()
            raise KernelError(
                f"sparse product {task.form.value} found an index out of range, which by now is none any more"
            )


_Block = ctypes.c_int64 * len(BLOCK)


def describe(task: SparseTask) -> str:
    """Tell which kernel runs, on how many threads."""
    return f"{_kernel(task)[0]}, compiled, threads: {_threads(task)}"


def _kernel(task: SparseTask) -> tuple[str, Write]:
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


@remembered("sparse kernels", entries=256)
def compiled_once(name: str, write: Write, dtype: DataType, index_bits: int) -> int:
    """Return the address of a kernel."""
    return SOURCES.compiled(
        f"sparse: {name}, {dtype}, {index_bits}-bit indices", lambda lines: write(lines, dtype, index_bits), finish
    )


def _threads(task: SparseTask) -> int:
    if _kernel(task)[1] is write_gathered:
        work_ns = ELEMENT_NS * len(task.values) + ROW_NS * task.shape[0]
        return max(1, min(thread_count(), task.shape[0], int(work_ns / DOT_THREAD_NS)))
    parts = task.shape[0] if task.form is Form.ROWS else -(-task.vectors // (tile_floats(task.dtype) // TILE))
    most = min(thread_count(), max(parts, 1))
    return threads_for(most, len(task.values) + len(task.starts), 2 * task.vectors, 8 + 4 * task.vectors)


def _is_spread(task: SparseTask) -> bool:
    """Whether rows that are read or written in no order lie so far apart that they share few lines of a cache."""
    often = len(task.values) > USES * task.shape[1]
    scattered = task.D if task.form is Form.ROWS else task.Y
    return task.form is not Form.FROM_LEFT and often and scattered.strides[0] % CONFLICT_BYTES == 0 and task.vectors > 1
