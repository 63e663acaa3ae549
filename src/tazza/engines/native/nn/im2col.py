"""Im2Col of row-major float32 images, a row of a column image at a time; channels are shared by the threads.

Letters as in `ops.im2col`; windows lie sH and sW pixels apart, and their pixels aH and aW.
"""

from __future__ import annotations

from functools import partial
from typing import cast

from tazza.codegen.block import BlockLaunch, all_float32
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, each_vector, lanes_of, share, when
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.nn.im2col import IM2COL, im2col_window
from tazza.tensor import DataType, TensorSpec

BLOCK = Fields("threads planes H W oH oW kH kW sH sW aH aW pad", addresses="X Y")


@native(IM2COL, batch_invariant=True)
def prepare_im2col(op: OpView, X: TensorSpec, Y: TensorSpec) -> Launch:
    """Compile Im2Col."""
    if not all_float32(X) or op.order.upper() != "NCHW":
        raise Unsupported(f"it takes images of float32, NCHW, not {X} in {op.order}")
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
    v, w = lanes_of(lines), BLOCK.loaded(lines)
    size = w.H * w.W
    taps = w.kH * w.kW
    whole = Vector(lines, v.count, DataType.INT32)
    step_bytes = w.sW * 4

    def place(at: Term, tap: Term, along: str) -> Term:
        """Return where the image is seen by a tap of a window, in rows or columns."""
        return at * w[f"s{along}"] - w.pad + tap * w[f"a{along}"]

    def plane(n: Term) -> None:
        x = w.X.at(n * size)

        def tap(t: Term) -> None:
            down = t // w.kW
            across = t - down * w.kW
            rows = (n * taps + t) * w.oH

            def row(p: Term) -> None:
                target = w.Y.at((rows + p) * w.oW)
                line = place(p, down, "H")
                source = x.at(line * w.W)

                def seen(q: Term, mask: Term | None) -> None:
                    first = place(q, across, "W")
                    fits = whole.counted(first, 1 if dense else w.sW).below(whole.full(w.W)).within(mask)
                    value = v.load(source, first, fits) if dense else v.gather(source.at(first), 0, step_bytes, fits)
                    v.store(value, target, q, mask)

                def nothing(q: Term, mask: Term | None) -> None:
                    v.store(v.constant(0.0), target, q, mask)

                when(line.below(w.H), *(partial(each_vector, v, 0, w.oW, body) for body in (seen, nothing)))

            count_loop(lines, 0, w.oH, row)

        count_loop(lines, 0, taps, tap)

    count_loop(lines, *share(lines, w.planes), plane)
