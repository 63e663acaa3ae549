"""AveragedLoss and its gradient; the sum is taken in float64, in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from tazza.codegen.block import BlockLaunch, Constant, Slot, accepts_rows
from tazza.codegen.emit import Lines
from tazza.codegen.rows import FIRST, FLOAT, N, finish_status, sum_float64
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.engines.native.pointwise import kernel_address
from tazza.operator import Expression, Launch, OpView, Spec, launcher
from tazza.ops.loss.loss import AVERAGED_LOSS, AVERAGED_LOSS_GRADIENT
from tazza.tensor import TensorSpec


@launcher(AVERAGED_LOSS, engine="native", accepts=accepts_rows)
def prepare_averaged_loss(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch:
    """Compile AveragedLoss."""
    del op, context, outputs
    size = cast("TensorSpec", inputs[0]).size
    return BlockLaunch(SOURCES.compiled("averaged loss", _nothing, _mean), (1, size, 1, 0, Slot("X"), Slot("loss")))


def _nothing(lines: Lines) -> None:
    """All is done by `_mean`, on one thread."""


def _mean(lines: Lines) -> None:
    def divide() -> None:
        X, loss = (lines.load_pointer("%block", FIRST + i) for i in range(2))
        count = lines.load_word("%block", N)
        empty = lines.let(f"icmp eq i64 {count}, 0")
        total = lines.let(f"uitofp i64 {lines.let(f'select i1 {empty}, i64 1, i64 {count}')} to double")
        mean = lines.let(f"fdiv double {sum_float64(lines, X, count)}, {total}")
        lines.do(f"store float {lines.let(f'fptrunc double {mean} to float')}, ptr {loss}")

    finish_status(lines, divide)


@launcher(AVERAGED_LOSS_GRADIENT, engine="native", accepts=accepts_rows)
def prepare_averaged_loss_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch:
    """Compile AveragedLossGradient: a fill with dloss / count."""
    del op, context, outputs
    size = cast("TensorSpec", inputs[0]).size
    address = kernel_address([Expression.parse("a0 / a1")], [(FLOAT, False), (FLOAT, False)], [FLOAT])
    count = Constant(np.float32(max(size, 1)).tobytes())
    return BlockLaunch(address, (1, 1, size, 0, Slot("dloss"), count, Slot("dX")))
