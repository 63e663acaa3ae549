"""Pieces of kernels that work on a matrix row by row: N rows of D elements, row-major float32, rows shared by threads.

The block of such a kernel begins with ROWS. A row that finds something wrong puts its number, from 1, into the status;
`finish` gives it to the caller, who looks for what is wrong in Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from tazza.codegen.block import Check
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.loop import (
    Values,
    chosen,
    count_loop,
    each_vector,
    lane_sums,
    lanes_below,
    lanes_of,
    share,
    sweep,
)
from tazza.codegen.vector import exp
from tazza.operator import OpView
from tazza.ops.sparse.segment import check_rows
from tazza.tensor import DataType

FLOAT = DataType.FLOAT
ROWS = Fields("threads N D", own="status")
"""Words of the block; the kernel's own come after them."""
EXP_FLOPS = 20
LINE_BYTES, LINES_ASKED = 64, 4
"""Of a cache, and how many of them are asked for of a row that is about to come."""


def each_row(lines: Lines, body: Callable[[str], None]) -> None:
    """Run `body(n)` for the rows of this thread."""
    first, last = share(lines, ROWS.read(lines).N)
    count_loop(lines, first, last, body)


def element(lines: Lines, pointer: str, index: str, kind: str = "float") -> str:
    """Return the address of an element."""
    return lines.let(f"getelementptr {kind}, ptr {pointer}, i64 {index}")


def row_at(lines: Lines, pointer: str, n: str, width: str) -> str:
    """Return the address of row n."""
    return element(lines, pointer, lines.let(f"mul i64 {n}, {width}"))


def index_at(lines: Lines, pointer: str, i: str, bits: int) -> str:
    """Return index i of an array of int32 or int64, as int64."""
    kind = f"i{bits}"
    found = lines.let(f"load {kind}, ptr {element(lines, pointer, i, kind)}")
    return found if bits == 64 else lines.let(f"sext {kind} {found} to i64")


def ask_ahead(
    lines: Lines,
    turn: tuple[str, int, str],
    starts: Callable[[str], Iterable[str]],
    asked: int = LINES_ASKED,
    *,
    write: bool = False,
) -> None:
    """Ask for the rows of a turn a while later, since those that indices pick lie anywhere in a table.

    Args:
        lines: where it is written.
        turn: the one that is computed now, how many later the asked one comes, and how many there are.
        starts: gives the addresses of the rows of a turn; nothing is read there, so that a wrong index does no harm.
        asked: lines of the cache from the start of each row on; the processor goes on by itself in longer ones.
        write: whether the rows will be written.
    """
    now, ahead, count = turn
    last = lines.let(f"sub i64 {count}, 1")
    later = lines.least(lines.let(f"add i64 {now}, {ahead}"), last)
    for start in starts(later):
        for line in range(asked):
            lines.prefetch(start, line * LINE_BYTES, write=write)


def stop_if(lines: Lines, wrong: str, block: Fields = ROWS, leave: str = "ret void") -> None:
    """Leave the work with a status, where the condition holds; it hardly ever does."""
    stop, onward = lines.fresh("stop"), lines.fresh("onward")
    lines.do(f"br i1 {wrong}, label %{stop}, label %{onward}, !prof !0")
    lines.label(stop)
    lines.do(f"store i64 1, ptr {block.read(lines).address('status')}")
    lines.do(leave)
    lines.label(onward)


def when(lines: Lines, condition: str, body: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
    """Run one of two bodies."""

    def nothing() -> None:
        pass

    both = (body, nothing if otherwise is None else otherwise)
    chosen(lines, condition, "", *(partial(_without_values, one) for one in both))


def _without_values(body: Callable[[], None]) -> Values:
    body()
    return ()


def with_label(lines: Lines, labels: str, n: str, body: Callable[[str], None], missed: Callable[[], None]) -> None:
    """Run `body(label)` for the label (int32) of row n, or `missed()` where it is no class."""
    label = lines.let(f"load i32, ptr {element(lines, labels, n, 'i32')}")
    wide = lines.let(f"sext i32 {label} to i64")
    valid = lines.let(f"icmp ult i64 {wide}, {ROWS.read(lines).D}")  # unsigned: -1 is too large
    when(lines, valid, lambda: body(wide), missed)


def report(lines: Lines, n: str) -> None:
    """Put row n into the status."""
    number = lines.let(f"add i64 {n}, 1")
    lines.do(f"store i64 {number}, ptr {ROWS.read(lines).address('status')}")


def finish_status(lines: Lines, body: Callable[[], None] | None = None) -> None:
    """Run `body` if no row complained; return the status and reset it."""
    at = ROWS.read(lines).address("status")
    status = lines.let(f"load i64, ptr {at}")
    lines.do(f"store i64 0, ptr {at}")
    if body is not None:
        when(lines, lines.let(f"icmp eq i64 {status}, 0"), body)
    lines.do(f"ret i64 {status}")


def softmax_row(v: Vector, x: str, y: str, width: str) -> tuple[str, str]:
    """Write y = softmax(x); returns the maximum of x and the sum of exp(x - maximum), as vectors of one value.

    A row that fits into one vector stays in registers.
    """
    is_short = v.lines.let(f"icmp sle i64 {width}, {v.count}")
    ways = (partial(one, v, x, y, width) for one in (_softmax_vector, _softmax_vectors))
    top, total = chosen(v.lines, is_short, v.type, *ways)
    return top, total


def _softmax_vector(v: Vector, x: str, y: str, width: str) -> tuple[str, str]:
    mask, lowest = lanes_below(v, width), v.constant(-math.inf)
    here = v.load(x, "0", mask, lowest)
    top = v.splat(v.largest(here))
    power = v.select(mask, exp(v, v.sub(here, top)), v.constant(0.0))
    total = v.splat(v.sum(power))
    v.store(v.div(power, total), y, "0", mask)
    return top, total


def _softmax_vectors(v: Vector, x: str, y: str, width: str) -> tuple[str, str]:
    lowest = v.constant(-math.inf)

    def largest(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
        here = v.load(x, i, mask, lowest)
        return (v.select(v.compare("ogt", here, carried[0]), here, carried[0]),)

    top = v.splat(v.largest(sweep(v, "0", width, largest, (lowest,))[0]))

    def exponential(i: str, mask: str | None) -> str:
        power = exp(v, v.sub(v.load(x, i, mask, lowest), top))
        v.store(power, y, i, mask)
        return power

    total = v.splat(v.sum(lane_sums(v, "0", width, exponential)))

    each_vector(v, "0", width, lambda i, mask: v.store(v.div(v.load(y, i, mask), total), y, i, mask))
    return top, total


def first_lane(v: Vector, value: str) -> str:
    """Return a vector's first lane."""
    return v.lines.let(f"extractelement {v.type} {value}, i32 0")


def sum_float64(lines: Lines, pointer: str, count: str, factors: str | None = None) -> str:
    """Return the sum of float32 elements, times those of `factors` if given, added up in float64 in a fixed order."""
    v = lanes_of(lines, DataType.DOUBLE)

    def term(i: str, mask: str | None) -> str:
        value = v.load(pointer, i, mask, v.constant(0.0), dtype=FLOAT)
        return value if factors is None else v.mul(value, v.load(factors, i, mask, v.constant(0.0), dtype=FLOAT))

    return v.sum(lane_sums(v, "0", count, term))


def row_total(lines: Lines, weights: str | None) -> str:
    """Return what the rows count together, as double: the sum of the weights, or N."""
    count = ROWS.read(lines).N
    if weights is None:
        return lines.let(f"uitofp i64 {count} to double")
    return sum_float64(lines, weights, count)


def rows_check(op: OpView, letter: str, rows: int) -> Check:
    """Return what says which index of a letter is that of no row."""
    return lambda operands: check_rows(op, operands[letter].array, rows, letter)
