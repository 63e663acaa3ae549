"""Int8MaxPool, and that with a rectifier, of one scale: the largest bytes of windows, a vector of channels at a time.

Letters as in `ops.nn.pool`, channels last; images of fewer dimensions have 1 for the first ones.
"""

from __future__ import annotations

from typing import cast

from tazza.codegen.block import BlockLaunch
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, each_vector, fold_loop
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.codegen.writer import Writer
from tazza.engines.native import SOURCES, native
from tazza.engines.native.nn.pool import MOST_SPATIAL, VIEWS, Seen, each_row_of_y, pair_at, sides_of, views_of
from tazza.operator import Launch, OpView, Unsupported
from tazza.operator.kernel import Offered
from tazza.ops.nn.pool import pool_window
from tazza.ops.quantized.int8_pool import int8_max_pool, int8_pool_relus, int8_pools, rectifies
from tazza.runtime.machine import machine
from tazza.runtime.native_code import processor
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType, PerTensor, TensorSpec
from tazza.tensor.offer import Offer

BLOCK = Fields("least", after=VIEWS)
"""What bytes are at the least."""
LOOK_NS, FLOPS = 0.7, 2.0
"""For a vector of an element of a window, and the same for each byte of it, in the unit of `threads_for`."""


TAKEN = [
    family[type]
    for family in (int8_pools, int8_pool_relus)
    for type, row in family.rows.items()
    if row.compute is int8_max_pool
]


@native(*TAKEN, batch_invariant=True)
def prepare_int8_max_pool(op: OpView, X: TensorSpec, Y: TensorSpec) -> Offered:
    """Compile the largest byte of each window."""
    window, outs = pool_window(op, X.shape)
    if window.rank > MOST_SPATIAL:
        raise Unsupported(f"X has {window.rank} spatial dimensions, at most {MOST_SPATIAL} are compiled")
    if X.quantization != Y.quantization:
        raise Unsupported("another scale or zero point: numbers are rounded anew, which is not compiled")
    N, *image, C = X.shape
    sides = sides_of(window, image, outs)
    *_, out = zip(*sides, strict=True)
    taps, views = views_of(sides)
    least = min(max(cast("PerTensor", Y.quantization).zero_point, 0), 255) if rectifies(op) else 0
    rows = N * out[0] * out[1]

    def make() -> Launch:
        words = BLOCK.words(
            **{"threads": threads_of(Y.size, FLOPS * taps, 1 + taps, rows), "rows": rows, "unit": C, "least": least},
            **views,
        )
        return BlockLaunch(SOURCES.compiled("largest bytes of windows", _write), words)

    vectors = rows * out[2] * taps * -(-C // processor().vector_bytes)
    moving_ns = (X.nbytes + Y.nbytes) / machine().memory_bytes_per_ns
    return Offer(make, estimate_ns=moving_ns + LOOK_NS * vectors / thread_count())


def _write(lines: Lines) -> None:
    """Loop over the rows of Y that are this thread's, the places of each, and vectors of channels."""
    w = Writer(lines, BLOCK)
    v, word, channels = Vector(lines, processor().vector_bytes, DataType.UINT8), w.w, w.w.unit
    least, line = v.full(word.least), word.width * channels

    def row(seen: Seen) -> None:
        def place(q: Term) -> None:
            widths = pair_at(word.widths, q)
            target = seen.y.at(q * channels)

            def some(i: Term, mask: Term | None) -> None:
                def plane(d: Term, best: Term) -> Term:
                    return fold_loop(*seen.heights, best, lambda h, best: across(d * word.height + h, best))

                def across(h: Term, best: Term) -> Term:
                    start = h * line + i

                    def one(column: Term, best: Term) -> Term:
                        return v.load(seen.x, start + column * channels, mask).intrinsic("umax", best)

                    return fold_loop(*widths, best, one)

                v.store(fold_loop(*seen.depths, least, plane), target, i, mask)

            each_vector(v, 0, channels, some)

        count_loop(lines, 0, word.out_width, place)

    each_row_of_y(w, "i8", row)
