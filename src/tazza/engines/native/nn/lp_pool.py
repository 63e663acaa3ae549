"""LpPool and its gradient: vectors run over the channels of a place, or in row-major NCHW over the columns of Y.

Letters as in `pool.py`; those of Y have `out` before them. A row is one of Y. Where vectors run over columns, lanes
look at every sW-th element of a row of X.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np

from tazza.codegen.block import BlockLaunch, accepts_dense, all_float32
from tazza.codegen.fields import Fields
from tazza.codegen.image import lies_as
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, each_vector, fold_loop, sweep
from tazza.codegen.power import power
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.codegen.writer import Writer, gather
from tazza.engines.native import SOURCES, native
from tazza.engines.native.nn.pool import (
    MOST_SPATIAL,
    VIEWS,
    Part,
    Seen,
    each_row_of_y,
    gradient_launch,
    gradient_layouts,
    images_of,
    lying,
    pair_at,
    sides_of,
    views_of,
)
from tazza.operator import LaidOut, Launch, OpView, Unsupported
from tazza.ops.nn.lp_pool import LP_POOL, LP_POOL_GRADIENT, POWER_FLOPS
from tazza.ops.nn.pool import pool_window
from tazza.tensor import DataType, TensorSpec

BLOCK = Fields("kernel step left", after=VIEWS)
"""The window along W."""

WIDER = 4
"""How many times as wide as the image a window may be: it is looked at whole, what lies in the pads too."""


# -- preparing ---------------------------------------------------------------------------------------------------------


@native(LP_POOL, accepts=accepts_dense, batch_invariant=True)
def prepare_lp_pool(op: OpView, X: TensorSpec, Y: TensorSpec) -> LaidOut:
    """Compile for channels that lie innermost, or for row-major NCHW; other layouts of X become channels-last."""
    _check(op, X)
    by_channel, dense = lying(op, X)
    layouts = {"Y": dense(Y.shape)} | ({} if lies_as(X, dense(X.shape)) else {"X": dense(X.shape)})
    return LaidOut(_launch(op, X, by_channel=by_channel), layouts)


@native(LP_POOL_GRADIENT, accepts=accepts_dense, batch_invariant=True)
def prepare_lp_pool_gradient(op: OpView, X: TensorSpec, Y: TensorSpec, dY: TensorSpec) -> LaidOut:
    """Compile what each element gets of the windows that cover it."""
    _check(op, X)
    layouts, by_channel = gradient_layouts(op, X, Y, dY)
    return LaidOut(gradient_launch(op, X, _part(np.float32(op.p)), by_channel=by_channel), layouts)


def _check(op: OpView, X: TensorSpec) -> None:
    window, _ = pool_window(op, X.shape)
    if not all_float32(X):
        raise Unsupported(f"it computes in float32, not {X}")
    if not 1 <= window.rank <= MOST_SPATIAL:
        raise Unsupported(f"X has {window.rank} spatial dimensions, 1 to {MOST_SPATIAL} are compiled")
    width = images_of(op, X)[-1]
    if window.kernel[-1] > WIDER * max(width, 1):
        raise Unsupported(f"windows of {window.kernel[-1]} columns are counted out, the image has {width}")
    p = np.float32(op.p)
    if not np.isfinite(p) or p == 0:
        raise Unsupported(f"p is {p}: no norm that is a root")


def _part(p: np.float32) -> Part:
    """Return x |x|^(p - 2) of an element, times dY / Y^(p - 1) of a window."""

    def told(v: Vector, x: Term) -> Term:
        return x * _power(v, abs(x), float(p - np.float32(2)))

    def add(v: Vector, total: Term, slope: Term, y: Term, dy: Term) -> Term:
        return total + slope * (dy / _power(v, y, float(p - np.float32(1))))

    return Part(f"norm {float(p)!r}", told, add, POWER_FLOPS)


def _power(v: Vector, x: Term, exponent: float) -> Term:
    """Return what is not negative, or NaN, raised to a power."""
    simple: dict[float, Callable[[], Term]] = {
        0.0: lambda: v.constant(1.0),
        0.5: lambda: x.intrinsic("sqrt"),
        1.0: lambda: x,
        2.0: lambda: x * x,
        3.0: lambda: x * x * x,
    }

    def general() -> Term:  # powers of 0, which many elements are, would be libm's
        zero = x.equals(0.0)
        found = power(zero.choose(1.0, x), v.constant(exponent))
        return zero.choose(0.0 if exponent > 0 else math.inf, found)

    return simple.get(exponent, general)()


def _launch(op: OpView, X: TensorSpec, *, by_channel: bool) -> Launch:
    window, outs = pool_window(op, X.shape)
    N, C, *image = images_of(op, X)
    sides = sides_of(window, image, outs)
    *_, out = zip(*sides, strict=True)
    (_, kernel, step, left, _), (taps, views) = sides[-1], views_of(sides)
    rows = (N if by_channel else N * C) * out[0] * out[1]
    unit = C if by_channel else 1
    words = BLOCK.words(
        **{"threads": threads_of(rows * out[2] * unit, 4 * taps, 4 * (1 + taps), rows), "rows": rows, "unit": unit},
        **{"kernel": kernel, "step": step, "left": left},
        **views,
    )
    p = np.float32(op.p)
    columns = "single column" if out[2] == 1 else "dense columns" if step == 1 else "columns"
    kind = "channels" if by_channel else columns
    address = SOURCES.compiled(f"norm {float(p)!r} pool by {kind}", functools.partial(_write, p=p, kind=kind))
    return BlockLaunch(address, words)


class Over(Protocol):
    """Gives the norm of what `line(where a row of X begins, sum so far)` adds up; with `lanes` that of all lanes."""

    def __call__(self, line: Callable[[Term, Term], Term], *, lanes: bool = False) -> Term:
        """Write the loops over the rows that a window sees."""
        ...


# -- writing -----------------------------------------------------------------------------------------------------------


def _write(lines: Lines, *, p: np.float32, kind: str) -> None:
    """Loop over the rows of Y that are this thread's."""
    w = Writer(lines, BLOCK)
    v, row_of = w.v, w.w.width * w.w.unit

    def row(seen: Seen) -> None:
        def over(line: Callable[[Term, Term], Term], *, lanes: bool = False) -> Term:
            """Return the norm of what `line(where a row of X begins, sum so far)` adds up; with `lanes` of them all."""

            def plane(d: Term, total: Term) -> Term:
                top = d * w.w.height
                return fold_loop(*seen.heights, total, lambda h, total: line((top + h) * row_of, total))

            total = fold_loop(*seen.depths, v.constant(0.0), plane)
            return _power(v, v.full(total.sum()) if lanes else total, float(np.float32(1) / p))

        KINDS[kind](w, seen.x, seen.y, over, lambda value: _power(v, abs(value), float(p)))

    each_row_of_y(w, "float", row)


def _channels(w: Writer, x: Term, y: Term, over: Over, powered: Callable[[Term], Term]) -> None:
    """Take the places of a row one by one, each with all its channels."""
    v, channels = w.v, w.w.unit

    def place(q: Term) -> None:
        widths = pair_at(w.w.widths, q)
        target = y.at(q * channels)

        def some(i: Term, mask: Term | None) -> None:
            def line(start: Term, total: Term) -> Term:
                def one(column: Term, total: Term) -> Term:
                    return total + powered(v.load(x, start + column * channels + i, mask))

                return fold_loop(*widths, total, one)

            v.store(over(line), target, i, mask)

        each_vector(v, 0, channels, some)

    count_loop(w.lines, 0, w.w.out_width, place)


def _single(w: Writer, x: Term, y: Term, over: Over, powered: Callable[[Term], Term]) -> None:
    """Where a row of Y has one place, add up vectors of what its window sees."""
    v = w.v
    widths = pair_at(w.w.widths, 0)

    def line(start: Term, total: Term) -> Term:
        def some(i: Term, mask: Term | None, carried: Sequence[Term]) -> Sequence[Term]:
            found = carried[0] + powered(v.load(x, start + i, mask))
            return (found.masked(mask, carried[0]),)

        return sweep(v, *widths, some, (total,))[0]

    y.store(over(line, lanes=True).lane(0))


def _columns(w: Writer, x: Term, y: Term, over: Over, powered: Callable[[Term], Term], *, dense: bool) -> None:
    """Take a row in vectors; of each row of X that windows see, element by element of the windows."""
    v, step = w.v, w.w.step
    whole = Vector(w.lines, v.count, DataType.INT32)
    limit = whole.full(w.w.width)

    def some(q: Term, mask: Term | None) -> None:
        begin = q * step - w.w.left

        def line(start: Term, total: Term) -> Term:
            def one(j: Term, total: Term) -> Term:
                column = begin + j
                inside = whole.counted(column, step).below(limit).within(mask)
                at = x.at(start + column)
                value = v.load(at, 0, inside) if dense else gather(v, at, step, inside)
                return inside.choose(total + powered(value), total)

            return fold_loop(0, w.w.kernel, total, one)

        v.store(over(line), y, q, mask)

    each_vector(v, 0, w.w.out_width, some)


KINDS: Mapping[str, Callable[[Writer, Term, Term, Over, Callable[[Term], Term]], None]] = {
    "channels": _channels,
    "single column": _single,
    "dense columns": functools.partial(_columns, dense=True),
    "columns": functools.partial(_columns, dense=False),
}
"""How vectors run over a row of Y."""
