"""Split, DepthSplit, SplitByLengths, of any element type: each part is moved out of its place in X.

Parts of one shape of an image whose channels lie last keep them there.
"""

from __future__ import annotations

from collections.abc import Sequence

from tazza.codegen.block import Slot
from tazza.engines.native import native
from tazza.engines.native.move import Box, Lie, move_launch, steps_in
from tazza.operator import LaidOut, OpView
from tazza.operator.kernel import accepts_strided
from tazza.ops.shape.concat import adds_axis, join_axis
from tazza.ops.shape.split import SPLIT_BY_LENGTHS, splits
from tazza.tensor import ROW_MAJOR, Strided, TensorSpec, channels_last


@native(SPLIT_BY_LENGTHS, splits["DepthSplit"], splits["Split"], accepts=accepts_strided)
def prepare_split(op: OpView, X: TensorSpec, Y: list[TensorSpec]) -> LaidOut:
    """Compile a move for each part; its extent is that of the output."""
    axis, steps = join_axis(op, "X", len(X.shape)), steps_in(X)
    cut = (*steps[:axis], *steps[axis + 1 :]) if adds_axis(op) else steps
    extents = [1 if adds_axis(op) else part.shape[axis] for part in Y]
    layout = _part_layout(op, X, Y)
    boxes = [
        Box(tuple(part.shape), Lie(0, layout.steps(part.shape)), Lie(sum(extents[:k]) * steps[axis], cut), into=k)
        for k, part in enumerate(Y)
    ]
    launch = move_launch(boxes, X.dtype, targets=[Slot("Y", k) for k in range(len(Y))])
    return LaidOut(launch, {"X": X.layout, "Y": layout})


def _part_layout(op: OpView, X: TensorSpec, parts: Sequence[TensorSpec]) -> Strided:
    """Return channels-last where X is so and one layout does for all parts."""
    same = len({part.shape for part in parts}) == 1 and not adds_axis(op) and len(X.shape) > 2
    return channels_last(parts[0].shape) if same and X.layout == channels_last(X.shape) else ROW_MAJOR
