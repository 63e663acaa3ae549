"""The axes of a tensor in another order: a thread for each element of Y, which finds its place in X."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tazza.engines.cuda.shape.stride import steps_of, strided_copy
from tazza.engines.cuda.translated import translated
from tazza.operator import Launch, OpSchema, OpView
from tazza.ops.shape.transpose import NCHW2NHWC, NHWC2NCHW, TRANSPOSE, transpose_axes
from tazza.tensor import TensorSpec

Axes = Callable[[OpView, int], Sequence[int]]
"""Returns the axis of X for each axis of Y, of so many."""


def _register(schema: OpSchema, axes: Axes) -> None:
    @translated(schema)
    def transpose(op: OpView, X: TensorSpec) -> Launch:
        steps = steps_of(X.shape)
        return strided_copy(X.dtype.itemsize, [(X.shape[k], steps[k]) for k in axes(op, len(X.shape))], ("X", "Y"))


_register(TRANSPOSE, transpose_axes)
_register(NCHW2NHWC, lambda op, rank: (0, *range(2, rank), 1))
_register(NHWC2NCHW, lambda op, rank: (0, rank - 1, *range(1, rank - 1)))
