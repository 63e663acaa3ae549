"""The same elements in another shape: the bytes of X, which is row-major."""

from __future__ import annotations

import numpy as np

from tazza.codegen.block import Slot, accepts_rows
from tazza.engines.native import native
from tazza.engines.native.shape.copy import copy_launch
from tazza.operator import Launch
from tazza.ops.shape.reshape import EXPAND_DIMS, FLATTEN, FLATTEN_TO_VEC, RESHAPE, RESIZE_LIKE, SQUEEZE
from tazza.tensor import TensorSpec


@native(RESHAPE)
def prepare_reshape(X: TensorSpec, old_shape: TensorSpec) -> Launch:
    """Copy X, and write its shape."""
    sizes = np.array(X.shape, old_shape.dtype.numpy)
    return copy_launch(X, also=(Slot("old_shape"), sizes.tobytes()))


@native(FLATTEN, FLATTEN_TO_VEC, SQUEEZE, EXPAND_DIMS)
@native(RESIZE_LIKE, accepts=lambda letter, spec: letter == "like" or accepts_rows(letter, spec))
def prepare_regroup(X: TensorSpec) -> Launch:
    """Copy X."""
    return copy_launch(X)
