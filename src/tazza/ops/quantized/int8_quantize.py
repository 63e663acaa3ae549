"""Into 8 bits and back: Int8Quantize, Int8Dequantize. All blobs have one shape S."""

from __future__ import annotations

from collections.abc import Mapping

from tazza.operator import FLOAT, PER_CHANNEL, PER_TENSOR, Array, Effects, OpView, Role, arg, blob, kernel, schema
from tazza.ops.quantized.int8_quantization import PARAMS
from tazza.ops.quantized.scale import NO_GRADIENT, SCALE_ARGS, UINT8, given_quantization
from tazza.tensor import DataType, Quantization, TensorSpec

INT8_QUANTIZE = schema(
    "Int8Quantize",
    "Y = round(X / Y_scale) + Y_zero_point, ties to even integers, within 0 ... 255.",
    inputs=[
        blob("X", FLOAT, "*S"),
        blob(
            "Qparam",
            type_name=("Tensor", PARAMS),
            optional=True,
            role=Role.PARAMETER,
            doc="is not looked at: the arguments count, as on Caffe2's CPU",
        ),
    ],
    outputs=[blob("Y", UINT8, "*S", quantization=PER_TENSOR)],
    args=SCALE_ARGS,
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Jacob and others 2018, arXiv 1712.05877, section 2.1; Caffe2",
    example="""
    >>> run("Int8Quantize", [-1.0, 0.0, 0.26, 9.0], Y_scale=0.1, Y_zero_point=100).data
    array([ 90, 100, 103, 190], dtype=uint8)
    """,
)


@INT8_QUANTIZE.infer
def int8_quantize_infer(op: OpView, X: TensorSpec, Qparam: object) -> TensorSpec:
    del Qparam
    return TensorSpec(X.dims, DataType.UINT8, quantization=given_quantization(op))


INT8_QUANTIZE.batched("X")


@kernel(INT8_QUANTIZE)
def int8_quantize(X: Array, Y: Array, quantization: Mapping[str, Quantization]) -> None:
    Y[...] = quantization["Y"].integers(X)


INT8_DEQUANTIZE = schema(
    "Int8Dequantize",
    "Y = scale * (X - zero point), with the scale and the zero point of X.",
    inputs=[blob("X", UINT8, "*S", quantization=PER_TENSOR | PER_CHANNEL)],
    outputs=[blob("Y", FLOAT, "*S")],
    args=[arg("output_type", str, "float", choices=("float",), doc="float is what there is")],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Jacob and others 2018, arXiv 1712.05877, section 2.1; Caffe2",
    example="""
    >>> run("Int8Dequantize", run("Int8Quantize", [-1.0, 0.26], Y_scale=0.1, Y_zero_point=100))
    array([-1. ,  0.3], dtype=float32)
    """,
)
# Not batched: scales may vary along the images.


@kernel(INT8_DEQUANTIZE)
def int8_dequantize(X: Array, Y: Array, quantization: Mapping[str, Quantization]) -> None:
    Y[...] = quantization["X"].real(X)
