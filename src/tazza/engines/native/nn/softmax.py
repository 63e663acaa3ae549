"""Softmax and its gradient, row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows, all_float32
from tazza.codegen.emit import Lines
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import lanes_of, load, store, sweep
from tazza.codegen.rows import EXP_FLOPS, FIRST, FLOAT, D, each_row, row_at, softmax_row
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.nn.softmax import SOFTMAX, SOFTMAX_GRADIENT
from tazza.runtime.threads import thread_count
from tazza.tensor import TensorSpec


def matrix_words(op: OpView, X: TensorSpec, flops: float = EXP_FLOPS) -> list[int]:
    """Return the head of the block for X cut at `axis`."""
    rows = math.prod(X.shape[: op.axis])
    columns = math.prod(X.shape[op.axis :])
    return [threads_for(min(thread_count(), max(rows, 1)), X.size, flops, 8), rows, columns, 0]


@launcher(SOFTMAX, engine="native", accepts=accepts_rows, batch_invariant=True)
def prepare_softmax(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile Softmax."""
    del context, outputs
    X = inputs[0]
    assert isinstance(X, TensorSpec), "inference has checked that"
    if not all_float32(X):
        return Unsupported(f"it computes in float32, not {X}")
    return BlockLaunch(SOURCES.compiled("softmax", _softmax), (*matrix_words(op, X), Slot("X"), Slot("Y")))


def _softmax(lines: Lines) -> None:
    v, width = lanes_of(lines), lines.load_word("%block", D)
    X, Y = (lines.load_pointer("%block", FIRST + i) for i in range(2))

    def row(n: str) -> None:
        softmax_row(v, row_at(lines, X, n, width), row_at(lines, Y, n, width), width)

    each_row(lines, row)


@launcher(SOFTMAX_GRADIENT, engine="native", accepts=accepts_rows)
def prepare_softmax_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile SoftmaxGradient."""
    del context, outputs
    Y = inputs[0]
    assert isinstance(Y, TensorSpec), "inference has checked that"
    if not all_float32(*inputs):
        return Unsupported(f"it computes in float32, not {Y}")
    words = (*matrix_words(op, Y, 4), Slot("Y"), Slot("dY"), Slot("dX"))
    return BlockLaunch(SOURCES.compiled("softmax gradient", _softmax_gradient), words)


def _softmax_gradient(lines: Lines) -> None:
    v, width = lanes_of(lines), lines.load_word("%block", D)
    Y, dY, dX = (lines.load_pointer("%block", FIRST + i) for i in range(3))

    def row(n: str) -> None:
        y, dy, dx = (row_at(lines, one, n, width) for one in (Y, dY, dX))

        def products(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
            return (v.fma(load(v, FLOAT, y, i, mask), load(v, FLOAT, dy, i, mask), carried[0]),)

        dot = v.splat(v.sum(sweep(v, "0", width, products, (v.constant(0.0),))[0]))

        def differences(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
            del carried
            value = v.mul(load(v, FLOAT, y, i, mask), v.sub(load(v, FLOAT, dy, i, mask), dot))
            store(v, FLOAT, value, dx, i, mask)
            return ()

        sweep(v, "0", width, differences)

    each_row(lines, row)
