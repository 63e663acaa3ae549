"""UpsampleBilinear and its gradient, by tables of the two neighbours of each row and column."""

from __future__ import annotations

import numpy as np

from tazza.codegen.block import Slot
from tazza.engines.native import native
from tazza.engines.native.resampling import Dimension, back, resampling
from tazza.operator import Launch
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


@native(UPSAMPLE_BILINEAR, batch_invariant=True, float32=True)
def prepare_upsample_bilinear(X: TensorSpec, Y: TensorSpec) -> Launch:
    """Compile the sums of neighbours."""
    return resampling(*_dimensions(X, Y), (Slot("X"), Slot("Y")), 0.0)


@native(UPSAMPLE_BILINEAR_GRADIENT, float32=True)
def prepare_upsample_bilinear_gradient(dY: TensorSpec, dX: TensorSpec) -> Launch:
    """Compile the sums, by the weights that a pixel has in others."""
    return back(*_dimensions(dX, dY))
