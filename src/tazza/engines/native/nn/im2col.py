"""Im2Col of row-major float32 images, a row of a column image at a time; channels are shared by the threads.

Letters as in `ops.im2col`. Words of the block: threads, N * C, H, W, oH, oW, kH, kW, steps down and to the right,
dilations down and to the right, the pad, and the addresses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import BlockLaunch, Slot, all_float32
from tazza.codegen.emit import Lines
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import Body, count_loop, lanes_of, share, sweep
from tazza.codegen.rows import element, when
from tazza.codegen.typed import Vector
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.nn.im2col import IM2COL, im2col_window
from tazza.tensor import DataType, TensorSpec

PLANES, H, W, OUT_H, OUT_W, KERNEL_H, KERNEL_W, STEP_H, STEP_W, APART_H, APART_W, PAD, ADDRESSES = range(1, 14)


@native(IM2COL, batch_invariant=True)
def prepare_im2col(op: OpView, X: TensorSpec, Y: TensorSpec) -> Launch | Unsupported:
    """Compile Im2Col."""
    if not all_float32(X) or op.order.upper() != "NCHW":
        return Unsupported(f"it takes images of float32, NCHW, not {X} in {op.order}")
    window, out = im2col_window(op, X.shape)
    N, C, height, width = X.shape
    threads = threads_of(Y.size, 1, 8, N * C)
    sizes = (height, width, *cast("tuple[int, int]", out), *window.kernel, *window.stride, *window.dilation)
    dense = window.stride[1] == 1
    address = SOURCES.compiled(f"im2col, {'dense' if dense else 'by steps'}", lambda lines: _write(lines, dense=dense))
    return BlockLaunch(address, (threads, N * C, *sizes, op.pad, Slot("X"), Slot("Y")))


def _write(lines: Lines, *, dense: bool) -> None:
    v = lanes_of(lines)
    words = {word: lines.load_word("%block", word) for word in range(PLANES, ADDRESSES)}
    X, Y = (lines.load_pointer("%block", ADDRESSES + i) for i in range(2))
    size = lines.let(f"mul i64 {words[H]}, {words[W]}")
    taps = lines.let(f"mul i64 {words[KERNEL_H]}, {words[KERNEL_W]}")
    whole = Vector(lines, v.count, DataType.INT32)
    step_bytes = lines.let(f"mul i64 {words[STEP_W]}, 4")

    def swept(body: Body) -> None:
        sweep(v, "0", words[OUT_W], body)

    def place(at: str, step: int, tap: str, apart: int) -> str:
        """Return where the image is seen by a tap of a window, in rows or columns."""
        begin = lines.let(f"sub i64 {lines.let(f'mul i64 {at}, {words[step]}')}, {words[PAD]}")
        return lines.let(f"add i64 {begin}, {lines.let(f'mul i64 {tap}, {words[apart]}')}")

    def plane(n: str) -> None:
        x = element(lines, X, lines.let(f"mul i64 {n}, {size}"))

        def tap(t: str) -> None:
            down = lines.let(f"udiv i64 {t}, {words[KERNEL_W]}")
            across = lines.let(f"sub i64 {t}, {lines.let(f'mul i64 {down}, {words[KERNEL_W]}')}")
            number = lines.let(f"add i64 {lines.let(f'mul i64 {n}, {taps}')}, {t}")
            rows = lines.let(f"mul i64 {number}, {words[OUT_H]}")

            def row(p: str) -> None:
                at = lines.let(f"mul i64 {lines.let(f'add i64 {rows}, {p}')}, {words[OUT_W]}")
                target = element(lines, Y, at)
                line = place(p, STEP_H, down, APART_H)
                source = element(lines, x, lines.let(f"mul i64 {line}, {words[W]}"))

                def seen(q: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
                    first = place(q, STEP_W, across, APART_W)
                    column = whole.counted(first, "1" if dense else words[STEP_W])
                    fits = lines.let(f"icmp ult {whole.type} {column}, {whole.full(words[W])}")
                    if mask is not None:
                        fits = lines.let(f"and {v.mask} {fits}, {mask}")
                    if dense:
                        value = v.load(source, first, fits)
                    else:
                        here = Vector(lines, v.count, DataType.FLOAT)
                        value = here.gather(element(lines, source, first), "0", step_bytes, fits)
                    v.store(value, target, q, mask)
                    return carried

                def nothing(q: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
                    v.store(v.constant(0.0), target, q, mask)
                    return carried

                inside = lines.let(f"icmp ult i64 {line}, {words[H]}")
                when(lines, inside, lambda: swept(seen), lambda: swept(nothing))

            count_loop(lines, "0", words[OUT_H], row)

        count_loop(lines, "0", taps, tap)

    count_loop(lines, *share(lines, words[PLANES]), plane)
