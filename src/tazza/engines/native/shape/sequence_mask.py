"""SequenceMask: of each row the columns that are kept lie side by side: they are copied, those around them filled."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tazza.codegen.block import BlockLaunch
from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.rows import ROWS, each_row, index_at, row_at
from tazza.engines.native import SOURCES, native
from tazza.engines.native.move import copies, fills
from tazza.operator import Launch, OpView
from tazza.ops.shape.sequence_mask import COUNTED, SEQUENCE_MASK, divided
from tazza.tensor import TensorSpec

BLOCK = Fields("I J E radius fill", addresses="lengths X Y", after=ROWS)
"""There are B I rows of J E elements; the fill is its bits."""
FARTHEST = 2**40
"""No column is so far from a length; a larger radius keeps as much."""

Borders = tuple[str, str]
"""The first column of a row that is kept, and the one behind the last, wherever they lie."""


def _window(lines: Lines, length: str) -> Borders:
    radius = BLOCK.read(lines).radius
    last = lines.let(f"add i64 {length}, {radius}")
    return lines.let(f"sub i64 {length}, {radius}"), lines.let(f"add i64 {last}, 1")


KEPT: dict[str, Callable[[Lines, str, str, str], Borders]] = {
    "sequence": lambda lines, i, columns, length: ("0", length),
    "window": lambda lines, i, columns, length: _window(lines, length),
    "upper": lambda lines, i, columns, length: ("0", lines.let(f"add i64 {i}, 1")),
    "lower": lambda lines, i, columns, length: (i, columns),
    "upperdiag": lambda lines, i, columns, length: ("0", i),
    "lowerdiag": lambda lines, i, columns, length: (lines.let(f"add i64 {i}, 1"), columns),
}
"""Mode -> what is kept of row i, by the number of columns, and by the length of the row."""


def write_mask(lines: Lines, mode: str) -> None:
    """Write Y = X where columns are kept, else the fill."""
    w = BLOCK.load(lines)
    copy, fill = copies(lines, 4), fills(lines, 4, w.fill)

    def within(column: str, least: str) -> str:
        low = lines.most(column, least)
        return lines.least(low, w.J)

    def row(n: str) -> None:
        i, length = lines.let(f"urem i64 {n}, {w.I}"), "0"
        if mode in COUNTED:
            length = index_at(lines, w.lengths, i, 32)
        first, behind = KEPT[mode](lines, i, w.J, length)
        begin = within(first, "0")
        end = within(behind, begin)
        begin, end = (lines.let(f"mul i64 {border}, {w.E}") for border in (begin, end))
        x, y = (row_at(lines, pointer, n, w.D) for pointer in (w.X, w.Y))
        fill(y, x, "0", begin)
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
