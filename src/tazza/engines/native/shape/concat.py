"""Concat, DepthConcat, of any element type: each part is moved to its place in Y, and split_info filled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from tazza.codegen.block import Slot
from tazza.device import Context
from tazza.engines.native.move import Box, Lie, move_launch, row_major, steps_in
from tazza.operator import LaidOut, OpView, Spec, Unsupported, launcher
from tazza.operator.kernel import LaunchChain
from tazza.ops.shape.concat import adds_axis, concats, join_axis
from tazza.tensor import ROW_MAJOR, DataType, TensorSpec

LARGEST = (1 << 31) - 1
"""The largest extent that `split_info` can tell."""


@launcher(concats["DepthConcat"], engine="native", batch_invariant=True)
@launcher(concats["Concat"], engine="native", batch_invariant=True)
def prepare_concat(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> LaidOut | Unsupported:
    """Compile a move for each part."""
    del context
    parts, Y = cast("Sequence[TensorSpec]", inputs), cast("TensorSpec", outputs[0])
    alike = len({part.layout for part in parts}) == 1  # a variadic letter has one layout for all its blobs
    axis, steps = join_axis(op, "Y", len(Y.shape)), row_major(Y.shape)
    joined = (*steps[:axis], *steps[axis + 1 :]) if adds_axis(op) else steps
    extents = [1 if adds_axis(op) else part.shape[axis] for part in parts]
    if max(extents, default=0) > LARGEST:
        return Unsupported(f"split_info does not hold {max(extents)} in 32 bits")
    boxes = [
        Box(
            tuple(part.shape),
            Lie(sum(extents[:k]) * steps[axis], joined),
            Lie(0, steps_in(part) if alike else row_major(part.shape)),
            out_of=k,
        )
        for k, part in enumerate(parts)
    ]
    launch = move_launch(boxes, Y.dtype, sources=[Slot("X", k) for k in range(len(parts))])
    numbers = [Box((1,), Lie(k, (1,)), fill=np.int32(extent).tobytes()) for k, extent in enumerate(extents)]
    told = move_launch(numbers, DataType.INT32, [Slot("split_info")], [])
    if isinstance(launch, Unsupported) or isinstance(told, Unsupported):
        return launch if isinstance(launch, Unsupported) else cast("Unsupported", told)
    return LaidOut(LaunchChain((launch, told)), {"X": parts[0].layout if alike else ROW_MAJOR, "Y": ROW_MAJOR})
