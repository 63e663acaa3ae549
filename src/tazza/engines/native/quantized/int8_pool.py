"""Int8MaxPool, and that with a rectifier, of one scale: the largest bytes of windows, a vector of channels at a time.

Letters as in `ops.nn.pool`, channels last; images of fewer dimensions have 1 for the first ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from tazza.codegen.block import BlockLaunch, Constant, Slot, accepts_rows
from tazza.codegen.emit import Lines
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import count_loop, fold_loop, share, sweep
from tazza.codegen.rows import element
from tazza.codegen.typed import Vector
from tazza.codegen.writer import Writer
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.engines.native.nn.pool import MOST_SPATIAL, seen
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.nn.pool import pool_window
from tazza.ops.quantized.int8_pool import int8_max_pool, int8_pool_relus, int8_pools, rectifies
from tazza.runtime.machine import machine
from tazza.runtime.native_code import processor
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType, PerTensor, TensorSpec
from tazza.tensor.offer import Offer

WORDS = ("threads", "rows", "channels", "least", "out_depth", "out_height", "out_width", "depth", "height", "width")
POINTERS = ("X", "Y", "depths", "heights", "widths")
"""Words of the block: rows of Y, what bytes are at the least; addresses, and what windows see of each dimension."""
LOOK_NS, FLOPS = 0.7, 2.0
"""For a vector of an element of a window, and the same for each byte of it, in the unit of `threads_for`."""


def prepare_int8_max_pool(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Offer[Callable[[], Launch]] | Unsupported:
    """Compile the largest byte of each window."""
    del context
    X, Y = cast("TensorSpec", inputs[0]), cast("TensorSpec", outputs[0])
    window, outs = pool_window(op, X.shape)
    if window.rank > MOST_SPATIAL:
        return Unsupported(f"X has {window.rank} spatial dimensions, at most {MOST_SPATIAL} are compiled")
    if X.quantization != Y.quantization:
        return Unsupported("another scale or zero point: numbers are rounded anew, which is not compiled")
    missing = MOST_SPATIAL - window.rank
    N, *image, C = X.shape
    extents, out = (1,) * missing + tuple(image), (1,) * missing + tuple(cast("tuple[int, ...]", outs))
    kernel, step = ((1,) * missing + sizes for sizes in (window.kernel, window.stride))
    tables = [seen(*side) for side in zip(extents, kernel, step, (0,) * missing + window.head, out, strict=True)]
    taps = math.prod(int(np.max(last - first, initial=0)) for first, last in tables)
    least = min(max(cast("PerTensor", Y.quantization).zero_point, 0), 255) if rectifies(op) else 0
    rows = N * out[0] * out[1]

    def make() -> Launch:
        threads = threads_for(min(thread_count(), max(1, rows)), Y.size, FLOPS * taps, 1 + taps)
        words = (threads, rows, C, least, *out, *extents, Slot("X"), Slot("Y"))
        constants = (Constant(np.stack(table, axis=1).astype(np.int64).tobytes()) for table in tables)
        return BlockLaunch(SOURCES.compiled("largest bytes of windows", _write), (*words, *constants))

    vectors = rows * out[2] * taps * -(-C // processor().vector_bytes)
    moving_ns = (X.nbytes + Y.nbytes) / machine().memory_bytes_per_ns
    return Offer(make, estimate_ns=moving_ns + LOOK_NS * vectors / thread_count())


for _family in (int8_pools, int8_pool_relus):
    for _type, _row in _family.rows.items():
        if _row.compute is int8_max_pool:
            launcher(_family[_type], engine="native", accepts=accepts_rows, batch_invariant=True)(prepare_int8_max_pool)


def _write(lines: Lines) -> None:
    """Loop over the rows of Y that are this thread's, the places of each, and vectors of channels."""
    w = Writer(lines, (*WORDS, *POINTERS), POINTERS)
    v, word, channels = Vector(lines, processor().vector_bytes, DataType.UINT8), w.w, w.w["channels"]
    name = f"@llvm.umax.v{v.count}i8"
    lines.declare(f"{v.type} {name}({v.type}, {v.type})")
    least = v.full(word["least"])
    line = w.mul(word["width"], channels)
    image = w.mul(w.mul(word["depth"], word["height"]), line)

    def pair(table: str, index: str) -> tuple[str, str]:
        at = element(lines, word[table], lines.let(f"shl i64 {index}, 1"), "i64")
        return lines.load_word(at, 0), lines.load_word(at, 1)

    def row(r: str) -> None:
        above = w.div(r, word["out_height"])
        heights = pair("heights", w.rem(r, word["out_height"]))
        depths = pair("depths", w.rem(above, word["out_depth"]))
        x = element(lines, word["X"], w.mul(w.div(above, word["out_depth"]), image), "i8")
        y = element(lines, word["Y"], w.mul(w.mul(r, word["out_width"]), channels), "i8")

        def place(q: str) -> None:
            widths = pair("widths", q)
            target = element(lines, y, w.mul(q, channels), "i8")

            def some(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
                def plane(d: str, best: str) -> str:
                    return fold_loop(
                        v, *heights, best, lambda h, best: across(w.add(w.mul(d, word["height"]), h), best)
                    )

                def across(h: str, best: str) -> str:
                    start = w.add(w.mul(h, line), i)

                    def one(column: str, best: str) -> str:
                        here = v.load(x, w.add(start, w.mul(column, channels)), mask)
                        return lines.let(f"call {v.type} {name}({v.type} {here}, {v.type} {best})")

                    return fold_loop(v, *widths, best, one)

                v.store(fold_loop(v, *depths, least, plane), target, i, mask)
                return carried

            sweep(v, "0", channels, some)

        count_loop(lines, "0", word["out_width"], place)

    count_loop(lines, *share(lines, word["rows"]), row)
