"""PadImage and its gradient, by tables of what each row and column shows."""

from __future__ import annotations

import numpy as np

from tazza.codegen.block import Slot
from tazza.engines.native import native
from tazza.engines.native.resampling import NONE, Dimension, back, resampling
from tazza.operator import Launch, OpView
from tazza.ops.vision.pad_image import PAD_IMAGE, PAD_IMAGE_GRADIENT, pads_of, sources
from tazza.tensor import TensorSpec


def _dimensions(op: OpView, spec: TensorSpec) -> tuple[int, Dimension, Dimension]:
    """Return the planes of images X, and what rows and columns of Y show of them; NHWC counts columns by channels."""
    last = op.order.upper() == "NHWC"
    N, C, H, W = (spec.shape[i] for i in ((0, 3, 1, 2) if last else (0, 1, 2, 3)))
    found: list[Dimension] = []
    for extent, pads in zip((H, W), pads_of(op), strict=True):
        places, shown = sources(op.mode, extent, pads)
        found.append(Dimension.of(np.where(shown, places, NONE), extent))
    rows, columns = found
    if last:
        return N, rows, columns.with_inner(Dimension.of(np.arange(C), C))
    return N * C, rows, columns


@native(PAD_IMAGE, batch_invariant=True, float32=True)
def prepare_pad_image(op: OpView, X: TensorSpec) -> Launch:
    """Compile the copy."""
    return resampling(*_dimensions(op, X), (Slot("X"), Slot("Y")), op.value)


@native(PAD_IMAGE_GRADIENT, float32=True)
def prepare_pad_image_gradient(op: OpView, dX: TensorSpec) -> Launch:
    """Compile the sums."""
    return back(*_dimensions(op, dX))
