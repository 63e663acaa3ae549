"""OneHot: a row of zeros, and the 1 in it."""

from __future__ import annotations

from tazza.codegen.block import BlockLaunch, accepts_rows
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.rows import ROWS, each_row, finish_status, rows_check, stop_if
from tazza.codegen.term import Lines, Term
from tazza.engines.native import SOURCES, native
from tazza.engines.native.move import fills
from tazza.operator import Launch, OpView
from tazza.ops.shape.one_hot import ONE_HOT
from tazza.tensor import TensorSpec

BLOCK = Fields(addresses="X:i64 Y", after=ROWS)


def write_one_hot(lines: Lines) -> None:
    """Write Y[n] = 0, but 1 at X[n]."""
    w, none = BLOCK.loaded(lines), lines.number(0)
    zeros = fills(lines, 4, none)

    def row(n: Term) -> None:
        place, start = w.X[n], w.Y.at(n * w.D)
        zeros(start, start, none, w.D)
        stop_if(place.outside(w.D))  # -1 is too large
        start[place] = 1.0

    each_row(lines, row)


@native(ONE_HOT, accepts=lambda letter, spec: letter == "size" or accepts_rows(letter, spec))
def prepare_one_hot(op: OpView, Y: TensorSpec) -> Launch:
    """Compile the rows."""
    N, D = Y.shape
    words = BLOCK.words(threads=threads_of(N, 0, 4 * D + 8), N=N, D=D)
    return BlockLaunch(SOURCES.compiled("one hot", write_one_hot, finish_status), words, check=rows_check(op, "X", D))
