"""DiagonalFill: elements of the diagonal, and the zeros between two of them."""

from __future__ import annotations

import numpy as np

from tazza.engines.native import native
from tazza.engines.native.move import Box, Lie, move_launch, row_major
from tazza.operator import Launch, OpView
from tazza.ops.fill.diagonal_fill import DIAGONAL_FILL
from tazza.tensor import TensorSpec


@native(DIAGONAL_FILL, accepts=lambda letter, spec: True)
def prepare_diagonal_fill(op: OpView, Y: TensorSpec) -> Launch:
    """Compile the fill: all of Y is a row, in which marked elements lie equally far apart."""
    value = np.array(0 if op.value is None else op.value).astype(Y.dtype.numpy).tobytes()
    apart = sum(row_major(Y.shape))
    whole, rest = divmod(Y.size, apart) if Y.size else (0, 0)
    boxes = [
        Box((whole + (rest > 0),), Lie(0, (apart,)), fill=value),
        Box((whole, apart - 1), Lie(1, (apart, 1))),
        Box((max(rest - 1, 0),), Lie(whole * apart + 1, (1,))),
    ]
    return move_launch(boxes, Y.dtype, sources=())
