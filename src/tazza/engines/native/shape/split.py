"""Split, DepthSplit, SplitByLengths, of any element type: each part is moved out of its place in X."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import Slot
from tazza.device import Context
from tazza.engines.native.move import Box, Lie, move_launch, row_major, steps_in
from tazza.operator import LaidOut, OpView, Spec, Unsupported, launcher
from tazza.ops.shape.concat import adds_axis, join_axis
from tazza.ops.shape.split import SPLIT_BY_LENGTHS, splits
from tazza.tensor import ROW_MAJOR, TensorSpec


@launcher(SPLIT_BY_LENGTHS, engine="native")
@launcher(splits["DepthSplit"], engine="native")
@launcher(splits["Split"], engine="native")
def prepare_split(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> LaidOut | Unsupported:
    """Compile a move for each part; its extent is that of the output."""
    del context
    X, parts = cast("TensorSpec", inputs[0]), cast("Sequence[TensorSpec]", outputs)
    axis, steps = join_axis(op, "X", len(X.shape)), steps_in(X)
    cut = (*steps[:axis], *steps[axis + 1 :]) if adds_axis(op) else steps
    extents = [1 if adds_axis(op) else part.shape[axis] for part in parts]
    boxes = [
        Box(tuple(part.shape), Lie(0, row_major(part.shape)), Lie(sum(extents[:k]) * steps[axis], cut), into=k)
        for k, part in enumerate(parts)
    ]
    launch = move_launch(boxes, X.dtype, targets=[Slot("Y", k) for k in range(len(parts))])
    return launch if isinstance(launch, Unsupported) else LaidOut(launch, {"X": X.layout, "Y": ROW_MAJOR})
