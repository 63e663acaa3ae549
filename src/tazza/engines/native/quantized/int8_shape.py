"""Int8Flatten and Int8Reshape: the bytes of X, which is row-major, copied; where they mean something else looked up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from tazza.codegen.block import Slot, accepts_rows
from tazza.device import Context
from tazza.engines.native.quantized.byte_table import table_launch
from tazza.engines.native.quantized.int8_relu import meanings_of
from tazza.engines.native.shape.copy import copy_launch
from tazza.operator import Array, Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.quantized.int8_shape import INT8_RESHAPE, int8_arrangements
from tazza.ops.quantized.scale import converted
from tazza.tensor import DataType, TensorSpec


@launcher(int8_arrangements["Int8Flatten"], engine="native", accepts=accepts_rows)
def prepare_int8_flatten(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Copy X, or look its bytes up."""
    del op, context
    X, Y = cast("TensorSpec", inputs[0]), cast("TensorSpec", outputs[0])
    if X.quantization == Y.quantization:
        return copy_launch(X)
    if X.dtype is not DataType.UINT8:
        return Unsupported(f"{X.dtype.label} of another scale is rounded anew, which is not compiled")
    meanings = meanings_of(X, Y)

    def define(x: Array, y: Array) -> None:
        y[...] = converted(x, meanings["X"], meanings["Y"])

    return table_launch(define, X.size)


@launcher(INT8_RESHAPE, engine="native", accepts=accepts_rows)
def prepare_int8_reshape(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Copy X, and write its shape."""
    del op, context
    X, Y, old_shape = (cast("TensorSpec", one) for one in (inputs[0], *outputs))
    if X.quantization != Y.quantization:
        return Unsupported("another scale or zero point: numbers are rounded anew, which is not compiled")
    sizes = np.array(X.shape, old_shape.dtype.numpy)
    return copy_launch(X, also=(Slot("old_shape"), sizes.tobytes()))
