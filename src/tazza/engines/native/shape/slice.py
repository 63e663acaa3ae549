"""Slice, SliceGradient: a box of X, moved as it lies, and zeros around it. Inputs that say where come too late."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import Slot
from tazza.device import Context
from tazza.engines.native.move import Box, Lie, frame, move_launch, row_major, steps_in
from tazza.operator import LaidOut, OpView, Spec, Unsupported, launcher
from tazza.ops.shape.slice import SLICE, SLICE_GRADIENT, box
from tazza.tensor import ROW_MAJOR, TensorSpec

LATE = "starts and ends that are inputs are not compiled"


@launcher(SLICE, engine="native")
def prepare_slice(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> LaidOut | Unsupported:
    """Compile the move."""
    del context
    if op.has_input("first"):
        return Unsupported(LATE)
    X, Y = cast("TensorSpec", inputs[0]), cast("TensorSpec", outputs[0])
    own, taken = steps_in(X), box(op, X.shape, op.starts, op.ends)
    start = sum(part.start * step for part, step in zip(taken, own, strict=True))
    launch = move_launch([Box(tuple(Y.shape), Lie(0, row_major(Y.shape)), Lie(start, own))], X.dtype)
    return launch if isinstance(launch, Unsupported) else LaidOut(launch, {"X": X.layout, "Y": ROW_MAJOR})


@launcher(SLICE_GRADIENT, engine="native")
def prepare_slice_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> LaidOut | Unsupported:
    """Compile the move and what is around it."""
    del context
    if op.has_input("first"):
        return Unsupported(LATE)
    dY, dX = cast("TensorSpec", inputs[-1]), cast("TensorSpec", outputs[0])
    taken = [range(part.start, part.stop) for part in box(op, dX.shape, op.starts, op.ends)]
    steps = row_major(dX.shape)
    start = sum(part.start * step for part, step in zip(taken, steps, strict=True))
    boxes = [*frame(dX.shape, taken, Lie(0, steps)), Box(tuple(dY.shape), Lie(start, steps), Lie(0, steps_in(dY)))]
    launch = move_launch(boxes, dY.dtype, [Slot("dX")], [Slot("dY")])
    return launch if isinstance(launch, Unsupported) else LaidOut(launch, {"dY": dY.layout, "dX": ROW_MAJOR})
