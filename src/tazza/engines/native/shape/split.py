"""Split, DepthSplit, SplitByLengths, of any element type: each part is moved out of its place in X."""

from __future__ import annotations

from tazza.codegen.block import Slot
from tazza.engines.native import native
from tazza.engines.native.move import Box, Lie, move_launch, row_major, steps_in
from tazza.operator import LaidOut, OpView
from tazza.operator.kernel import accepts_strided
from tazza.ops.shape.concat import adds_axis, join_axis
from tazza.ops.shape.split import SPLIT_BY_LENGTHS, splits
from tazza.tensor import ROW_MAJOR, TensorSpec


@native(SPLIT_BY_LENGTHS, splits["DepthSplit"], splits["Split"], accepts=accepts_strided)
def prepare_split(op: OpView, X: TensorSpec, Y: list[TensorSpec]) -> LaidOut:
    """Compile a move for each part; its extent is that of the output."""
    axis, steps = join_axis(op, "X", len(X.shape)), steps_in(X)
    cut = (*steps[:axis], *steps[axis + 1 :]) if adds_axis(op) else steps
    extents = [1 if adds_axis(op) else part.shape[axis] for part in Y]
    boxes = [
        Box(tuple(part.shape), Lie(0, row_major(part.shape)), Lie(sum(extents[:k]) * steps[axis], cut), into=k)
        for k, part in enumerate(Y)
    ]
    launch = move_launch(boxes, X.dtype, targets=[Slot("Y", k) for k in range(len(Y))])
    return LaidOut(launch, {"X": X.layout, "Y": ROW_MAJOR})
