"""ConstantFill: one box that is filled."""

from __future__ import annotations

import numpy as np

from tazza.engines.native import native
from tazza.engines.native.move import Box, Lie, move_launch
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.fill.fill import CONSTANT_FILL
from tazza.tensor import TensorSpec


@native(CONSTANT_FILL, accepts=lambda letter, spec: True)
def prepare_constant_fill(op: OpView, Y: TensorSpec) -> Launch:
    """Compile the fill: all of Y is one run."""
    if op.has_input("V"):
        raise Unsupported("a value that is an input is not compiled")
    value = np.array(0 if op.value is None else op.value).astype(Y.dtype.numpy).tobytes()
    return move_launch([Box((Y.size,), Lie(0, (1,)), fill=value)], Y.dtype, sources=())
