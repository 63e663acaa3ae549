"""Images with mean 0 and deviation 1, channel by channel: NormalizePlanarYUV. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    OpView,
    Role,
    blob,
    kernel,
    not_written,
    schema,
    streamed,
)
from tazza.tensor import TensorSpec

NORMALIZE_PLANAR_YUV = schema(
    "NormalizePlanarYUV",
    "Y = (X - mean[0]) / deviation[0], for each channel.",
    inputs=[
        blob("X", FLOAT, "N C H W"),
        blob("mean", FLOAT, "M C", role=Role.PARAMETER, doc="of each channel; of several rows the first"),
        blob("deviation", FLOAT, "K C", role=Role.PARAMETER, doc="of each channel; of several rows the first"),
    ],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=not_written("images come from outside of a net"),
    source="Caffe2",
    example="""
    >>> run("NormalizePlanarYUV", [[[[3.0, 5.0]], [[4.0, 8.0]]]], [[1.0, 2.0]], [[2.0, 4.0]])
    array([[[[1. , 2. ]],
    <BLANKLINE>
            [[0.5, 1.5]]]], dtype=float32)
    """,
)
NORMALIZE_PLANAR_YUV.batched("X")


@NORMALIZE_PLANAR_YUV.infer
def normalize_planar_yuv_infer(op: OpView, X: TensorSpec, mean: TensorSpec, deviation: TensorSpec) -> TensorSpec:
    for letter, spec in (("mean", mean), ("deviation", deviation)):
        op.require(spec.dims is None or spec.dims[0] != 0, f"{letter} has no row")
    return TensorSpec(X.dims, X.dtype)


@NORMALIZE_PLANAR_YUV.cost
def normalize_planar_yuv_cost(op: OpView, X: TensorSpec, Y: TensorSpec, **others: TensorSpec) -> Cost:
    del op, others
    return streamed((X,), (Y,), flops=2 * Y.size)


@kernel(NORMALIZE_PLANAR_YUV)
def normalize_planar_yuv(X: Array, mean: Array, deviation: Array, Y: Array) -> None:
    np.divide(X - mean[0, :, None, None], deviation[0, :, None, None], out=Y)
