"""LRN of row-major float32 images, with and without scale: each window is added by itself, in vectors along the image.

Letters as in `ops.lrn`. Threads share the planes, N * C, of H * W elements.
"""

from __future__ import annotations

import math
from functools import partial

from tazza.codegen.block import BlockLaunch, accepts_rows_or_vendor, all_float32
from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, each_vector, fold_loop, lanes_of, share
from tazza.codegen.rows import element
from tazza.codegen.vector import Emission
from tazza.engines.native import SOURCES, native
from tazza.operator import Expression, Launch, OpView, Unsupported
from tazza.operator.kernel import Offered
from tazza.ops.nn.lrn import LRN
from tazza.runtime.machine import machine
from tazza.tensor import ROW_MAJOR, TensorSpec
from tazza.tensor.offer import Offer

BLOCK = Fields("threads planes C area before behind", doubles="weight bias", addresses="X Y scale")
"""How many channels a window has before and behind its own; the weight is alpha / size."""
FLOPS = 60
"""Of a power."""
ROOTS = {0.5: "1 / sqrt(s)", 0.75: "1 / (sqrt(s) * sqrt(sqrt(s)))", 1.0: "1 / s"}
"""s^-beta for those that need no logarithm; the second one is that of all nets that people know."""


@native(LRN, accepts=accepts_rows_or_vendor, batch_invariant=True)
def prepare_lrn(op: OpView, X: TensorSpec, scale: TensorSpec | None) -> Offered:
    """Compile LRN; other layouts are left to oneDNN, which has code for them."""
    if not all_float32(X) or X.layout != ROW_MAJOR or op.order.upper() != "NCHW":
        return Unsupported(f"it takes row-major images of float32, NCHW, not {X} in {op.order}")
    if not math.isfinite(op.beta):
        return Unsupported(f"beta = {op.beta}: it takes finite powers")
    nbytes = X.nbytes * (2 if scale is None else 3)
    return Offer(partial(_launch, op, X, scale is not None), estimate_ns=nbytes / machine().memory_bytes_per_ns)


def _launch(op: OpView, X: TensorSpec, scaled: bool) -> Launch:
    channels = X.shape[1]
    power = ROOTS.get(op.beta, f"pow(s, {-op.beta!r})")
    address = SOURCES.compiled(
        f"lrn, {power}{', scale' if scaled else ''}", partial(_write, power=power, scaled=scaled)
    )
    planes, area = X.shape[0] * channels, X.shape[2] * X.shape[3]
    words = BLOCK.words(
        **{"threads": threads_of(X.size, 2 * op.size + FLOPS, 12, planes), "planes": planes, "C": channels},
        **{"area": area, "before": min((op.size - 1) // 2, channels), "behind": min(op.size // 2, channels)},
        **{"weight": op.alpha / op.size, "bias": op.bias},
        **({} if scaled else {"scale": 0}),
    )
    return BlockLaunch(address, words)


def _write(lines: Lines, power: str, scaled: bool) -> None:
    v, w = lanes_of(lines), BLOCK.load(lines)
    weight, bias = v.of_double(w.weight), v.of_double(w.bias)
    pointers = [w.X, w.Y, *([w.scale] if scaled else [])]
    expression = Expression.parse(power)

    def plane(n: str) -> None:
        own = lines.let(f"urem i64 {n}, {w.C}")
        first = lines.most(lines.let(f"sub i64 {own}, {w.before}"), "0")
        last = lines.let(f"add i64 {lines.let(f'add i64 {own}, {w.behind}')}, 1")
        last = lines.least(last, w.C)
        image = element(lines, pointers[0], lines.let(f"mul i64 {lines.let(f'sub i64 {n}, {own}')}, {w.area}"))
        x, *given = (element(lines, pointer, lines.let(f"mul i64 {n}, {w.area}")) for pointer in pointers)

        def some(i: str, mask: str | None) -> None:
            def one(c: str, total: str) -> str:
                value = v.load(element(lines, image, lines.let(f"mul i64 {c}, {w.area}")), i, mask)
                return v.fma(value, value, total)

            total = v.fma(fold_loop(v, first, last, v.constant(0.0), one), weight, bias)
            factor = Emission(v, {"s": total}).write(expression)
            results = (v.mul(v.load(x, i, mask), factor), total)
            for pointer, value in zip(given, results, strict=False):
                v.store(value, pointer, i, mask)

        each_vector(v, "0", w.area, some)

    count_loop(lines, *share(lines, w.planes), plane)
