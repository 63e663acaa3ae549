"""Positions as waves: SinusoidPositionEncoding. Source: Vaswani and others 2017, arXiv 1706.03762, section 3.5."""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    INDEX,
    Array,
    Cost,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    kernel,
    not_written,
    schema,
    streamed,
)
from tazza.tensor import DataType, TensorSpec

SINUSOID_POSITION_ENCODING = schema(
    "SinusoidPositionEncoding",
    """Y[n, k, i] = amplitude * sin(x) for even i, cos(x) for odd ones, with x = X[n, 0] / alpha^(i / M).

    All K positions of a row are taken for the first one, as in Caffe2.""",
    inputs=[blob("X", INDEX, "N K", role=Role.INDEX, doc="positions, equal in each row")],
    outputs=[blob("Y", FLOAT, doc="(N, K, M)")],
    args=[
        arg("embedding_size", int, 100, minimum=0, doc="M"),
        arg("alpha", float, 10000.0, doc="ratio of the longest wave to the shortest"),
        arg("amplitude", float, 1.0, doc="the largest value"),
    ],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none"),
    source="Vaswani and others 2017, section 3.5",
    example="""
    >>> run("SinusoidPositionEncoding", [[0], [1]], embedding_size=2, alpha=1.0).round(3)
    array([[[0.   , 1.   ]],
    <BLANKLINE>
           [[0.841, 0.54 ]]], dtype=float32)
    """,
)


@SINUSOID_POSITION_ENCODING.infer
def sinusoid_position_encoding_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    return TensorSpec(None if X.dims is None else (*X.dims, op.embedding_size), DataType.FLOAT)


@SINUSOID_POSITION_ENCODING.cost
def sinusoid_position_encoding_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,), flops=20 * Y.size)


@kernel(SINUSOID_POSITION_ENCODING)
def sinusoid_position_encoding(op: OpView, X: Array, Y: Array) -> None:
    M: int = op.embedding_size
    if Y.size:
        x = X[:, :1].astype(np.float64) / np.float64(op.alpha) ** (np.arange(M) / M)
        Y[...] = (op.amplitude * np.where(np.arange(M) % 2 == 0, np.sin(x), np.cos(x)))[:, None]
