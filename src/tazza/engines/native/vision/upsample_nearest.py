"""UpsampleNearest and its gradient, by tables of what each row and column repeats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np

from tazza.codegen.block import Slot, accepts_rows, all_float32
from tazza.device import Context
from tazza.engines.native.resampling import Dimension, resampling
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.vision.upsample_nearest import UPSAMPLE_NEAREST, UPSAMPLE_NEAREST_GRADIENT
from tazza.tensor import TensorSpec


def _dimensions(op: OpView, spec: TensorSpec) -> tuple[int, Dimension, Dimension]:
    """Return the planes of X, and what rows and columns of Y repeat."""
    *S, H, W = spec.shape
    rows, columns = (Dimension.of(np.repeat(np.arange(extent), op.scale), extent) for extent in (H, W))
    return math.prod(S), rows, columns


@launcher(UPSAMPLE_NEAREST, engine="native", accepts=accepts_rows, batch_invariant=True)
def prepare_upsample_nearest(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the copy."""
    del context
    if not all_float32(*inputs, *outputs):
        return Unsupported("it is compiled for float32")
    return resampling(*_dimensions(op, cast("TensorSpec", inputs[0])), (Slot("X"), Slot("Y")), 0.0)


@launcher(UPSAMPLE_NEAREST_GRADIENT, engine="native", accepts=accepts_rows)
def prepare_upsample_nearest_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the sums."""
    del context, inputs
    if not all_float32(*outputs):
        return Unsupported("it is compiled for float32")
    planes, rows, columns = _dimensions(op, cast("TensorSpec", outputs[0]))
    return resampling(planes, rows.turned(), columns.turned(), (Slot("dY"), Slot("dX")), 0.0)
