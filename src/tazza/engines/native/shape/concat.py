"""Concat, DepthConcat, of any element type: each part is moved to its place in Y, and split_info filled."""

from __future__ import annotations

import numpy as np

from tazza.codegen.block import Slot
from tazza.engines.native import native
from tazza.engines.native.move import Box, Lie, move_launch, row_major, steps_in
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.operator.kernel import LaunchChain, accepts_strided
from tazza.ops.shape.concat import adds_axis, concats, join_axis
from tazza.tensor import ROW_MAJOR, DataType, TensorSpec

LARGEST = (1 << 31) - 1
"""The largest extent that `split_info` can tell."""


@native(concats["DepthConcat"], concats["Concat"], accepts=accepts_strided, batch_invariant=True)
def prepare_concat(op: OpView, X: list[TensorSpec], Y: TensorSpec) -> LaidOut:
    """Compile a move for each part."""
    alike = len({part.layout for part in X}) == 1  # a variadic letter has one layout for all its blobs
    axis, steps = join_axis(op, "Y", len(Y.shape)), row_major(Y.shape)
    joined = (*steps[:axis], *steps[axis + 1 :]) if adds_axis(op) else steps
    extents = [1 if adds_axis(op) else part.shape[axis] for part in X]
    if max(extents, default=0) > LARGEST:
        raise Unsupported(f"split_info does not hold {max(extents)} in 32 bits")
    boxes = [
        Box(
            tuple(part.shape),
            Lie(sum(extents[:k]) * steps[axis], joined),
            Lie(0, steps_in(part) if alike else row_major(part.shape)),
            out_of=k,
        )
        for k, part in enumerate(X)
    ]
    launch = move_launch(boxes, Y.dtype, sources=[Slot("X", k) for k in range(len(X))])
    numbers = [Box((1,), Lie(k, (1,)), fill=np.int32(extent).tobytes()) for k, extent in enumerate(extents)]
    told = move_launch(numbers, DataType.INT32, [Slot("split_info")], [])
    return LaidOut(LaunchChain((launch, told)), {"X": X[0].layout if alike else ROW_MAJOR, "Y": ROW_MAJOR})
