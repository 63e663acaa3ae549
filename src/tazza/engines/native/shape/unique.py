"""Unique of numbers that lie near each other: a table of what occurs, which threads mark and look places up in.

What lies far apart, or is little, is sorted instead, as the reference kernel does.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, share
from tazza.codegen.rows import index_at
from tazza.codegen.term import Lines, Term
from tazza.data_class import dataclass
from tazza.engines.native import SOURCES, native
from tazza.operator import Array, Call, Launch, Operands, OpView
from tazza.ops.shape.unique import UNIQUE, unique
from tazza.runtime.native import call_native
from tazza.tensor import TensorSpec

BLOCK = Fields("threads size least", addresses="X table places:i32")
"""The least is that of the elements of X."""
NEAR, FEW = 4, 2000
"""Entries of the table for each element at the most; fewer elements are sorted sooner than a table is made."""
FLOPS = 5
UNIT = 64


@native(UNIQUE)
def prepare_unique(op: OpView, X: TensorSpec) -> Launch:
    """Compile the passes over X."""
    bits = 8 * X.dtype.itemsize
    passes = [
        SOURCES.compiled(f"{told} in a table of {bits} bits", partial(write, bits=bits))
        for told, write in (("marks", _mark), ("places", _look_up))
    ]
    return UniqueLaunch(passes[0], passes[1], op.has_output("place"))


@dataclass(frozen=True, slots=True)
class UniqueLaunch:
    """The addresses of both passes, and whether places are asked for."""

    mark: int
    look_up: int
    placed: bool
    scratch_bytes: int = 0
    capturable: bool = False

    def bind(self, operands: Operands) -> Call:
        """Return a call that makes a table as large as numbers lie apart."""
        X, Y = operands.tensors["X"], operands.sized_by_kernel("Y", operands.tensors["X"].dtype)

        def call() -> None:
            x = X.array
            place = operands.tensors["place"].array if self.placed else None
            least, most = (int(x.min()), int(x.max())) if x.size >= FEW else (0, 0)
            extent = most - least + 1
            if x.size < FEW or extent > NEAR * x.size:
                unique(x, Y, place)
                return
            seen = np.zeros(extent, np.uint8)
            self._run(self.mark, x, least, table=seen)
            found = np.flatnonzero(seen)
            Y.allocate(found.shape)[...] = found + least
            if place is not None:
                self._run(self.look_up, x, least, table=np.cumsum(seen, dtype=np.int32) - 1, places=place)

        return call

    def _run(self, address: int, x: Array, least: int, **arrays: Array) -> None:
        threads = threads_of(x.size, FLOPS, x.itemsize)
        addresses = {"places": 0} | {name: one.ctypes.data for name, one in arrays.items()}
        block = np.array(BLOCK.words(threads=threads, size=x.size, least=least, X=x.ctypes.data, **addresses), np.int64)
        call_native(address, block.ctypes.data, threads=threads)


def _mark(lines: Lines, *, bits: int) -> None:
    """Set the entry of each number; whoever is first, it is the same."""
    w = BLOCK.loaded(lines)

    def one(i: Term) -> None:
        at = w.table.of("i8").at(index_at(w.X, i, bits) - w.least)
        lines.do(f"store atomic i8 1, ptr {at} unordered, align 1")

    count_loop(lines, *share(lines, w.size, UNIT), one)


def _look_up(lines: Lines, *, bits: int) -> None:
    """Write the entry of each number."""
    w = BLOCK.loaded(lines)

    def one(i: Term) -> None:
        w.places[i] = w.table.of("i32")[index_at(w.X, i, bits) - w.least]

    count_loop(lines, *share(lines, w.size, UNIT), one)
