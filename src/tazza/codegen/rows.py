"""Pieces of kernels that work on a matrix row by row: N rows of D elements, row-major float32, rows shared by threads.

The block of such a kernel begins with ROWS. A row that finds something wrong puts its number, from 1, into the status;
`finish` gives it to the caller, who looks for what is wrong in Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from tazza.codegen.block import Check
from tazza.codegen.fields import Fields
from tazza.codegen.function import exp
from tazza.codegen.loop import (
    chosen,
    count_loop,
    each_vector,
    lane_sums,
    lanes_below,
    lanes_of,
    share,
    sweep,
    when,
)
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.vector import Vector
from tazza.operator import OpView
from tazza.tensor import DataType

FLOAT = DataType.FLOAT
ROWS = Fields("threads N D", own="status")
"""Words of the block; the kernel's own come after them."""
EXP_FLOPS = 20
LINE_BYTES, LINES_ASKED = 64, 4
"""Of a cache, and how many of them are asked for of a row that is about to come."""


def each_row(lines: Lines, body: Callable[[Term], None]) -> None:
    """Run `body(n)` for the rows of this thread."""
    first, last = share(lines, ROWS.lazily(lines).N)
    count_loop(lines, first, last, body)


def index_at(pointer: Term, i: Number, bits: int) -> Term:
    """Return index i of an array of int32 or int64, as int64."""
    return pointer.of(f"i{bits}")[i].to("i64")


def ask_ahead(
    turn: tuple[Term, int, Term],
    starts: Callable[[Term], Iterable[Term]],
    asked: int = LINES_ASKED,
    *,
    write: bool = False,
) -> None:
    """Ask for the rows of a turn a while later, since those that indices pick lie anywhere in a table.

    Args:
        turn: the one that is computed now, how many later the asked one comes, and how many there are.
        starts: gives the addresses of the rows of a turn; nothing is read there, so that a wrong index does no harm.
        asked: lines of the cache from the start of each row on; the processor goes on by itself in longer ones.
        write: whether the rows will be written.
    """
    now, ahead, count = turn
    last = count - 1
    later = (now + ahead).at_most(last)
    for start in starts(later):
        for line in range(asked):
            start.prefetch(line * LINE_BYTES, write=write)


def stop_if(wrong: Term, block: Fields = ROWS, leave: str = "ret void") -> None:
    """Leave the work with a status, where the condition holds; it hardly ever does."""
    lines = wrong.lines
    stop, onward = lines.fresh("stop"), lines.fresh("onward")
    lines.do(f"br i1 {wrong}, label %{stop}, label %{onward}, !prof !0")
    lines.label(stop)
    block.lazily(lines).address("status").store(1)
    lines.do(leave)
    lines.label(onward)


def with_label(lines: Lines, labels: Term, n: Term, body: Callable[[Term], None], missed: Callable[[], None]) -> None:
    """Run `body(label)` for the label (int32) of row n, or `missed()` where it is no class."""
    label = labels.of("i32")[n]
    wide = label.to("i64")
    valid = wide.below(ROWS.lazily(lines).D)  # unsigned: -1 is too large
    when(valid, lambda: body(wide), missed)


def report(lines: Lines, n: Number) -> None:
    """Put row n into the status."""
    number = n + 1
    ROWS.lazily(lines).address("status").store(number)


def finish_status(lines: Lines, body: Callable[[], None] | None = None) -> None:
    """Run `body` if no row complained; return the status and reset it."""
    at = ROWS.lazily(lines).address("status")
    status = at.load()
    at.store(0)
    if body is not None:
        when(status.equals(0), body)
    lines.do(f"ret i64 {status}")


def softmax_row(v: Vector, x: Term, y: Term, width: Term) -> tuple[Term, Term]:
    """Write y = softmax(x); returns the maximum of x and the sum of exp(x - maximum), as vectors of one value.

    A row that fits into one vector stays in registers.
    """
    is_short = width <= v.count
    ways = (partial(one, v, x, y, width) for one in (_softmax_vector, _softmax_vectors))
    top, total = chosen(is_short, *ways)
    return top, total


def _softmax_vector(v: Vector, x: Term, y: Term, width: Term) -> tuple[Term, Term]:
    mask, lowest = lanes_below(v, width), v.constant(-math.inf)
    here = v.load(x, 0, mask, lowest)
    top = v.full(here.largest())
    power = mask.choose(exp(here - top), 0.0)
    total = v.full(power.sum())
    v.store(power / total, y, 0, mask)
    return top, total


def _softmax_vectors(v: Vector, x: Term, y: Term, width: Term) -> tuple[Term, Term]:
    lowest = v.constant(-math.inf)

    def largest(i: Term, mask: Term | None, carried: Sequence[Term]) -> Sequence[Term]:
        here = v.load(x, i, mask, lowest)
        return ((here > carried[0]).choose(here, carried[0]),)

    top = v.full(sweep(v, 0, width, largest, (lowest,))[0].largest())

    def exponential(i: Term, mask: Term | None) -> Term:
        power = exp(v.load(x, i, mask, lowest) - top)
        v.store(power, y, i, mask)
        return power

    total = v.full(lane_sums(v, 0, width, exponential).sum())

    each_vector(v, 0, width, lambda i, mask: v.store(v.load(y, i, mask) / total, y, i, mask))
    return top, total


def sum_float64(lines: Lines, pointer: Term, count: Term, factors: Term | None = None) -> Term:
    """Return the sum of float32 elements, times those of `factors` if given, added up in float64 in a fixed order."""
    v = lanes_of(lines, DataType.DOUBLE)

    def term(i: Term, mask: Term | None) -> Term:
        value = v.load(pointer, i, mask, dtype=FLOAT)
        return value if factors is None else value * v.load(factors, i, mask, dtype=FLOAT)

    return lane_sums(v, 0, count, term).sum()


def row_total(lines: Lines, weights: Term | None) -> Term:
    """Return what the rows count together, as double: the sum of the weights, or N."""
    count = ROWS.lazily(lines).N
    if weights is None:
        return count.to_unsigned("double")
    return sum_float64(lines, weights, count)


def rows_check(op: OpView, letter: str, rows: int) -> Check:
    """Return what says which index of a letter is that of no row."""
    from tazza.ops.sparse.segment import check_rows  # most kernels on rows have no indices

    return lambda operands: check_rows(op, operands[letter].array, rows, letter)
