"""Int8Flatten and Int8Reshape: the bytes of X, which is row-major, copied; where they mean something else looked up."""

from __future__ import annotations

import numpy as np

from tazza.codegen.block import Slot
from tazza.engines.native import native
from tazza.engines.native.quantized.byte_table import table_launch
from tazza.engines.native.quantized.int8_relu import meanings_of
from tazza.engines.native.shape.copy import copy_launch
from tazza.operator import Array, Launch, Unsupported
from tazza.ops.quantized.int8_shape import INT8_RESHAPE, int8_arrangements
from tazza.ops.quantized.scale import converted
from tazza.tensor import DataType, TensorSpec


@native(int8_arrangements["Int8Flatten"])
def prepare_int8_flatten(X: TensorSpec, Y: TensorSpec) -> Launch:
    """Copy X, or look its bytes up."""
    if X.quantization == Y.quantization:
        return copy_launch(X)
    if X.dtype is not DataType.UINT8:
        raise Unsupported(f"{X.dtype.label} of another scale is rounded anew, which is not compiled")
    meanings = meanings_of(X, Y)

    def define(x: Array, y: Array) -> None:
        y[...] = converted(x, meanings["X"], meanings["Y"])

    return table_launch(define, X.size)


@native(INT8_RESHAPE)
def prepare_int8_reshape(X: TensorSpec, Y: TensorSpec, old_shape: TensorSpec) -> Launch:
    """Copy X, and write its shape."""
    if X.quantization != Y.quantization:
        raise Unsupported("another scale or zero point: numbers are rounded anew, which is not compiled")
    sizes = np.array(X.shape, old_shape.dtype.numpy)
    return copy_launch(X, also=(Slot("old_shape"), sizes.tobytes()))
