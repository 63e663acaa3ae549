"""ResizeNearest3D and its gradient, by tables of what each row, of all frames, and each column is taken from."""

from __future__ import annotations

from tazza.codegen.block import Slot
from tazza.engines.native import native
from tazza.engines.native.resampling import Dimension, back, resampling
from tazza.operator import Launch, OpView
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


@native(RESIZE_NEAREST_3D, batch_invariant=True, float32=True)
def prepare_resize_volume(op: OpView, X: TensorSpec, Y: TensorSpec) -> Launch:
    """Compile the copy."""
    return resampling(*_dimensions(op, X, Y), (Slot("X"), Slot("Y")), 0.0)


@native(RESIZE_NEAREST_3D_GRADIENT, float32=True)
def prepare_resize_volume_gradient(op: OpView, dY: TensorSpec, dX: TensorSpec) -> Launch:
    """Compile the sums."""
    return back(*_dimensions(op, dX, dY))
