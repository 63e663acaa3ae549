"""LengthsTile: rows one behind the other, as often as lengths say; threads share the rows that are written."""

from __future__ import annotations

import math

from tazza.codegen.block import BlockLaunch
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, fold_loop, share
from tazza.codegen.rows import ROWS
from tazza.codegen.term import Lines, Term
from tazza.engines.native import SOURCES, native
from tazza.engines.native.move import copies
from tazza.operator import OpView, SizedLaunch
from tazza.ops.sparse.segment import row_count
from tazza.ops.sparse.segment_rows import LENGTHS_TILE
from tazza.tensor import TensorSpec

BLOCK = Fields("written", addresses="lengths:i32 X Y", after=ROWS)
"""N rows of D elements, and how many rows are written."""


def write_tile(lines: Lines, itemsize: int) -> None:
    """Write row n of X at the places of Y that are its own and this thread's."""
    read, kind = BLOCK.lazily(lines), f"i{8 * itemsize}"
    width, count, lengths, source, target = read.D, read.N, read.lengths, read.X.of(kind), read.Y.of(kind)
    first, behind = share(lines, read.written)
    copy, none = copies(lines, itemsize), lines.number(0)

    def row(n: Term, before: Term) -> Term:
        end = before + lengths[n].to("i64")
        begin, last, x = before.at_least(first), end.at_most(behind), source.at(n * width)
        count_loop(lines, begin, last, lambda at: copy(target.at(at * width), x, none, width))
        return end

    fold_loop(0, count, none, row)


@native(LENGTHS_TILE)
def prepare_lengths_tile(op: OpView, X: TensorSpec) -> SizedLaunch:
    """Compile the copies, of as many rows as there turn out to be."""
    itemsize, width = X.dtype.itemsize, math.prod(X.shape[1:])

    def launch(rows: int) -> BlockLaunch:
        threads = threads_of(rows * width, 0, 2 * itemsize)
        address = SOURCES.compiled(f"lengths tile {itemsize}", lambda lines: write_tile(lines, itemsize))
        return BlockLaunch(address, BLOCK.words(threads=threads, N=X.shape[0], D=width, written=rows))

    return SizedLaunch(
        lambda operands: {"Y": (row_count(op, "lengths", operands["lengths"].array), *X.shape[1:])},
        lambda sizes: launch(sizes["Y"][0]),
        {"Y": X.dtype},
    )
