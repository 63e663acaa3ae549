"""Int8ConvTranspose: a transposed convolution u8 x s8 -> s32 -> u8, all in one primitive; channels stand last."""

from __future__ import annotations

import math

from tazza.engines.onednn.descriptor import Descriptor
from tazza.engines.onednn.launch import PrimitiveLaunch
from tazza.engines.onednn.library import Unimplemented
from tazza.engines.onednn.nn.conv_transpose import Geometry
from tazza.engines.onednn.prepare import Answer, onednn
from tazza.engines.onednn.primitive import describe
from tazza.engines.onednn.quantized.by_numbers import conv_transpose_by_numbers
from tazza.engines.onednn.quantized.int8_conv import accepts_constants
from tazza.engines.onednn.quantized.scaled import Sums, signed_layout
from tazza.operator import LaidOut, OpView
from tazza.ops.quantized.int8_conv_transpose import INT8_CONV_TRANSPOSE
from tazza.tensor import ROW_MAJOR, DataType, TensorSpec


@onednn(INT8_CONV_TRANSPOSE, accepts=accepts_constants)
def int8_conv_transpose(op: OpView, specs: dict[str, TensorSpec]) -> Answer:
    """Y from X, W and the first M of b."""
    X, W, Y = (TensorSpec(specs[letter].shape, specs[letter].dtype) for letter in "XWY")
    shape, sums = Geometry.of(op, X, W), Sums.of(specs)
    if shape.obstacle is not None:
        return shape.obstacle
    axes = (W.rank - 1, 0, *range(1, W.rank - 1))  # (C, k..., M) as (M, C, k...)
    if _gaps(shape) or sums.obstacle(specs["b"]) is not None:
        return conv_transpose_by_numbers(shape, specs, axes)
    scaling = sums.scaling((), 1)
    bias, bias_layout = sums.bias(specs["b"], (Y.shape[-1],))
    images = (Descriptor.channels_last(shape.order.see(one).dims, DataType.UINT8) for one in (X, Y))
    source, target = images
    found = describe(
        "deconvolution_forward",
        "forward_inference",
        "deconvolution_direct",
        *(source, Descriptor.any(shape.filter_dims(W), DataType.INT8), bias, target),
        *shape.numbers,
        attributes=scaling.attributes,
        flops=2 * X.size * math.prod(W.shape[1:]),
    )
    if found.is_slow or "+ref" in found.implementation:
        raise Unimplemented(f"oneDNN has only its reference code ({found.implementation})")
    layouts = {"X": ROW_MAJOR, "W": signed_layout(found.argument("weights"), axes), "b": bias_layout, "Y": ROW_MAJOR}
    arguments = {"src": "X", "weights": "W", "bias": "b", "dst": "Y", **scaling.arguments}
    return LaidOut(PrimitiveLaunch(found, arguments), layouts)


def _gaps(shape: Geometry) -> bool:
    """Whether no window reaches some places, between kernels or behind the last: oneDNN 3.2 is wrong there in bytes."""
    window = shape.window
    reached = all(stride <= kernel for stride, kernel in zip(window.stride, window.kernel, strict=True))
    return not reached or min(shape.tail) < 0
