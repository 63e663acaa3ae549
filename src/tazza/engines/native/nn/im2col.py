"""Im2Col of row-major float32 images, a row of a column image at a time; channels are shared by the threads.

Letters as in `ops.im2col`; windows lie sH and sW pixels apart, and their pixels aH and aW.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import BlockLaunch, all_float32
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import Body, count_loop, lanes_of, share, sweep
from tazza.codegen.rows import element, when
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.nn.im2col import IM2COL, im2col_window
from tazza.tensor import DataType, TensorSpec

BLOCK = Fields("threads planes H W oH oW kH kW sH sW aH aW pad", addresses="X Y")


@native(IM2COL, batch_invariant=True)
def prepare_im2col(op: OpView, X: TensorSpec, Y: TensorSpec) -> Launch | Unsupported:
    """Compile Im2Col."""
    if not all_float32(X) or op.order.upper() != "NCHW":
        return Unsupported(f"it takes images of float32, NCHW, not {X} in {op.order}")
    window, out = im2col_window(op, X.shape)
    N, C, H, W = X.shape
    oH, oW = cast("tuple[int, int]", out)
    (kH, kW), (sH, sW), (aH, aW) = window.kernel, window.stride, window.dilation
    words = BLOCK.words(
        **{"threads": threads_of(Y.size, 1, 8, N * C), "planes": N * C, "H": H, "W": W, "oH": oH, "oW": oW},
        **{"kH": kH, "kW": kW, "sH": sH, "sW": sW, "aH": aH, "aW": aW, "pad": op.pad},
    )
    dense = sW == 1
    address = SOURCES.compiled(f"im2col, {'dense' if dense else 'by steps'}", lambda lines: _write(lines, dense=dense))
    return BlockLaunch(address, words)


def _write(lines: Lines, *, dense: bool) -> None:
    v, w = lanes_of(lines), BLOCK.load(lines)
    size = lines.let(f"mul i64 {w.H}, {w.W}")
    taps = lines.let(f"mul i64 {w.kH}, {w.kW}")
    whole = Vector(lines, v.count, DataType.INT32)
    step_bytes = lines.let(f"mul i64 {w.sW}, 4")

    def swept(body: Body) -> None:
        sweep(v, "0", w.oW, body)

    def place(at: str, step: str, tap: str, apart: str) -> str:
        """Return where the image is seen by a tap of a window, in rows or columns."""
        begin = lines.let(f"sub i64 {lines.let(f'mul i64 {at}, {w[step]}')}, {w.pad}")
        return lines.let(f"add i64 {begin}, {lines.let(f'mul i64 {tap}, {w[apart]}')}")

    def plane(n: str) -> None:
        x = element(lines, w.X, lines.let(f"mul i64 {n}, {size}"))

        def tap(t: str) -> None:
            down = lines.let(f"udiv i64 {t}, {w.kW}")
            across = lines.let(f"sub i64 {t}, {lines.let(f'mul i64 {down}, {w.kW}')}")
            number = lines.let(f"add i64 {lines.let(f'mul i64 {n}, {taps}')}, {t}")
            rows = lines.let(f"mul i64 {number}, {w.oH}")

            def row(p: str) -> None:
                at = lines.let(f"mul i64 {lines.let(f'add i64 {rows}, {p}')}, {w.oW}")
                target = element(lines, w.Y, at)
                line = place(p, "sH", down, "aH")
                source = element(lines, x, lines.let(f"mul i64 {line}, {w.W}"))

                def seen(q: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
                    first = place(q, "sW", across, "aW")
                    column = whole.counted(first, "1" if dense else w.sW)
                    fits = v.both(lines.let(f"icmp ult {whole.type} {column}, {whole.full(w.W)}"), mask)
                    if dense:
                        value = v.load(source, first, fits)
                    else:
                        value = v.gather(element(lines, source, first), "0", step_bytes, fits)
                    v.store(value, target, q, mask)
                    return carried

                def nothing(q: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
                    v.store(v.constant(0.0), target, q, mask)
                    return carried

                inside = lines.let(f"icmp ult i64 {line}, {w.H}")
                when(lines, inside, lambda: swept(seen), lambda: swept(nothing))

            count_loop(lines, "0", w.oH, row)

        count_loop(lines, "0", taps, tap)

    count_loop(lines, *share(lines, w.planes), plane)
