"""ResizeNearest3D and its gradient, by tables of what each row, of all frames, and each column is taken from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.codegen.block import Slot, accepts_rows, all_float32
from tazza.device import Context
from tazza.engines.native.resampling import Dimension, resampling
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.vision.resize import nearest
from tazza.ops.vision.resize_volume import RESIZE_NEAREST_3D, RESIZE_NEAREST_3D_GRADIENT, scales_of
from tazza.tensor import TensorSpec


def _dimensions(op: OpView, X: TensorSpec, Y: TensorSpec) -> tuple[int, Dimension, Dimension]:
    """Return the planes of X, and what the rows of all frames, and the columns, of Y are taken from."""
    frames, rows, columns = (
        Dimension.of(nearest(count, extent, scale), extent)
        for count, extent, scale in zip(Y.shape[2:], X.shape[2:], scales_of(op), strict=True)
    )
    return X.shape[0] * X.shape[1], frames.with_inner(rows), columns


@launcher(RESIZE_NEAREST_3D, engine="native", accepts=accepts_rows, batch_invariant=True)
def prepare_resize_volume(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the copy."""
    del context
    if not all_float32(*inputs, *outputs):
        return Unsupported("it is compiled for float32")
    X, Y = cast("tuple[TensorSpec, TensorSpec]", (*inputs, *outputs))
    return resampling(*_dimensions(op, X, Y), (Slot("X"), Slot("Y")), 0.0)


@launcher(RESIZE_NEAREST_3D_GRADIENT, engine="native", accepts=accepts_rows)
def prepare_resize_volume_gradient(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile the sums."""
    del context
    if not all_float32(inputs[0], *outputs):
        return Unsupported("it is compiled for float32")
    dY, dX = cast("tuple[TensorSpec, TensorSpec]", (inputs[0], *outputs))
    planes, rows, columns = _dimensions(op, dX, dY)
    return resampling(planes, rows.turned(), columns.turned(), (Slot("dY"), Slot("dX")), 0.0)
