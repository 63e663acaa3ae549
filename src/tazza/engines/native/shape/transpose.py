"""Transpose, of any element type: a move whose steps in X are those of its axes, in another order."""

from __future__ import annotations

from tazza.engines.native import native
from tazza.engines.native.move import Box, Lie, moved, row_major, steps_in
from tazza.operator import LaidOut, OpView
from tazza.operator.kernel import accepts_strided
from tazza.ops.shape.transpose import TRANSPOSE, transpose_axes
from tazza.tensor import TensorSpec


@native(TRANSPOSE, accepts=accepts_strided)
def prepare_transpose(op: OpView, X: TensorSpec, Y: TensorSpec) -> LaidOut:
    """Compile the move."""
    steps = steps_in(X)
    axes = transpose_axes(op, len(X.shape))
    box = Box(tuple(Y.shape), Lie(0, row_major(Y.shape)), Lie(0, tuple(steps[axis] for axis in axes)))
    return moved([box], X)
