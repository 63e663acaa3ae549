"""Fully connected layers of bytes: Int8FC.

Letters: N rows, K inner size, M output features; X is cut behind its first axis. For s, z and sums see `int8_conv`.

    X (N, K...)    W (M, K...)    b (M)    Y (N, M)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tazza.operator import PER_CHANNEL, PER_TENSOR, Array, Cost, Effects, OpView, Role, blob, kernel, schema
from tazza.ops.quantized.int8_conv import check_scales
from tazza.ops.quantized.int8_quantization import PARAMS
from tazza.ops.quantized.scale import (
    INT32,
    NO_GRADIENT,
    SCALE_ARGS,
    UINT8,
    given_quantization,
    multipliers,
    requantize,
    shifted,
)
from tazza.tensor import DataType, TensorSpec

INT8_FC = schema(
    "Int8FC",
    "Y = X W^T + b from bytes to bytes, with X as a matrix (N, K) and W as a matrix (M, K).",
    inputs=[
        blob("X", UINT8, "N *K", quantization=PER_TENSOR),
        blob("W", UINT8, "M *L", quantization=PER_TENSOR | PER_CHANNEL, role=Role.PARAMETER, doc="(M, K)"),
        blob("b", INT32, "M", quantization=PER_TENSOR | PER_CHANNEL, role=Role.PARAMETER, doc="in units of s_X s_W"),
        blob(
            "Qparam",
            type_name=("Tensor", PARAMS),
            optional=True,
            role=Role.PARAMETER,
            doc="is not looked at: the arguments count, as on Caffe2's CPU",
        ),
    ],
    outputs=[blob("Y", UINT8, "N M", quantization=PER_TENSOR)],
    args=SCALE_ARGS,
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Jacob and others 2018, arXiv 1712.05877, section 2.2; Caffe2",
    example="""
    >>> x = run("Int8Quantize", [[1.0, -2.0]], Y_scale=0.5, Y_zero_point=10)
    >>> w = run("Int8Quantize", [[1.0, 1.0], [1.0, -1.0], [0.0, 1.0]], Y_scale=0.25, Y_zero_point=128)
    >>> b = run("Int8GivenIntTensorFill", shape=[3], values=[0, 8, 0], Y_scale=0.125)
    >>> run("Int8FC", x, w, b, Y_scale=0.5, Y_zero_point=10).data
    array([[ 8, 18,  6]], dtype=uint8)
    """,
)


def _row(spec: TensorSpec) -> int | None:
    extents = None if spec.dims is None else spec.dims[1:]
    return None if extents is None or None in extents else math.prod(int(one) for one in extents if one is not None)


@INT8_FC.infer
def int8_fc_infer(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec, Qparam: object) -> TensorSpec:
    del b, Qparam
    check_scales(op, W)
    K, L = _row(X), _row(W)
    op.require(None in (K, L) or K == L, f"a row of X has K = {K} elements, one of W {L}", "W must be (M, K)")
    N, M = (None if spec.dims is None else spec.dims[0] for spec in (X, W))
    return TensorSpec((N, M), DataType.UINT8, quantization=given_quantization(op))


@INT8_FC.cost
def int8_fc_cost(op: OpView, X: TensorSpec, W: TensorSpec, b: TensorSpec, Qparam: object, Y: TensorSpec) -> Cost:
    del op, Qparam
    parameters = W.nbytes + b.nbytes
    return Cost(2 * X.shape[0] * W.size + Y.size, X.nbytes + parameters, Y.nbytes, parameters)


INT8_FC.batched("X")


@kernel(INT8_FC)
def int8_fc(X: Array, W: Array, b: Array, Y: Array, quantization: Mapping[str, Any]) -> None:
    K = math.prod(W.shape[1:])
    x, w = (shifted(a, quantization[letter]).reshape(len(a), K) for letter, a in (("X", X), ("W", W)))
    scale = multipliers(quantization["X"], quantization["W"], quantization["Y"])
    Y[...] = requantize(x @ w.T + b, scale, quantization["Y"])
