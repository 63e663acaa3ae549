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
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.image import lies_as
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, each_vector, fold_loop, sweep
from tazza.codegen.power import power
from tazza.codegen.rows import element, first_lane
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
def prepare_lp_pool(op: OpView, X: TensorSpec, Y: TensorSpec) -> LaidOut | Unsupported:
    """Compile for channels that lie innermost, or for row-major NCHW; other layouts of X become channels-last."""
    refused = _refused(op, X)
    if refused is not None:
        return refused
    by_channel, dense = lying(op, X)
    layouts = {"Y": dense(Y.shape)} | ({} if lies_as(X, dense(X.shape)) else {"X": dense(X.shape)})
    return LaidOut(_launch(op, X, by_channel=by_channel), layouts)


@native(LP_POOL_GRADIENT, accepts=accepts_dense, batch_invariant=True)
def prepare_lp_pool_gradient(op: OpView, X: TensorSpec, Y: TensorSpec, dY: TensorSpec) -> LaidOut | Unsupported:
    """Compile what each element gets of the windows that cover it."""
    refused = _refused(op, X)
    if refused is not None:
        return refused
    found = gradient_layouts(op, X, Y, dY)
    if isinstance(found, Unsupported):
        return found
    layouts, by_channel = found
    return LaidOut(gradient_launch(op, X, _part(np.float32(op.p)), by_channel=by_channel), layouts)


def _refused(op: OpView, X: TensorSpec) -> Unsupported | None:
    window, _ = pool_window(op, X.shape)
    if not all_float32(X):
        return Unsupported(f"it computes in float32, not {X}")
    if not 1 <= window.rank <= MOST_SPATIAL:
        return Unsupported(f"X has {window.rank} spatial dimensions, 1 to {MOST_SPATIAL} are compiled")
    width = images_of(op, X)[-1]
    if window.kernel[-1] > WIDER * max(width, 1):
        return Unsupported(f"windows of {window.kernel[-1]} columns are counted out, the image has {width}")
    p = np.float32(op.p)
    return None if np.isfinite(p) and p != 0 else Unsupported(f"p is {p}: no norm that is a root")


def _part(p: np.float32) -> Part:
    """Return x |x|^(p - 2) of an element, times dY / Y^(p - 1) of a window."""

    def told(v: Vector, x: str) -> str:
        return v.mul(x, _power(v, v.intrinsic("fabs", x), float(p - np.float32(2))))

    def add(v: Vector, total: str, slope: str, y: str, dy: str) -> str:
        share = v.div(dy, _power(v, y, float(p - np.float32(1))))
        return v.add(total, v.mul(slope, share))

    return Part(f"norm {float(p)!r}", told, add, POWER_FLOPS)


def _power(v: Vector, x: str, exponent: float) -> str:
    """Return what is not negative, or NaN, raised to a power."""
    simple: dict[float, Callable[[], str]] = {
        0.0: lambda: v.constant(1.0),
        0.5: lambda: v.intrinsic("sqrt", x),
        1.0: lambda: x,
        2.0: lambda: v.mul(x, x),
        3.0: lambda: v.mul(v.mul(x, x), x),
    }

    def general() -> str:  # powers of 0, which many elements are, would be libm's
        zero = v.compare("oeq", x, v.constant(0.0))
        found = power(v, v.select(zero, v.constant(1.0), x), v.constant(exponent))
        return v.select(zero, v.constant(0.0 if exponent > 0 else math.inf), found)

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

    def __call__(self, line: Callable[[str, str], str], *, lanes: bool = False) -> str:
        """Write the loops over the rows that a window sees."""
        ...


# -- writing -----------------------------------------------------------------------------------------------------------


def _write(lines: Lines, *, p: np.float32, kind: str) -> None:
    """Loop over the rows of Y that are this thread's."""
    w = Writer(lines, BLOCK)
    v, row_of = w.v, w.mul(w.w.width, w.w.unit)

    def row(seen: Seen) -> None:
        def over(line: Callable[[str, str], str], *, lanes: bool = False) -> str:
            """Return the norm of what `line(where a row of X begins, sum so far)` adds up; with `lanes` of them all."""

            def plane(d: str, total: str) -> str:
                top = w.mul(d, w.w.height)
                return fold_loop(v, *seen.heights, total, lambda h, total: line(w.mul(w.add(top, h), row_of), total))

            total = fold_loop(v, *seen.depths, v.constant(0.0), plane)
            return _power(v, v.splat(v.sum(total)) if lanes else total, float(np.float32(1) / p))

        def powered(value: str) -> str:
            return _power(v, v.intrinsic("fabs", value), float(p))

        KINDS[kind](w, seen.x, seen.y, over, powered)

    each_row_of_y(w, "float", row)


def _channels(w: Writer, x: str, y: str, over: Over, powered: Callable[[str], str]) -> None:
    """Take the places of a row one by one, each with all its channels."""
    lines, v, channels = w.lines, w.v, w.w.unit

    def place(q: str) -> None:
        widths = pair_at(lines, w.w.widths, q)
        target = element(lines, y, w.mul(q, channels))

        def some(i: str, mask: str | None) -> None:
            def line(start: str, total: str) -> str:
                def one(column: str, total: str) -> str:
                    at = w.add(w.add(start, w.mul(column, channels)), i)
                    return v.add(total, powered(v.load(x, at, mask)))

                return fold_loop(v, *widths, total, one)

            v.store(over(line), target, i, mask)

        each_vector(v, "0", channels, some)

    count_loop(lines, "0", w.w.out_width, place)


def _single(w: Writer, x: str, y: str, over: Over, powered: Callable[[str], str]) -> None:
    """Where a row of Y has one place, add up vectors of what its window sees."""
    v = w.v
    widths = pair_at(w.lines, w.w.widths, "0")

    def line(start: str, total: str) -> str:
        def some(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
            found = v.add(carried[0], powered(v.load(x, w.add(start, i), mask)))
            return (found if mask is None else v.select(mask, found, carried[0]),)

        return sweep(v, *widths, some, (total,))[0]

    w.lines.do(f"store float {first_lane(v, over(line, lanes=True))}, ptr {y}")


def _columns(w: Writer, x: str, y: str, over: Over, powered: Callable[[str], str], *, dense: bool) -> None:
    """Take a row in vectors; of each row of X that windows see, element by element of the windows."""
    lines, v, step, width = w.lines, w.v, w.w.step, w.w.width
    whole = Vector(lines, v.count, DataType.INT32)
    limit = whole.full(width)

    def some(q: str, mask: str | None) -> None:
        begin = w.sub(w.mul(q, step), w.w.left)

        def line(start: str, total: str) -> str:
            def one(j: str, total: str) -> str:
                column = w.add(begin, j)
                inside = v.both(lines.let(f"icmp ult {whole.type} {whole.counted(column, step)}, {limit}"), mask)
                at = element(lines, x, w.add(start, column))
                value = v.load(at, "0", inside) if dense else gather(v, at, step, inside)
                return v.select(inside, v.add(total, powered(value)), total)

            return fold_loop(v, "0", w.w.kernel, total, one)

        v.store(over(line), y, q, mask)

    each_vector(v, "0", w.w.out_width, some)


KINDS: Mapping[str, Callable[[Writer, str, str, Over, Callable[[str], str]], None]] = {
    "channels": _channels,
    "single column": _single,
    "dense columns": functools.partial(_columns, dense=True),
    "columns": functools.partial(_columns, dense=False),
}
"""How vectors run over a row of Y."""
