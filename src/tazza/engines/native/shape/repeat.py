"""Tile, NumpyTile, Expand: moves of X, which is read again for each repetition. How often follows from the shapes."""

from __future__ import annotations

from tazza.engines.native import native
from tazza.engines.native.move import Box, Lie, moved, row_major, steps_in
from tazza.operator import LaidOut
from tazza.operator.kernel import accepts_strided
from tazza.ops.shape.repeat import EXPAND, NUMPY_TILE, TILE
from tazza.tensor import TensorSpec


@native(EXPAND, NUMPY_TILE, TILE, accepts=accepts_strided)
def prepare_repeat(X: TensorSpec, shape: TensorSpec, Y: TensorSpec) -> LaidOut:
    """Compile the move: each axis of Y is the repetitions of one of X, and that axis."""
    if not Y.size:
        boxes: list[Box] = []  # so X may be empty too
    else:
        front = (1,) * (len(Y.shape) - len(X.shape))
        axes = zip(Y.shape, (*front, *X.shape), row_major(Y.shape), (*front, *steps_in(X)), strict=True)
        parts = [((y // x, x), (x * to, to), (0, of)) for y, x, to, of in axes]
        extents, into, out_of = (tuple(one for part in parts for one in part[k]) for k in range(3))
        boxes = [Box(extents, Lie(0, into), Lie(0, out_of))]
    return moved(boxes, X)
