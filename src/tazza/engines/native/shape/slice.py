"""Slice, SliceGradient: a box of X, moved as it lies, and zeros around it. Inputs that say where come too late."""

from __future__ import annotations

from tazza.codegen.block import Slot
from tazza.engines.native import native
from tazza.engines.native.move import Box, Lie, frame, move_launch, moved, row_major, steps_in
from tazza.operator import LaidOut, OpView, Unsupported
from tazza.operator.kernel import accepts_strided
from tazza.ops.shape.slice import SLICE, SLICE_GRADIENT, box
from tazza.tensor import ROW_MAJOR, TensorSpec

LATE = "starts and ends that are inputs are not compiled"


@native(SLICE, accepts=accepts_strided)
def prepare_slice(op: OpView, X: TensorSpec, Y: TensorSpec) -> LaidOut:
    """Compile the move."""
    if op.has_input("first"):
        raise Unsupported(LATE)
    own, taken = steps_in(X), box(op, X.shape, op.starts, op.ends)
    start = sum(part.start * step for part, step in zip(taken, own, strict=True))
    return moved([Box(tuple(Y.shape), Lie(0, row_major(Y.shape)), Lie(start, own))], X)


@native(SLICE_GRADIENT, accepts=accepts_strided)
def prepare_slice_gradient(op: OpView, dY: TensorSpec, dX: TensorSpec) -> LaidOut:
    """Compile the move and what is around it."""
    if op.has_input("first"):
        raise Unsupported(LATE)
    taken = [range(part.start, part.stop) for part in box(op, dX.shape, op.starts, op.ends)]
    steps = row_major(dX.shape)
    start = sum(part.start * step for part, step in zip(taken, steps, strict=True))
    boxes = [*frame(dX.shape, taken, Lie(0, steps)), Box(tuple(dY.shape), Lie(start, steps), Lie(0, steps_in(dY)))]
    launch = move_launch(boxes, dY.dtype, [Slot("dX")], [Slot("dY")])
    return LaidOut(launch, {"dY": dY.layout, "dX": ROW_MAJOR})
