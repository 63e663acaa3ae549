"""DiagonalFill: elements of the diagonal, and the zeros between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from tazza.codegen.block import BlockLaunch
from tazza.device import Context
from tazza.engines.native.move import Box, Lie, move_launch, row_major
from tazza.operator import OpView, Spec, Unsupported, launcher
from tazza.ops.fill.diagonal_fill import DIAGONAL_FILL
from tazza.tensor import TensorSpec


@launcher(DIAGONAL_FILL, engine="native", accepts=lambda letter, spec: True)
def prepare_diagonal_fill(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> BlockLaunch | Unsupported:
    """Compile the fill: all of Y is a row, in which marked elements lie equally far apart."""
    del context, inputs
    Y = cast("TensorSpec", outputs[0])
    value = np.array(0 if op.value is None else op.value).astype(Y.dtype.numpy).tobytes()
    apart = sum(row_major(Y.shape))
    whole, rest = divmod(Y.size, apart) if Y.size else (0, 0)
    boxes = [
        Box((whole + (rest > 0),), Lie(0, (apart,)), fill=value),
        Box((whole, apart - 1), Lie(1, (apart, 1))),
        Box((max(rest - 1, 0),), Lie(whole * apart + 1, (1,))),
    ]
    return move_launch(boxes, Y.dtype, sources=())
