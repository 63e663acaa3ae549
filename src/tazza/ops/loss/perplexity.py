"""How much a model is surprised by what came: Perplexity. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpView, blob, forbidden, kernel, schema, streamed
from tazza.tensor import TensorSpec

PERPLEXITY = schema(
    "Perplexity",
    """Y = the product of P[n]^(-1/N): 1 over the geometric mean of N probabilities, 1 without any.

    P has the rank 1, or rows of one element; of longer rows the first N elements of P alone are read, as in Caffe2.""",
    inputs=[blob("P", FLOAT, doc="(N), probabilities of what came")],
    outputs=[blob("Y", "P", "")],
    effects=Effects.PURE,
    no_gradient=forbidden("it measures a model; losses are those that train one"),
    source="Jelinek et al. 1977; Caffe2",
    example="""
    >>> run("Perplexity", [0.25, 0.25])
    array(4., dtype=float32)
    """,
)


@PERPLEXITY.infer
def perplexity_infer(op: OpView, P: TensorSpec) -> TensorSpec:
    if P.dims is not None:
        op.require(len(P.dims) > 0, "P has rank 0, it must have rows")
        op.require(P.dims[0] == 0 or 0 not in P.dims, f"P has {P.dims[0]} rows of no elements")
    return TensorSpec((), P.dtype)


@PERPLEXITY.cost
def perplexity_cost(op: OpView, P: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((P,), (Y,), flops=12 * P.shape[0])


@kernel(PERPLEXITY)
def perplexity(P: Array, Y: Array) -> None:
    N = len(P)
    with np.errstate(divide="ignore", invalid="ignore"):
        Y[...] = np.power(P.reshape(-1)[:N], -1 / max(N, 1)).prod()
