"""The same elements in another shape: the bytes of X, which is row-major."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from tazza.codegen.block import Slot, accepts_rows
from tazza.device import Context
from tazza.engines.native.shape.copy import copy_launch
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.shape.reshape import EXPAND_DIMS, FLATTEN, FLATTEN_TO_VEC, RESHAPE, RESIZE_LIKE, SQUEEZE
from tazza.tensor import TensorSpec


@launcher(RESHAPE, engine="native", accepts=accepts_rows)
def prepare_reshape(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Copy X, and write its shape."""
    del op, context
    X, old_shape = cast("TensorSpec", inputs[0]), cast("TensorSpec", outputs[1])
    sizes = np.array(X.shape, old_shape.dtype.numpy)
    return copy_launch(X, also=(Slot("old_shape"), sizes.tobytes()))


@launcher(FLATTEN, engine="native", accepts=accepts_rows)
@launcher(FLATTEN_TO_VEC, engine="native", accepts=accepts_rows)
@launcher(SQUEEZE, engine="native", accepts=accepts_rows)
@launcher(EXPAND_DIMS, engine="native", accepts=accepts_rows)
@launcher(RESIZE_LIKE, engine="native", accepts=lambda letter, spec: letter == "like" or accepts_rows(letter, spec))
def prepare_regroup(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Copy X."""
    del op, context, outputs
    return copy_launch(cast("TensorSpec", inputs[0]))
