"""MaxPoolWithIndex and its gradient, of float32 images: channels are shared by the threads.

Letters: N images, C channels, H and W of the image, oH and oW of Y, kH and kW of the window, which goes down by sH and
to the right by sW and begins `top` above and `left` beside the image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

from tazza.codegen.block import BlockLaunch
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, each_vector, lanes_of, share, when
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.nn.max_pool_with_index import MAX_POOL_WITH_INDEX, MAX_POOL_WITH_INDEX_GRADIENT
from tazza.ops.nn.pool import clipped_pool_window, pool_window
from tazza.ops.nn.window import LOWEST
from tazza.tensor import DataType, TensorSpec

WINDOWS = Fields("threads planes H W oH oW kH kW sH sW top left")
BLOCK = Fields(addresses="X Y Index:i32", after=WINDOWS)
GRADIENT_BLOCK = Fields(addresses="dY Index:i32 dX", after=WINDOWS)
MOST_TAPS = 4096
MOST_STEP = 4
BYTES, FLOPS = 24, 8
"""What an element of Y moves, and takes for each element of its window."""


def _windows(op: OpView, X: TensorSpec) -> dict[str, int]:
    """Return the numbers of the block."""
    oH, oW = cast("tuple[int, int]", pool_window(op, X.shape)[1])
    window = clipped_pool_window(op, X.shape)
    N, C, H, W = X.shape
    if window.size > max(MOST_TAPS, H * W):
        raise Unsupported(f"a kernel {window.kernel} over {H} x {W}: it looks at each of its places")
    threads = threads_of(N * C * oH * oW, FLOPS * window.size, BYTES, N * C)
    (kH, kW), (sH, sW), (top, left) = window.kernel, window.stride, window.head
    return {
        **{"threads": threads, "planes": N * C, "H": H, "W": W, "oH": oH, "oW": oW},
        **{"kH": kH, "kW": kW, "sH": sH, "sW": sW, "top": top, "left": left},
    }


@native(MAX_POOL_WITH_INDEX, float32=True)
def prepare_max_pool_with_index(op: OpView, X: TensorSpec) -> Launch:
    """Compile MaxPoolWithIndex."""
    windows = _windows(op, X)
    return BlockLaunch(SOURCES.compiled("max pool with index", _largest), BLOCK.words(**windows))


@native(MAX_POOL_WITH_INDEX_GRADIENT, float32=True)
def prepare_max_pool_with_index_gradient(op: OpView, dX: TensorSpec) -> Launch:
    """Compile its gradient."""
    windows = _windows(op, dX)
    step = windows["sW"]
    kind, write = "max pool with index gradient", _back
    if _lie_apart(windows):
        kind, write = f"{kind}, windows {step} columns apart", partial(_pick, step=step)
    return BlockLaunch(SOURCES.compiled(kind, write), GRADIENT_BLOCK.words(**windows))


def _lie_apart(windows: Mapping[str, int]) -> bool:
    """Return whether each place lies in one window at the most, and steps are few: each has shuffles of its own."""
    return windows["sH"] >= windows["kH"] and MOST_STEP >= windows["sW"] >= windows["kW"]


def _each_channel(lines: Lines, channel: Callable[[Term], None]) -> None:
    """Run `channel(number)` for each channel of this thread."""
    count_loop(lines, *share(lines, WINDOWS.lazily(lines).planes), channel)


def _each_row(
    lines: Lines, row: Callable[[Term, Term, Term], None], before: Callable[[Term], None] | None = None
) -> None:
    """Run `row(channel, p, first row of the window)` for the rows of Y of each channel of this thread."""
    at = WINDOWS.lazily(lines)

    def channel(n: Term) -> None:
        if before is not None:
            before(n)

        def one(p: Term) -> None:
            row(n, p, p * at.sH - at.top)

        count_loop(lines, 0, at.oH, one)

    _each_channel(lines, channel)


def _largest(lines: Lines) -> None:
    """Take rows of Y in vectors; of each window, element by element, what is above all before."""
    v, whole = lanes_of(lines), Vector(lines, lanes_of(lines).count, DataType.INT32)
    w = BLOCK.loaded(lines)
    step_bytes = w.sW * 4
    found = best_found, index_found = [lines.room(kind) for kind in (v.type, whole.type)]

    def row(n: Term, p: Term, top: Term) -> None:
        start = n * (w.H * w.W)
        target = n * (w.oH * w.oW) + p * w.oW
        x = w.X.at(start)

        def some(q: Term, mask: Term | None) -> None:
            best_found.store(float(LOWEST))
            index_found.store(-1)
            begin = q * w.sW - w.left

            def above(y: Term, place: Term) -> None:
                """Take what lies `place` behind the left edge of the row y, if it is in the image."""
                column = whole.counted(place, w.sW)
                fits = column.below(whole.full(w.W)).within(mask)
                line = y * w.W
                seen = v.gather(x.at(line + place), 0, step_bytes, fits)
                best, index = (one.load() for one in found)
                more = fits & (seen > best)
                number = column + whole.full(line)
                best_found.store(more.choose(seen, best))
                index_found.store(more.choose(number, index))

            def line(i: Term) -> None:
                y = top + i
                when(y.below(w.H), lambda: count_loop(lines, 0, w.kW, lambda j: above(y, begin + j)))

            count_loop(lines, 0, w.kH, line)
            best, index = (one.load() for one in found)
            v.store(best, w.Y.at(target), q, mask)
            whole.store(index, w.Index.at(target), q, mask)

        each_vector(v, 0, w.oW, some)

    _each_row(lines, row)


def _clear(v: Vector, start: Term, count: Term) -> None:
    """Write so many zeros."""
    each_vector(v, 0, count, lambda i, mask: v.store(v.constant(0.0), start, i, mask))


def _dividing(width: Term) -> tuple[Term, Callable[[Term], Term]]:
    """Return a width as i32, 1 at the least, and what divides an i32 by it: by a product, as divisions take longer.

    The upper half of n * ceil(2^64 / width) is n / width for all n below 2^32. Source: Lemire, Kaser, Kurz 2019, Faster
    Remainder by Direct Computation, section 3.2.
    """
    wide = width.at_least(1)
    alone = wide.equals(1)
    factor = (width.lines.number(-1) // wide + 1).to_unsigned("i128")

    def divided(n: Term) -> Term:
        return alone.choose(n, (n.to_unsigned("i128") * factor).shifted_down(64).to("i32"))

    return wide.to("i32"), divided


def _back(lines: Lines) -> None:
    """Fill a channel of dX with zeros, then add each element of dY where its index lies in its window."""
    v, w = lanes_of(lines), GRADIENT_BLOCK.loaded(lines)
    short_width, row_of = _dividing(w.W)
    nowhere = lines.room("float")

    def clear(n: Term) -> None:
        size = w.H * w.W
        _clear(v, w.dX.at(n * size), size)

    def row(n: Term, p: Term, top: Term) -> None:
        size = w.H * w.W
        start = n * size
        source = n * (w.oH * w.oW) + p * w.oW
        dx, dy, index = w.dX.at(start), w.dY.at(source), w.Index.at(source)

        def one(q: Term) -> None:
            place = index[q]
            y = row_of(place)
            x = place - y * short_width
            begin = q * w.sW - w.left
            inside = place.to_unsigned("i64").below(size)
            for found, first, extent in ((y, top, w.kH), (x, begin, w.kW)):
                inside &= (found.to_unsigned("i64") - first).below(extent)
            target = inside.choose(dx.at(place.to_unsigned("i64")), nowhere)
            target[0] += dy[q]

        count_loop(lines, 0, w.oW, one)

    _each_row(lines, row, clear)


def _pick(lines: Lines, step: int) -> None:
    """Write dX once, by vectors of a row: each place asks the one window that has it whether it was the largest there.

    Windows are `step` columns apart: x lies in the window q = floor((x + left) / step), x + left - q step behind its
    edge, which is below kW or in no window. A vector of windows becomes `step` vectors of places, by constant shuffles.
    """
    v, whole = lanes_of(lines), Vector(lines, lanes_of(lines).count, DataType.INT32)
    w = GRADIENT_BLOCK.loaded(lines)
    windows = (w.W + w.left).pieces(step)

    def channel(n: Term) -> None:
        start, out_start = n * (w.H * w.W), n * (w.oH * w.oW)
        count_loop(lines, 0, w.H, lambda y: row(y, start, out_start))

    def row(y: Term, start: Term, out_start: Term) -> None:
        """Write row y of dX, from row p of dY or, between windows, with zeros."""
        below = y + w.top
        p = below // w.sH
        covered = (below - p * w.sH).below(w.kH) & p.below(w.oH)
        first = y * w.W
        source = out_start + p * w.oW
        dx = w.dX.at(start + first)
        dy, index = w.dY.at(source), w.Index.at(source)

        def some(q: Term, _: Term | None) -> None:  # no mask of windows: what is written has one of its own
            there = whole.counted(q, 1).below(whole.full(w.oW))
            given, chosen = v.load(dy, q, there), whole.load(index, q, there)
            begin = q * step - w.left
            for part in range(step):
                places = [part * whole.count + lane for lane in range(whole.count)]
                spread = [place // step for place in places]
                behind = whole.listed(place % step for place in places)
                x = begin + places[0]
                asked = whole.counted(first + x, 1)
                here = chosen.shuffle(spread).equals(asked) & behind.below(whole.full(w.kW))
                value = here.choose(given.shuffle(spread), 0.0)
                inside = whole.counted(x, 1).below(whole.full(w.W))
                v.store(value + 0.0, dx, x, inside)

        when(covered, lambda: each_vector(v, 0, windows, some), lambda: _clear(v, dx, w.W))

    _each_channel(lines, channel)
