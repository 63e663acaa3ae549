"""The gradient of Normalize along the last axis, in float64.

In float32 the difference would leave nothing that is right where dY lies along X.
"""

from __future__ import annotations

import math

from tazza.codegen.block import BlockLaunch
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import each_vector, lane_sums, lanes_of
from tazza.codegen.rows import FLOAT, ROWS, each_row
from tazza.codegen.term import Lines, Term
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.nn.normalize import NORMALIZE_GRADIENT, SHORTEST
from tazza.tensor import DataType, TensorSpec

BLOCK = Fields(addresses="X dY dX", after=ROWS)
FLOPS = 40
"""Of an element, with its quotients."""


@native(NORMALIZE_GRADIENT, float32=True)
def prepare_normalize_gradient(op: OpView, X: TensorSpec) -> Launch | Unsupported:
    """Compile NormalizeGradient."""
    axis = op.axis % len(X.shape)
    if axis != len(X.shape) - 1:
        return Unsupported(f"it takes vectors along the last axis, not {X} along {axis}")
    rows, width = math.prod(X.shape[:-1]), X.shape[-1]
    words = BLOCK.words(threads=threads_of(X.size, FLOPS, 12, rows), N=rows, D=width)
    return BlockLaunch(SOURCES.compiled("normalize gradient", _write), words)


def _write(lines: Lines) -> None:
    """Length first, then y * dY, then dX = (dY - y * their sum) / length; short vectors have y = 0."""
    v, at = lanes_of(lines, DataType.DOUBLE), BLOCK.lazily(lines)
    pointers, width = (at.X, at.dY, at.dX), at.D

    def row(n: Term) -> None:
        x, dy, dx = (pointer.at(n * width) for pointer in pointers)

        def square(i: Term, mask: Term | None) -> Term:
            here = v.load(x, i, mask, dtype=FLOAT)
            return here * here

        length = v.full(lane_sums(v, 0, width, square).sum()).intrinsic("sqrt")
        short = length < SHORTEST
        divisor = length.at_least(SHORTEST)

        def unit(i: Term, mask: Term | None) -> Term:
            return short.choose(0.0, v.load(x, i, mask, dtype=FLOAT) / divisor)

        def product(i: Term, mask: Term | None) -> Term:
            return unit(i, mask) * v.load(dy, i, mask, dtype=FLOAT)

        total = v.full(lane_sums(v, 0, width, product).sum())

        def differences(i: Term, mask: Term | None) -> None:
            along = unit(i, mask) * total
            v.store((v.load(dy, i, mask, dtype=FLOAT) - along) / divisor, dx, i, mask, dtype=FLOAT)

        each_vector(v, 0, width, differences)

    each_row(lines, row)
