"""SequenceMask: of each row the columns that are kept lie side by side: they are copied, those around them filled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.codegen.block import BlockLaunch
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.rows import ROWS, each_row
from tazza.codegen.term import Lines, Number, Term
from tazza.engines.native import SOURCES, native
from tazza.engines.native.move import copies, fills
from tazza.operator import Launch, OpView
from tazza.ops.shape.sequence_mask import COUNTED, SEQUENCE_MASK, divided
from tazza.tensor import TensorSpec

BLOCK = Fields("I J E radius fill", addresses="lengths:i32 X Y", after=ROWS)
"""There are B I rows of J E elements; the fill is its bits."""
FARTHEST = 2**40
"""No column is so far from a length; a larger radius keeps as much."""

Borders = tuple[Number, Number]
"""The first column of a row that is kept, and the one behind the last, wherever they lie."""

KEPT: dict[str, Callable[[Term, Term, Number, Term], Borders]] = {
    "sequence": lambda i, columns, length, radius: (0, length),
    "window": lambda i, columns, length, radius: (length - radius, length + radius + 1),
    "upper": lambda i, columns, length, radius: (0, i + 1),
    "lower": lambda i, columns, length, radius: (i, columns),
    "upperdiag": lambda i, columns, length, radius: (0, i),
    "lowerdiag": lambda i, columns, length, radius: (i + 1, columns),
}
"""Mode -> what is kept of row i, by the number of columns, the length of the row, and the radius."""


def write_mask(lines: Lines, mode: str) -> None:
    """Write Y = X where columns are kept, else the fill."""
    w, none = BLOCK.loaded(lines), lines.number(0)
    copy, fill = copies(lines, 4), fills(lines, 4, w.fill)

    def within(column: Number, least: Term) -> Term:
        return (column if isinstance(column, Term) else lines.number(column)).at_least(least).at_most(w.J)

    def row(n: Term) -> None:
        i = n % w.I
        first, behind = KEPT[mode](i, w.J, w.lengths[i].to("i64") if mode in COUNTED else 0, w.radius)
        begin = within(first, none)
        end = within(behind, begin)
        begin, end = begin * w.E, end * w.E
        x, y = (pointer.at(n * w.D) for pointer in (w.X, w.Y))
        fill(y, x, none, begin)
        copy(y, x, begin, end)
        fill(y, x, end, w.D)

    each_row(lines, row)


@native(SEQUENCE_MASK)
def prepare_sequence_mask(op: OpView, X: TensorSpec) -> Launch:
    """Compile the rows of a mode."""
    batches, rows, columns, each = divided(op, X.shape)
    value = np.float32(0 if op.grad else op.fill_val)
    pattern = int(np.frombuffer(value.tobytes(), np.int32)[0])
    radius = max(-FARTHEST, min(op.radius, FARTHEST))
    words = BLOCK.words(
        **{"threads": threads_of(batches * rows, 0, 8 * columns * each), "N": batches * rows, "D": columns * each},
        **{"I": rows, "J": columns, "E": each, "radius": radius, "fill": pattern},
        **({} if op.mode in COUNTED else {"lengths": 0}),
    )
    return BlockLaunch(SOURCES.compiled(f"mask {op.mode}", lambda lines: write_mask(lines, op.mode)), words)
