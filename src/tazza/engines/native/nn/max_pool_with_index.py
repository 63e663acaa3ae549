"""MaxPoolWithIndex and its gradient, of float32 images: channels are shared by the threads.

Letters: N images, C channels, H and W of the image, oH and oW of Y, kH and kW of the window, which goes down by sH and
to the right by sW and begins `top` above and `left` beside the image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from tazza.codegen.block import BlockLaunch
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, each_vector, lanes_of, share
from tazza.codegen.rows import element, when
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.nn.max_pool_with_index import MAX_POOL_WITH_INDEX, MAX_POOL_WITH_INDEX_GRADIENT
from tazza.ops.nn.pool import clipped_pool_window, pool_window
from tazza.ops.nn.window import LOWEST
from tazza.tensor import DataType, TensorSpec

WINDOWS = Fields("threads planes H W oH oW kH kW sH sW top left")
BLOCK = Fields(addresses="X Y Index", after=WINDOWS)
GRADIENT_BLOCK = Fields(addresses="dY Index dX", after=WINDOWS)
MOST_TAPS = 4096
MOST_STEP = 4
BYTES, FLOPS = 24, 8
"""What an element of Y moves, and takes for each element of its window."""


def _windows(op: OpView, X: TensorSpec) -> dict[str, int] | Unsupported:
    """Return the numbers of the block."""
    oH, oW = cast("tuple[int, int]", pool_window(op, X.shape)[1])
    window = clipped_pool_window(op, X.shape)
    N, C, H, W = X.shape
    if window.size > max(MOST_TAPS, H * W):
        return Unsupported(f"a kernel {window.kernel} over {H} x {W}: it looks at each of its places")
    threads = threads_of(N * C * oH * oW, FLOPS * window.size, BYTES, N * C)
    (kH, kW), (sH, sW), (top, left) = window.kernel, window.stride, window.head
    return {
        **{"threads": threads, "planes": N * C, "H": H, "W": W, "oH": oH, "oW": oW},
        **{"kH": kH, "kW": kW, "sH": sH, "sW": sW, "top": top, "left": left},
    }


@native(MAX_POOL_WITH_INDEX, float32=True)
def prepare_max_pool_with_index(op: OpView, X: TensorSpec) -> Launch | Unsupported:
    """Compile MaxPoolWithIndex."""
    windows = _windows(op, X)
    if isinstance(windows, Unsupported):
        return windows
    return BlockLaunch(SOURCES.compiled("max pool with index", _largest), BLOCK.words(**windows))


@native(MAX_POOL_WITH_INDEX_GRADIENT, float32=True)
def prepare_max_pool_with_index_gradient(op: OpView, dX: TensorSpec) -> Launch | Unsupported:
    """Compile its gradient."""
    windows = _windows(op, dX)
    if isinstance(windows, Unsupported):
        return windows
    step = windows["sW"]
    if _lie_apart(windows):
        text = f"max pool with index gradient, windows {step} columns apart"
        address = SOURCES.compiled(text, lambda lines: _pick(lines, step))
    else:
        address = SOURCES.compiled("max pool with index gradient", _back)
    return BlockLaunch(address, GRADIENT_BLOCK.words(**windows))


def _lie_apart(windows: Mapping[str, int]) -> bool:
    """Return whether each place lies in one window at the most, and steps are few: each has shuffles of its own."""
    return windows["sH"] >= windows["kH"] and MOST_STEP >= windows["sW"] >= windows["kW"]


def _each_channel(lines: Lines, channel: Callable[[str], None]) -> None:
    """Run `channel(number)` for each channel of this thread."""
    count_loop(lines, *share(lines, WINDOWS.read(lines).planes), channel)


def _each_row(lines: Lines, row: Callable[[str, str, str], None], before: Callable[[str], None] | None = None) -> None:
    """Run `row(channel, p, first row of the window)` for the rows of Y of each channel of this thread."""
    at = WINDOWS.read(lines)

    def channel(n: str) -> None:
        if before is not None:
            before(n)

        def one(p: str) -> None:
            row(n, p, lines.let(f"sub i64 {lines.let(f'mul i64 {p}, {at.sH}')}, {at.top}"))

        count_loop(lines, "0", at.oH, one)

    _each_channel(lines, channel)


def _plane(lines: Lines, n: str, height: str, width: str) -> tuple[str, str]:
    """Return how many elements a channel has, and where channel n begins."""
    size = lines.let(f"mul i64 {height}, {width}")
    return size, lines.let(f"mul i64 {n}, {size}")


def _largest(lines: Lines) -> None:
    """Take rows of Y in vectors; of each window, element by element, what is above all before."""
    v, whole = lanes_of(lines), Vector(lines, lanes_of(lines).count, DataType.INT32)
    w = BLOCK.load(lines)
    step_bytes = lines.let(f"mul i64 {w.sW}, 4")
    found = [lines.let(f"alloca {kind}") for kind in (v.type, whole.type)]

    def row(n: str, p: str, top: str) -> None:
        _, start = _plane(lines, n, w.H, w.W)
        _, out_start = _plane(lines, n, w.oH, w.oW)
        target = lines.let(f"add i64 {out_start}, {lines.let(f'mul i64 {p}, {w.oW}')}")
        x = element(lines, w.X, start)

        def some(q: str, mask: str | None) -> None:
            lines.do(f"store {v.type} {v.constant(float(LOWEST))}, ptr {found[0]}")
            lines.do(f"store {whole.type} {whole.constant(-1)}, ptr {found[1]}")
            begin = lines.let(f"sub i64 {lines.let(f'mul i64 {q}, {w.sW}')}, {w.left}")

            def above(y: str, place: str) -> None:
                """Take what lies `place` behind the left edge of the row y, if it is in the image."""
                column = whole.counted(place, w.sW)
                fits = v.both(lines.let(f"icmp ult {whole.type} {column}, {whole.full(w.W)}"), mask)
                line = lines.let(f"mul i64 {y}, {w.W}")
                source = element(lines, x, lines.let(f"add i64 {line}, {place}"))
                seen = v.gather(source, "0", step_bytes, fits)
                best, index = (
                    lines.let(f"load {kind}, ptr {one}") for kind, one in zip((v.type, whole.type), found, strict=True)
                )
                more = v.both(fits, v.compare("ogt", seen, best))
                number = lines.let(f"add {whole.type} {column}, {whole.full(line)}")
                lines.do(f"store {v.type} {v.select(more, seen, best)}, ptr {found[0]}")
                lines.do(f"store {whole.type} {whole.select(more, number, index)}, ptr {found[1]}")

            def line(i: str) -> None:
                y = lines.let(f"add i64 {top}, {i}")
                there = lines.let(f"icmp ult i64 {y}, {w.H}")

                def across() -> None:
                    count_loop(lines, "0", w.kW, lambda j: above(y, lines.let(f"add i64 {begin}, {j}")))

                when(lines, there, across)

            count_loop(lines, "0", w.kH, line)
            best, index = (
                lines.let(f"load {kind}, ptr {one}") for kind, one in zip((v.type, whole.type), found, strict=True)
            )
            v.store(best, element(lines, w.Y, target), q, mask)
            whole.store(index, element(lines, w.Index, target, "i32"), q, mask)

        each_vector(v, "0", w.oW, some)

    _each_row(lines, row)


def _dividing(lines: Lines, width: str) -> tuple[str, Callable[[str], str]]:
    """Return a width as i32, 1 at the least, and what divides an i32 by it: by a product, as divisions take longer.

    The upper half of n * ceil(2^64 / width) is n / width for all n below 2^32. Source: Lemire, Kaser, Kurz 2019, Faster
    Remainder by Direct Computation, section 3.2.
    """
    wide = lines.most(width, "1")
    alone = lines.let(f"icmp eq i64 {wide}, 1")
    share = lines.let(f"udiv i64 -1, {wide}")
    factor = lines.let(f"zext i64 {lines.let(f'add i64 {share}, 1')} to i128")

    def divided(n: str) -> str:
        product = lines.let(f"mul i128 {lines.let(f'zext i32 {n} to i128')}, {factor}")
        found = lines.let(f"trunc i128 {lines.let(f'lshr i128 {product}, 64')} to i32")
        return lines.let(f"select i1 {alone}, i32 {n}, i32 {found}")

    return lines.let(f"trunc i64 {wide} to i32"), divided


def _back(lines: Lines) -> None:
    """Fill a channel of dX with zeros, then add each element of dY where its index lies in its window."""
    v = lanes_of(lines)
    w = GRADIENT_BLOCK.load(lines)
    short_width, row_of = _dividing(lines, w.W)
    nowhere = lines.let("alloca float")

    def clear(n: str) -> None:
        size, start = _plane(lines, n, w.H, w.W)
        dx = element(lines, w.dX, start)

        each_vector(v, "0", size, lambda i, mask: v.store(v.constant(0.0), dx, i, mask))

    def row(n: str, p: str, top: str) -> None:
        size, start = _plane(lines, n, w.H, w.W)
        _, out_start = _plane(lines, n, w.oH, w.oW)
        source = lines.let(f"add i64 {out_start}, {lines.let(f'mul i64 {p}, {w.oW}')}")
        dx, dy = element(lines, w.dX, start), element(lines, w.dY, source)
        index = element(lines, w.Index, source, "i32")

        def one(q: str) -> None:
            place = lines.let(f"load i32, ptr {element(lines, index, q, 'i32')}")
            y = row_of(place)
            x = lines.let(f"sub i32 {place}, {lines.let(f'mul i32 {y}, {short_width}')}")
            begin = lines.let(f"sub i64 {lines.let(f'mul i64 {q}, {w.sW}')}, {w.left}")
            inside = lines.let(f"icmp ult i64 {lines.let(f'zext i32 {place} to i64')}, {size}")
            for found, first, extent in ((y, top, w.kH), (x, begin, w.kW)):
                off = lines.let(f"sub i64 {lines.let(f'zext i32 {found} to i64')}, {first}")
                fits = lines.let(f"icmp ult i64 {off}, {extent}")
                inside = lines.let(f"and i1 {inside}, {fits}")
            there = element(lines, dx, lines.let(f"zext i32 {place} to i64"))
            target = lines.let(f"select i1 {inside}, ptr {there}, ptr {nowhere}")
            given = lines.let(f"load float, ptr {element(lines, dy, q)}")
            total = lines.let(f"fadd float {lines.let(f'load float, ptr {target}')}, {given}")
            lines.do(f"store float {total}, ptr {target}")

        count_loop(lines, "0", w.oW, one)

    _each_row(lines, row, clear)


def _pick(lines: Lines, step: int) -> None:
    """Write dX once, by vectors of a row: each place asks the one window that has it whether it was the largest there.

    Windows are `step` columns apart: x lies in the window q = floor((x + left) / step), x + left - q step behind its
    edge, which is below kW or in no window. A vector of windows becomes `step` vectors of places, by constant shuffles.
    """
    v, whole = lanes_of(lines), Vector(lines, lanes_of(lines).count, DataType.INT32)
    w = GRADIENT_BLOCK.load(lines)
    reached = lines.let(f"add i64 {lines.let(f'add i64 {w.W}, {w.left}')}, {step - 1}")
    windows = lines.let(f"udiv i64 {reached}, {step}")

    def channel(n: str) -> None:
        _, start = _plane(lines, n, w.H, w.W)
        _, out_start = _plane(lines, n, w.oH, w.oW)
        count_loop(lines, "0", w.H, lambda y: row(y, start, out_start))

    def row(y: str, start: str, out_start: str) -> None:
        """Write row y of dX, from row p of dY or, between windows, with zeros."""
        below = lines.let(f"add i64 {y}, {w.top}")
        p = lines.let(f"udiv i64 {below}, {w.sH}")
        off = lines.let(f"sub i64 {below}, {lines.let(f'mul i64 {p}, {w.sH}')}")
        covered = lines.let(f"icmp ult i64 {off}, {w.kH}")
        covered = lines.let(f"and i1 {covered}, {lines.let(f'icmp ult i64 {p}, {w.oH}')}")
        first = lines.let(f"mul i64 {y}, {w.W}")
        source = lines.let(f"add i64 {out_start}, {lines.let(f'mul i64 {p}, {w.oW}')}")
        dx = element(lines, w.dX, lines.let(f"add i64 {start}, {first}"))
        dy, index = element(lines, w.dY, source), element(lines, w.Index, source, "i32")

        def some(q: str, mask: str | None) -> None:
            del mask  # of the windows; what is written has one of its own
            there = lines.let(f"icmp ult {whole.type} {whole.counted(q, '1')}, {whole.full(w.oW)}")
            given, chosen = v.load(dy, q, there), whole.load(index, q, there)
            begin = lines.let(f"sub i64 {lines.let(f'mul i64 {q}, {step}')}, {w.left}")
            for part in range(step):
                places = [part * whole.count + lane for lane in range(whole.count)]
                spread = [place // step for place in places]
                behind = f"<{', '.join(f'i32 {place % step}' for place in places)}>"
                x = lines.let(f"add i64 {begin}, {places[0]}")
                asked = whole.counted(lines.let(f"add i64 {first}, {x}"), "1")
                here = lines.let(f"icmp eq {whole.type} {lines.shuffle(whole.type, spread, chosen)}, {asked}")
                near = lines.let(f"icmp ult {whole.type} {behind}, {whole.full(w.kW)}")
                here = v.both(here, near)
                value = v.select(here, lines.shuffle(v.type, spread, given), v.constant(0.0))
                inside = lines.let(f"icmp ult {whole.type} {whole.counted(x, '1')}, {whole.full(w.W)}")
                v.store(v.add(value, v.constant(0.0)), dx, x, inside)

        def zeros(x: str, mask: str | None) -> None:
            v.store(v.constant(0.0), dx, x, mask)

        when(lines, covered, lambda: each_vector(v, "0", windows, some), lambda: each_vector(v, "0", w.W, zeros))

    _each_channel(lines, channel)
