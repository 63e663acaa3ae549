"""Glu: the halves of X as two operands of one formula; each place before `dim` is a row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import BlockLaunch, Inside, Slot, accepts_rows, all_float32
from tazza.codegen.kernel import threads_for
from tazza.device import Context
from tazza.engines.native.pointwise import kernel_address
from tazza.operator import Expression, Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.nn.glu import GLU
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType, TensorSpec

FORMULA = Expression.parse("a0 * sigmoid(a1)")


@launcher(GLU, engine="native", accepts=accepts_rows)
def prepare_glu(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | Unsupported:
    """Compile Glu."""
    del context
    X, Y = cast("tuple[TensorSpec, TensorSpec]", (inputs[0], outputs[0]))
    if not all_float32(X):
        return Unsupported(f"it computes in float32, not {X}")
    rows = math.prod(Y.shape[: op.dim % len(Y.shape)])
    half = Y.size // max(rows, 1)
    threads = threads_for(thread_count(), Y.size, FORMULA.flops, 12)
    address = kernel_address([FORMULA], [(DataType.FLOAT, True)] * 2, [DataType.FLOAT], 1)
    head = (threads, rows, half, int(rows >= 4 * threads), rows)
    return BlockLaunch(
        address, (*head, Slot("X"), 8 * half, Inside(Slot("X"), 4 * half), 8 * half, Slot("Y"), 4 * half)
    )
