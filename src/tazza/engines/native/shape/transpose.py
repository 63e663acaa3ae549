"""Transpose, of any element type: a move whose steps in X are those of its axes, in another order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.device import Context
from tazza.engines.native.move import Box, Lie, move_launch, row_major, steps_in
from tazza.operator import LaidOut, OpView, Spec, Unsupported, launcher
from tazza.ops.shape.transpose import TRANSPOSE, transpose_axes
from tazza.tensor import ROW_MAJOR, TensorSpec


@launcher(TRANSPOSE, engine="native")
def prepare_transpose(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> LaidOut | Unsupported:
    """Compile the move."""
    del context
    X, Y = cast("TensorSpec", inputs[0]), cast("TensorSpec", outputs[0])
    steps = steps_in(X)
    axes = transpose_axes(op, len(X.shape))
    box = Box(tuple(Y.shape), Lie(0, row_major(Y.shape)), Lie(0, tuple(steps[axis] for axis in axes)))
    launch = move_launch([box], X.dtype)
    return launch if isinstance(launch, Unsupported) else LaidOut(launch, {"X": X.layout, "Y": ROW_MAJOR})
