"""LRN of row-major float32 images, with and without scale: each window is added by itself, in vectors along the image.

Letters as in `ops.lrn`. Threads share the planes, N * C, of H * W elements.
"""

from __future__ import annotations

import math
from functools import partial

from tazza.codegen.block import BlockLaunch, accepts_known_orders, all_float32
from tazza.codegen.fields import Fields
from tazza.codegen.function import Emission
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import count_loop, each_vector, fold_loop, lanes_of, share
from tazza.codegen.term import Lines, Term
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


@native(LRN, accepts=accepts_known_orders, batch_invariant=True)
def prepare_lrn(op: OpView, X: TensorSpec, scale: TensorSpec | None) -> Offered:
    """Compile LRN; other layouts are left to oneDNN, which has code for them."""
    if not all_float32(X) or X.layout != ROW_MAJOR or op.order.upper() != "NCHW":
        raise Unsupported(f"it takes row-major images of float32, NCHW, not {X} in {op.order}")
    if not math.isfinite(op.beta):
        raise Unsupported(f"beta = {op.beta}: it takes finite powers")
    nbytes = X.nbytes * (2 if scale is None else 3)
    return Offer(partial(_launch, op, X, scale is not None), estimate_ns=nbytes / machine().memory_bytes_per_ns)


def _launch(op: OpView, X: TensorSpec, scaled: bool) -> Launch:
    channels = X.shape[1]
    power = ROOTS.get(op.beta, f"pow(s, {-op.beta!r})")
    kind = f"lrn, {power}{', scale' if scaled else ''}"
    address = SOURCES.compiled(kind, partial(_write, power=power, scaled=scaled))
    planes, area = X.shape[0] * channels, X.shape[2] * X.shape[3]
    words = BLOCK.words(
        **{"threads": threads_of(X.size, 2 * op.size + FLOPS, 12, planes), "planes": planes, "C": channels},
        **{"area": area, "before": min((op.size - 1) // 2, channels), "behind": min(op.size // 2, channels)},
        **{"weight": op.alpha / op.size, "bias": op.bias},
        **({} if scaled else {"scale": 0}),
    )
    return BlockLaunch(address, words)


def _write(lines: Lines, power: str, scaled: bool) -> None:
    v, w = lanes_of(lines), BLOCK.loaded(lines)
    weight, bias = v.full(w.weight), v.full(w.bias)
    pointers = [w.X, w.Y, *([w.scale] if scaled else [])]
    expression = Expression.parse(power)

    def plane(n: Term) -> None:
        own = n % w.C
        first = (own - w.before).at_least(0)
        last = (own + w.behind + 1).at_most(w.C)
        image = w.X.at((n - own) * w.area)
        x, *given = (pointer.at(n * w.area) for pointer in pointers)

        def some(i: Term, mask: Term | None) -> None:
            def one(c: Term, total: Term) -> Term:
                value = v.load(image.at(c * w.area), i, mask)
                return value.fma(value, total)

            total = fold_loop(first, last, v.constant(0.0), one).fma(weight, bias)
            factor = Emission(v, {"s": total}).write(expression)
            results = (v.load(x, i, mask) * factor, total)
            for pointer, value in zip(given, results, strict=False):
                v.store(value, pointer, i, mask)

        each_vector(v, 0, w.area, some)

    count_loop(lines, *share(lines, w.planes), plane)
