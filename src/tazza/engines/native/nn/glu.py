"""Glu: the halves of X as two operands of one formula; each place before `dim` is a row."""

from __future__ import annotations

import math

from tazza.codegen.block import BlockLaunch, Inside, Slot
from tazza.codegen.kernel import threads_of
from tazza.codegen.nest import nest_words
from tazza.engines.native import native
from tazza.engines.native.pointwise import kernel_address
from tazza.operator import Expression, Launch, OpView
from tazza.ops.nn.glu import GLU
from tazza.tensor import DataType, TensorSpec

FORMULA = Expression.parse("a0 * sigmoid(a1)")


@native(GLU, float32=True)
def prepare_glu(op: OpView, Y: TensorSpec) -> Launch:
    """Compile Glu."""
    rows = math.prod(Y.shape[: op.dim % len(Y.shape)])
    half = Y.size // max(rows, 1)
    threads = threads_of(Y.size, FORMULA.flops, 12)
    address = kernel_address([FORMULA], [(DataType.FLOAT, True)] * 2, [DataType.FLOAT], 1)
    operands = [(Slot("X"), (8 * half,)), (Inside(Slot("X"), 4 * half), (8 * half,)), (Slot("Y"), (4 * half,))]
    return BlockLaunch(address, nest_words(threads, ([rows], half), operands))
