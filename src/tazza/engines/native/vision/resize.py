"""UpsampleBilinear and its gradient, by tables of the two neighbours of each row and column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from tazza.codegen.block import Slot, accepts_rows, all_float32
from tazza.device import Context
from tazza.engines.native.resampling import Dimension, resampling
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.vision.resize import UPSAMPLE_BILINEAR, UPSAMPLE_BILINEAR_GRADIENT, between
from tazza.tensor import TensorSpec


def _dimensions(X: TensorSpec, Y: TensorSpec) -> tuple[int, Dimension, Dimension]:
    """Return the planes of X, and the neighbours of rows and columns of Y."""
    found: list[Dimension] = []
    for count, extent in zip(Y.shape[2:], X.shape[2:], strict=True):
        places, weights = zip(*between(count, extent), strict=True)
        found.append(Dimension(np.stack(places, 1), extent, np.stack(weights, 1)))
    rows, columns = found
    return X.shape[0] * X.shape[1], rows, columns


@launcher(UPSAMPLE_BILINEAR, engine="native", accepts=accepts_rows, batch_invariant=True)
def prepare_upsample_bilinear(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the sums of neighbours."""
    del op, context
    X, Y = cast("tuple[TensorSpec, TensorSpec]", (inputs[0], outputs[0]))
    if not all_float32(X, Y):
        return Unsupported("it is compiled for float32")
    return resampling(*_dimensions(X, Y), (Slot("X"), Slot("Y")), 0.0)


@launcher(UPSAMPLE_BILINEAR_GRADIENT, engine="native", accepts=accepts_rows)
def prepare_upsample_bilinear_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the sums, by the weights that a pixel has in others."""
    del op, context
    dY, dX = cast("tuple[TensorSpec, TensorSpec]", (inputs[0], outputs[0]))
    if not all_float32(dY, dX):
        return Unsupported("it is compiled for float32")
    planes, rows, columns = _dimensions(dX, dY)
    return resampling(planes, rows.turned(), columns.turned(), (Slot("dY"), Slot("dX")), 0.0)
