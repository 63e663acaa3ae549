"""PadImage and its gradient, by tables of what each row and column shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows, all_float32
from tazza.device import Context
from tazza.engines.native.resampling import NONE, Dimension, resampling
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
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


@launcher(PAD_IMAGE, engine="native", accepts=accepts_rows, batch_invariant=True)
def prepare_pad_image(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the copy."""
    del context
    if not all_float32(*inputs, *outputs):
        return Unsupported("it is compiled for float32")
    planes, rows, columns = _dimensions(op, cast("TensorSpec", inputs[0]))
    return resampling(planes, rows, columns, (Slot("X"), Slot("Y")), op.value)


@launcher(PAD_IMAGE_GRADIENT, engine="native", accepts=accepts_rows)
def prepare_pad_image_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> BlockLaunch | Unsupported:
    """Compile the sums."""
    del context
    if not all_float32(*inputs, *outputs):
        return Unsupported("it is compiled for float32")
    planes, rows, columns = _dimensions(op, cast("TensorSpec", outputs[0]))
    return resampling(planes, rows.turned(), columns.turned(), (Slot("dY"), Slot("dX")), 0.0)
