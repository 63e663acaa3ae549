"""The axes of a tensor in another order: a thread for each element of Y, which finds its place in X."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from tazza.codegen.block import accepts_rows
from tazza.device import Context
from tazza.engines.cuda import KIND
from tazza.engines.cuda.shape.stride import steps_of, strided_copy
from tazza.operator import Launch, OpSchema, OpView, Spec, Unsupported, launcher
from tazza.ops.shape.transpose import NCHW2NHWC, NHWC2NCHW, TRANSPOSE, transpose_axes
from tazza.tensor import DataType, TensorSpec

Axes = Callable[[OpView, int], Sequence[int]]
"""Returns the axis of X for each axis of Y, of so many."""


def _register(schema: OpSchema, axes: Axes) -> None:
    @launcher(schema, engine=KIND, device=KIND, accepts=accepts_rows)
    def prepare(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Launch | Unsupported:
        del context, outputs
        X = cast("TensorSpec", inputs[0])
        if X.dtype is DataType.STRING:
            return Unsupported("strings do not lie on a device")
        steps = steps_of(X.shape)
        return strided_copy(X.dtype.itemsize, [(X.shape[k], steps[k]) for k in axes(op, len(X.shape))], ("X", "Y"))


_register(TRANSPOSE, transpose_axes)
_register(NCHW2NHWC, lambda op, rank: (0, *range(2, rank), 1))
_register(NHWC2NCHW, lambda op, rank: (0, rank - 1, *range(1, rank - 1)))
