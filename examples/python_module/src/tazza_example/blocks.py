"""An engine: SquaredRelu by NumPy, piece by piece: what the first pass writes is in the cache for the second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tazza.device import Context
from tazza.operator import Array, Call, Launch, Operands, OpView, Spec, Unsupported, contiguous, engine, launcher
from tazza_example.squared_relu import SQUARED_RELU

BLOCKS = engine("blocks", "NumPy on pieces that stay in the cache", priority=1)

PIECE = 16_384
"""Elements of a piece: 64 KiB of float32, far below what a core has as second cache."""


@dataclass(frozen=True, slots=True)
class SquaredReluLaunch:
    """All of a call but its addresses."""

    scratch_bytes: int = 0
    capturable: bool = False

    def bind(self, operands: Operands) -> Call:
        """Return the call on these arrays; nothing is copied, and views are made once."""
        X, Y = operands["X"].array.reshape(-1), operands["Y"].array.reshape(-1)
        pieces = [(X[start : start + PIECE], Y[start : start + PIECE]) for start in range(0, X.size, PIECE)]

        def call() -> None:
            for x, y in pieces:
                _square_positive(x, y)

        return call


def _square_positive(x: Array, y: Array) -> None:
    np.maximum(x, 0, out=y)
    np.square(y, out=y)


@launcher(SQUARED_RELU, engine="blocks")
def squared_relu_prepare(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Take what lies in one piece: views of the rest would be copies."""
    del op, context
    if all(contiguous(spec) for spec in (*inputs, *outputs)):
        return SquaredReluLaunch()
    return Unsupported("X and Y must be row-major")
