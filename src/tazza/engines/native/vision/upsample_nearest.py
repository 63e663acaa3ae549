"""UpsampleNearest and its gradient, by tables of what each row and column repeats."""

from __future__ import annotations

import math

import numpy as np

from tazza.codegen.block import Slot
from tazza.engines.native import native
from tazza.engines.native.resampling import Dimension, back, resampling
from tazza.operator import Launch, OpView
from tazza.ops.vision.upsample_nearest import UPSAMPLE_NEAREST, UPSAMPLE_NEAREST_GRADIENT
from tazza.tensor import TensorSpec


def _dimensions(op: OpView, spec: TensorSpec) -> tuple[int, Dimension, Dimension]:
    """Return the planes of X, and what rows and columns of Y repeat."""
    *S, H, W = spec.shape
    rows, columns = (Dimension.of(np.repeat(np.arange(extent), op.scale), extent) for extent in (H, W))
    return math.prod(S), rows, columns


@native(UPSAMPLE_NEAREST, batch_invariant=True, float32=True)
def prepare_upsample_nearest(op: OpView, X: TensorSpec) -> Launch:
    """Compile the copy."""
    return resampling(*_dimensions(op, X), (Slot("X"), Slot("Y")), 0.0)


@native(UPSAMPLE_NEAREST_GRADIENT, float32=True)
def prepare_upsample_nearest_gradient(op: OpView, dX: TensorSpec) -> Launch:
    """Compile the sums."""
    return back(*_dimensions(op, dX))
