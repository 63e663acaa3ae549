"""Tile, NumpyTile, Expand: moves of X, which is read again for each repetition. How often follows from the shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tazza.device import Context
from tazza.engines.native.move import Box, Lie, move_launch, row_major, steps_in
from tazza.operator import LaidOut, OpView, Spec, Unsupported, launcher
from tazza.ops.shape.repeat import EXPAND, NUMPY_TILE, TILE
from tazza.tensor import ROW_MAJOR, TensorSpec


@launcher(EXPAND, engine="native")
@launcher(NUMPY_TILE, engine="native")
@launcher(TILE, engine="native")
def prepare_repeat(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> LaidOut | Unsupported:
    """Compile the move: each axis of Y is the repetitions of one of X, and that axis."""
    del op, context
    X, Y = cast("TensorSpec", inputs[0]), cast("TensorSpec", outputs[0])
    if not Y.size:
        boxes: list[Box] = []  # so X may be empty too
    else:
        front = (1,) * (len(Y.shape) - len(X.shape))
        axes = zip(Y.shape, (*front, *X.shape), row_major(Y.shape), (*front, *steps_in(X)), strict=True)
        parts = [((y // x, x), (x * to, to), (0, of)) for y, x, to, of in axes]
        extents, into, out_of = (tuple(one for part in parts for one in part[k]) for k in range(3))
        boxes = [Box(extents, Lie(0, into), Lie(0, out_of))]
    launch = move_launch(boxes, X.dtype)
    return launch if isinstance(launch, Unsupported) else LaidOut(launch, {"X": X.layout, "Y": ROW_MAJOR})
