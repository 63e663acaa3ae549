"""ResizeNearest, UpsampleBilinear and their gradients, by tables of what each row and column is made of."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from tazza.codegen.block import Slot
from tazza.codegen.image import accepts_images, image_layout, lies_as
from tazza.engines.native import native
from tazza.engines.native.resampling import Dimension, back, resampling
from tazza.operator import LaidOut, Launch, OpView, Unsupported
from tazza.ops.vision.resize import (
    RESIZE_NEAREST,
    RESIZE_NEAREST_GRADIENT,
    UPSAMPLE_BILINEAR,
    UPSAMPLE_BILINEAR_GRADIENT,
    between,
    nearest,
)
from tazza.tensor import ROW_MAJOR, Layout, TensorSpec

Dimensions: TypeAlias = tuple[int, Dimension, Dimension]
"""The planes of X, and what rows and columns of Y are made of."""


def _laid(op: OpView, X: TensorSpec, Y: TensorSpec, given: TensorSpec) -> tuple[Dimensions, Layout, Layout]:
    """Return what rows and columns are taken from, and how X and Y are to lie: as near as can be to the given one.

    Dense channels are counted with the columns.
    """
    if op.has_input("scales"):
        raise Unsupported("scales come as an input: which elements they name is known only when it runs")
    last = op.order.upper() == "NHWC"
    N, C, *extents = (X.shape[i] for i in ((0, 3, 1, 2) if last else (0, 1, 2, 3)))
    counts = Y.shape[1:3] if last else Y.shape[2:]
    rows, columns = (
        Dimension.of(nearest(count, extent, np.float32(scale)), extent)
        for count, extent, scale in zip(counts, extents, (op.height_scale, op.width_scale), strict=True)
    )
    if last or lies_as(given, image_layout(given, last)):
        columns = columns.with_inner(Dimension.of(np.arange(C), C))
        return (N, rows, columns), image_layout(X, last), image_layout(Y, last)
    return (N * C, rows, columns), ROW_MAJOR, ROW_MAJOR


@native(RESIZE_NEAREST, accepts=accepts_images, batch_invariant=True, float32=True)
def prepare_resize_nearest(op: OpView, X: TensorSpec, Y: TensorSpec) -> LaidOut:
    """Compile the copy."""
    dimensions, read, written = _laid(op, X, Y, X)
    return LaidOut(resampling(*dimensions, (Slot("X"), Slot("Y")), 0.0), {"X": read, "Y": written})


@native(RESIZE_NEAREST_GRADIENT, accepts=accepts_images, float32=True)
def prepare_resize_nearest_gradient(op: OpView, dY: TensorSpec, dX: TensorSpec) -> LaidOut:
    """Compile the sums."""
    dimensions, written, read = _laid(op, dX, dY, dY)
    return LaidOut(back(*dimensions), {"dY": read, "dX": written})


def _neighbours(X: TensorSpec, Y: TensorSpec) -> Dimensions:
    """Return the two neighbours of each row and column, with their weights."""
    found: list[Dimension] = []
    for count, extent in zip(Y.shape[2:], X.shape[2:], strict=True):
        places, weights = zip(*between(count, extent), strict=True)
        found.append(Dimension(np.stack(places, 1), extent, np.stack(weights, 1)))
    rows, columns = found
    return X.shape[0] * X.shape[1], rows, columns


@native(UPSAMPLE_BILINEAR, batch_invariant=True, float32=True)
def prepare_upsample_bilinear(X: TensorSpec, Y: TensorSpec) -> Launch:
    """Compile the sums of neighbours."""
    return resampling(*_neighbours(X, Y), (Slot("X"), Slot("Y")), 0.0)


@native(UPSAMPLE_BILINEAR_GRADIENT, float32=True)
def prepare_upsample_bilinear_gradient(dY: TensorSpec, dX: TensorSpec) -> Launch:
    """Compile the sums, by the weights that a pixel has in others."""
    return back(*_neighbours(dX, dY))
