"""Regions of images of bytes: Int8RoIAlign.

Letters as in `ops.vision.roi_align`, always in the order NHWC, and s, z for the scale and zero point of a blob:

    X (N, H, W, C)    rois (R, 5)    Y (R, pooled_h, pooled_w, C)

Places outside of X are the byte 0, whatever stands for 0, as in Caffe2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.operator import FLOAT, PER_TENSOR, Array, Cost, Effects, OpView, Role, blob, kernel, schema
from tazza.ops.quantized.int8_conv import NHWC
from tazza.ops.quantized.scale import NO_GRADIENT, SCALE_ARGS, UINT8, given_quantization, requantize
from tazza.ops.vision.region import pooled_dims
from tazza.ops.vision.roi_align import ARGS, REGIONS, looks, places_of_a_bin
from tazza.tensor import DataType, PerTensor, TensorSpec

UPRIGHT = REGIONS["RoIAlign"]

INT8_ROI_ALIGN = schema(
    "Int8RoIAlign",
    """Y[r] = region r of X, in pooled_h x pooled_w bins: the mean of each, from bytes to bytes.

    Between elements X is interpolated; outside of it there is the byte 0.""",
    inputs=[
        blob("X", UINT8, quantization=PER_TENSOR, doc="(N, H, W, C)"),
        blob("rois", FLOAT, "R D", role=Role.DATA, doc=UPRIGHT.doc),
    ],
    outputs=[blob("Y", UINT8, quantization=PER_TENSOR, doc="(R, pooled_h, pooled_w, C)")],
    args=(*(NHWC if one.name == "order" else one for one in ARGS), *SCALE_ARGS),
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="He, Gkioxari, Dollar, Girshick 2017, arXiv 1703.06870; Caffe2",
    example="""
    >>> x = run("Int8Quantize", [[[[1.0], [2.0], [3.0]], [[4.0], [5.0], [6.0]]]], Y_scale=0.5)
    >>> run("Int8RoIAlign", x, [[0.0, 0.0, 0.0, 2.0, 1.0]], pooled_w=2, Y_scale=0.5, Y_zero_point=10).data
    array([[[[16],
             [18]]]], dtype=uint8)
    """,
)


@INT8_ROI_ALIGN.infer
def int8_roi_align_infer(op: OpView, X: TensorSpec, rois: TensorSpec) -> TensorSpec:
    dims = pooled_dims(op, X, rois, (UPRIGHT.columns - 1, UPRIGHT.columns))
    return TensorSpec(dims, DataType.UINT8, quantization=given_quantization(op))


@INT8_ROI_ALIGN.cost
def int8_roi_align_cost(op: OpView, X: TensorSpec, rois: TensorSpec, Y: TensorSpec) -> Cost:
    del X
    places = places_of_a_bin(op)
    return Cost(8 * places * Y.size, 4 * places * Y.size + rois.nbytes, Y.nbytes)


@kernel(INT8_ROI_ALIGN)
def int8_roi_align(op: OpView, X: Array, rois: Array, Y: Array, quantization: Mapping[str, PerTensor]) -> None:
    before, after = quantization["X"], quantization["Y"]
    means = np.empty(Y.shape, np.float32)
    images = X.transpose(0, 3, 1, 2)
    for r, look in enumerate(looks(op, UPRIGHT, images, rois)):
        means[r] = look.means(images).transpose(1, 2, 0)
    Y[...] = requantize(
        means - np.float32(before.zero_point), np.float32(before.scale) / np.float32(after.scale), after
    )
