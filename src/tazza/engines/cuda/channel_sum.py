"""Sums over all but the channels: a program of rows, whose order of addition follows from the shape alone."""

from __future__ import annotations

from tazza.codegen.block import Slot
from tazza.codegen.row_plan import Operand, RowTask
from tazza.engines.cuda import KIND, unavailable
from tazza.engines.cuda.rows import launch_rows
from tazza.operator import Expression, Launch
from tazza.operator.channel_sum import CHANNEL_SUMS, ChannelSum
from tazza.operator.row_program import Cut, RowProgram, Total
from tazza.tensor import DataType
from tazza.tensor.offer import Offer, Unsupported

START_NS, BYTES_PER_NS = 4000.0, 1500.0
"""A kernel of rows takes so long, and reads so much meanwhile: ReduceFrontSum and ReduceBackSum on one H200."""


@CHANNEL_SUMS.solving(
    KIND,
    place=KIND,
    dtype=(DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16),
    help="a program of rows, in float32 by halves, then float64",
)
def solve(task: ChannelSum) -> Offer[Launch]:
    """Compile y = sum of x along a row, of each channel one."""
    missing = unavailable()
    if missing is not None:
        raise Unsupported(missing)
    shape = task.images, task.spots
    cut = Cut(1, shape[0] * shape[1], task.channels) if task.last else Cut(task.channels, shape[1], 1, shape[0])
    program = RowProgram(cut, totals={"y": Total("sum", "x")})
    slots = {"x": Slot(task.read), "y": Slot(task.written)}
    rows = RowTask(program, {"y": Expression.parse("x")}, slots, 0)
    operands = Operand("x", "each", task.dtype, False), Operand("y", "row", task.dtype, True)
    launch = launch_rows(rows, operands, {"x": cut.size, "y": task.channels})
    return Offer(launch, "a program of rows", estimate_ns=START_NS + task.nbytes / BYTES_PER_NS)
