"""The gradient of Normalize along the last axis, in float64.

In float32 the difference would leave nothing that is right where dY lies along X.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows, all_float32
from tazza.codegen.emit import Lines
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import lanes_of, load, store, sweep
from tazza.codegen.rows import FIRST, FLOAT, D, each_row, row_at
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.nn.normalize import NORMALIZE_GRADIENT, SHORTEST
from tazza.runtime.threads import thread_count
from tazza.tensor import TensorSpec

FLOPS = 40
"""Of an element, with its quotients."""


@launcher(NORMALIZE_GRADIENT, engine="native", accepts=accepts_rows)
def prepare_normalize_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile NormalizeGradient."""
    del context, outputs
    X = cast("TensorSpec", inputs[0])
    axis = op.axis % len(X.shape)
    if not all_float32(*inputs) or axis != len(X.shape) - 1:
        return Unsupported(f"it takes vectors of float32 along the last axis, not {X} along {axis}")
    rows, width = math.prod(X.shape[:-1]), X.shape[-1]
    threads = threads_for(min(thread_count(), max(rows, 1)), X.size, FLOPS, 12)
    slots = (Slot("X"), Slot("dY"), Slot("dX"))
    return BlockLaunch(SOURCES.compiled("normalize gradient", _write), (threads, rows, width, 0, *slots))


def _write(lines: Lines) -> None:
    """Length first, then y * dY, then dX = (dY - y * their sum) / length; short vectors have y = 0."""
    v, width = lanes_of(lines, 64), lines.load_word("%block", D)
    pointers = [lines.load_pointer("%block", FIRST + i) for i in range(3)]
    zero = v.constant(0.0)

    def row(n: str) -> None:
        x, dy, dx = (row_at(lines, pointer, n, width) for pointer in pointers)

        def squares(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
            here = load(v, FLOAT, x, i, mask)
            return (v.add(carried[0], v.mul(here, here)),)

        length = v.intrinsic("sqrt", v.splat(v.sum(sweep(v, "0", width, squares, (zero,))[0])))
        short = v.compare("olt", length, v.constant(SHORTEST))
        divisor = v.floor_at(length, SHORTEST)

        def unit(i: str, mask: str | None) -> str:
            return v.select(short, zero, v.div(load(v, FLOAT, x, i, mask), divisor))

        def products(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
            return (v.add(carried[0], v.mul(unit(i, mask), load(v, FLOAT, dy, i, mask))),)

        total = v.splat(v.sum(sweep(v, "0", width, products, (zero,))[0]))

        def differences(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
            along = v.mul(unit(i, mask), total)
            store(v, FLOAT, v.div(v.sub(load(v, FLOAT, dy, i, mask), along), divisor), dx, i, mask)
            return carried

        sweep(v, "0", width, differences)

    each_row(lines, row)
