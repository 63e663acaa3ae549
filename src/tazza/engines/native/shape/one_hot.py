"""OneHot: a row of zeros, and the 1 in it."""

from __future__ import annotations

from tazza.codegen.block import BlockLaunch, accepts_rows
from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.rows import ROWS, each_row, element, finish_status, index_at, row_at, rows_check, stop_if
from tazza.engines.native import SOURCES, native
from tazza.engines.native.move import fills
from tazza.operator import Launch, OpView
from tazza.ops.shape.one_hot import ONE_HOT
from tazza.tensor import TensorSpec

BLOCK = Fields(addresses="X Y", after=ROWS)


def write_one_hot(lines: Lines) -> None:
    """Write Y[n] = 0, but 1 at X[n]."""
    w = BLOCK.load(lines)
    zeros = fills(lines, 4, "0")

    def row(n: str) -> None:
        place, start = index_at(lines, w.X, n, 64), row_at(lines, w.Y, n, w.D)
        zeros(start, start, "0", w.D)
        stop_if(lines, lines.let(f"icmp uge i64 {place}, {w.D}"))  # -1 is too large
        lines.do(f"store float 1.0, ptr {element(lines, start, place)}")

    each_row(lines, row)


@native(ONE_HOT, accepts=lambda letter, spec: letter == "size" or accepts_rows(letter, spec))
def prepare_one_hot(op: OpView, Y: TensorSpec) -> Launch:
    """Compile the rows."""
    N, D = Y.shape
    words = BLOCK.words(threads=threads_of(N, 0, 4 * D + 8), N=N, D=D)
    return BlockLaunch(SOURCES.compiled("one hot", write_one_hot, finish_status), words, check=rows_check(op, "X", D))
