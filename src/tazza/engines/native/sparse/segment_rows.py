"""LengthsTile: rows one behind the other, as often as lengths say; threads share the rows that are written."""

from __future__ import annotations

import math

from tazza.codegen.block import BlockLaunch
from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, share, step_loop
from tazza.codegen.rows import ROWS, element, index_at
from tazza.engines.native import SOURCES, native
from tazza.engines.native.move import copies
from tazza.operator import OpView, SizedLaunch, Unsupported
from tazza.ops.sparse.segment import row_count
from tazza.ops.sparse.segment_rows import LENGTHS_TILE
from tazza.tensor import TensorSpec

BLOCK = Fields("written", addresses="lengths X Y", after=ROWS)
"""N rows of D elements, and how many rows are written."""


def write_tile(lines: Lines, itemsize: int) -> None:
    """Write row n of X at the places of Y that are its own and this thread's."""
    read = BLOCK.read(lines)
    width, count, lengths, source, target = read.D, read.N, read.lengths, read.X, read.Y
    first, behind = share(lines, read.written)
    copy, kind = copies(lines, itemsize), f"i{8 * itemsize}"

    def start(pointer: str, row: str) -> str:
        return element(lines, pointer, lines.let(f"mul i64 {row}, {width}"), kind)

    def row(n: str, before: str) -> list[str]:
        end = lines.let(f"add i64 {before}, {index_at(lines, lengths, n, 32)}")
        begin = lines.most(before, first)
        last = lines.least(end, behind)
        x = start(source, n)
        count_loop(lines, begin, last, lambda at: copy(start(target, at), x, "0", width))
        return [end]

    step_loop(lines, "i64", ("0", count, 1), ["0"], lambda n, written: row(n, written[0]))


@native(LENGTHS_TILE)
def prepare_lengths_tile(op: OpView, X: TensorSpec) -> SizedLaunch | Unsupported:
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
