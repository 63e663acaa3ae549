"""ChannelShuffle and its gradient: copies with the channels, as a matrix, transposed."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tazza.engines.cuda.shape.stride import strided_copy
from tazza.engines.cuda.translated import translated
from tazza.operator import Launch, OpSchema, OpView
from tazza.ops.nn.channel_shuffle import CHANNEL_SHUFFLE, CHANNEL_SHUFFLE_GRADIENT
from tazza.tensor import TensorSpec


def _register(schema: OpSchema, places: tuple[str, str], *, back: bool) -> None:
    @translated(schema)
    def shuffle(op: OpView, specs: Mapping[str, TensorSpec]) -> Launch:
        X = specs[places[0]]
        last = op.order.upper() == "NHWC"
        C = X.shape[-1 if last else 1]
        behind = 1 if last else math.prod(X.shape[2:])
        rows = C // max(1, op.group) if back else op.group
        columns = C // max(1, rows)
        images = X.size // max(1, C * behind)
        axes = [(images, C * behind), (columns, behind), (rows, columns * behind), (behind, 1)]
        return strided_copy(X.dtype.itemsize, axes, places)


_register(CHANNEL_SHUFFLE, ("X", "Y"), back=False)
_register(CHANNEL_SHUFFLE_GRADIENT, ("dY", "dX"), back=True)
