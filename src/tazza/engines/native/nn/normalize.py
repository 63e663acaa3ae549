"""The gradient of Normalize along the last axis, in float64.

In float32 the difference would leave nothing that is right where dY lies along X.
"""

from __future__ import annotations

import math

from tazza.codegen.block import BlockLaunch
from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import each_vector, lane_sums, lanes_of
from tazza.codegen.rows import FLOAT, ROWS, each_row, row_at
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
    v, at = lanes_of(lines, DataType.DOUBLE), BLOCK.read(lines)
    pointers, width = (at.X, at.dY, at.dX), at.D
    zero = v.constant(0.0)

    def row(n: str) -> None:
        x, dy, dx = (row_at(lines, pointer, n, width) for pointer in pointers)

        def square(i: str, mask: str | None) -> str:
            here = v.load(x, i, mask, dtype=FLOAT)
            return v.mul(here, here)

        length = v.intrinsic("sqrt", v.splat(v.sum(lane_sums(v, "0", width, square))))
        short = v.compare("olt", length, v.constant(SHORTEST))
        divisor = v.floor_at(length, SHORTEST)

        def unit(i: str, mask: str | None) -> str:
            return v.select(short, zero, v.div(v.load(x, i, mask, dtype=FLOAT), divisor))

        def product(i: str, mask: str | None) -> str:
            return v.mul(unit(i, mask), v.load(dy, i, mask, dtype=FLOAT))

        total = v.splat(v.sum(lane_sums(v, "0", width, product)))

        def differences(i: str, mask: str | None) -> None:
            along = v.mul(unit(i, mask), total)
            v.store(v.div(v.sub(v.load(dy, i, mask, dtype=FLOAT), along), divisor), dx, i, mask, dtype=FLOAT)

        each_vector(v, "0", width, differences)

    each_row(lines, row)
