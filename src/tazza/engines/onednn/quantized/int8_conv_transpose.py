"""Int8ConvTranspose: a transposed convolution of bytes."""

from __future__ import annotations

from tazza.engines.onednn.nn.conv_transpose import Geometry
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.quantized.layer import accepts_constants, conv_layer
from tazza.operator import OpView
from tazza.ops.quantized.int8_conv_transpose import INT8_CONV_TRANSPOSE
from tazza.tensor import TensorSpec


@onednn(INT8_CONV_TRANSPOSE, accepts=accepts_constants)
def int8_conv_transpose(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X, W and the first M of b."""
    shape = Geometry.of(op, specs["X"], specs["W"])
    shape.check()
    return conv_layer(shape, specs, wrong=_gaps(shape))


def _gaps(shape: Geometry) -> bool:
    """Whether no window reaches some places, between kernels or behind the last: oneDNN 3.2 is wrong there in bytes."""
    window = shape.window
    reached = all(stride <= kernel for stride, kernel in zip(window.stride, window.kernel, strict=True))
    return not reached or min(shape.tail) < 0
