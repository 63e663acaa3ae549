"""The k largest elements of each segment: LengthsTopK. N segments of elements, one behind the other. Source: Caffe2."""

from __future__ import annotations

import math

import numpy as np

from tazza.errors import NumericError
from tazza.operator import (
    FLOAT,
    REQUIRED,
    Array,
    Cost,
    DynamicOutput,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    schema,
    show_dims,
)
from tazza.ops.shape.axis import shapes_agree
from tazza.ops.sparse.segment import places_within, row_count, starts_of
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

LENGTHS = blob("lengths", DataType.INT32, role=Role.INDEX, doc="elements of each segment; N in the first extent")
ARGS = (arg("k", int, REQUIRED, minimum=1, doc="how many of each segment"),)

LENGTHS_TOP_K = schema(
    "LengthsTopK",
    """V[n] = the k largest elements of segment n, equal ones in turn; P[n] = their places in the segment.

    Behind the end of a shorter segment stand 0 and the place -1.""",
    inputs=[blob("X", FLOAT, doc="of any shape; elements behind the last segment are not read"), LENGTHS],
    outputs=[blob("V", FLOAT, doc="(N, k)"), blob("P", DataType.INT32, doc="(N, k)")],
    args=ARGS,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("LengthsTopK", [5.0, 6.0, 7.0, 6.0], [3, 1], k=2)
    (array([[7., 6.],
           [6., 0.]], dtype=float32), array([[ 2,  1],
           [ 0, -1]], dtype=int32))
    """,
)
LENGTHS_TOP_K_GRADIENT = schema(
    "LengthsTopKGradient",
    "dX = dV where P says that V stood in its segment, else 0.",
    inputs=[
        blob("lengths", DataType.INT32, "N", role=Role.INDEX, doc="elements of each segment"),
        blob("P", DataType.INT32, role=Role.INDEX, doc="(N, k); -1: nothing"),
        blob("dV", FLOAT, role=Role.DATA),
    ],
    outputs=[blob("dX", FLOAT, dynamic=True, doc="as many elements as lengths add up to")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("LengthsTopKGradient", [2, 1], [[1, 0], [0, -1]], [[5.0, 6.0], [7.0, 0.0]], k=2)
    array([6., 5., 7.], dtype=float32)
    """,
)


@LENGTHS_TOP_K.infer
def lengths_top_k_infer(op: OpView, X: TensorSpec, lengths: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    if lengths.dims is not None:
        op.require(len(lengths.dims) > 0, "lengths has rank 0, it must have at least 1")
    dims = (None if lengths.dims is None else lengths.dims[0], int(op.k))
    return TensorSpec(dims, X.dtype), TensorSpec(dims, DataType.INT32)


@LENGTHS_TOP_K.cost
def lengths_top_k_cost(op: OpView, X: TensorSpec, lengths: TensorSpec, V: TensorSpec, P: TensorSpec) -> Cost:
    steps = math.ceil(math.log2(max(int(op.k), 2)))
    return Cost(X.size * steps, X.nbytes + lengths.nbytes, V.nbytes + P.nbytes)


@LENGTHS_TOP_K.gradient
def lengths_top_k_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("LengthsTopKGradient", [g.lengths, g.P, g.dV], [g.dX])


@kernel(LENGTHS_TOP_K)
def lengths_top_k(op: OpView, X: Array, lengths: Array, V: Array, P: Array) -> None:
    flat = X.reshape(-1)
    own = lengths.reshape(-1)[: len(V)]
    starts = starts_of(op, "lengths", own, flat.size, "elements of X", whole=False)
    segment, rank = np.repeat(np.arange(len(V)), own), places_within(own)
    order = np.lexsort((-flat[: segment.size], segment))  # of each segment, the largest first
    taken = rank < op.k
    n, i = segment[taken], rank[taken]
    V[...], P[...] = 0, -1
    V[n, i], P[n, i] = flat[order[taken]], order[taken] - starts[n]


@LENGTHS_TOP_K_GRADIENT.infer
def lengths_top_k_gradient_infer(op: OpView, lengths: TensorSpec, P: TensorSpec, dV: TensorSpec) -> TensorSpec:
    wanted = (None if lengths.dims is None else lengths.dims[0], int(op.k))
    for letter, spec in (("P", P), ("dV", dV)):
        if spec.dims is not None:
            relation = f"{letter} has the shape {show_dims(spec.dims)}, it must have {show_dims(wanted)}"
            op.require(shapes_agree(spec.dims, wanted), relation)
    return TensorSpec((None,), dV.dtype)


@LENGTHS_TOP_K_GRADIENT.cost
def lengths_top_k_gradient_cost(op: OpView, dV: TensorSpec, P: TensorSpec, **others: object) -> Cost:
    del op, others
    return Cost(0, dV.nbytes + P.nbytes, dV.nbytes)


@kernel(LENGTHS_TOP_K_GRADIENT)
def lengths_top_k_gradient_kernel(op: OpView, lengths: Array, P: Array, dV: Array, dX: DynamicOutput) -> None:
    sums = dX.allocate((row_count(op, "lengths", lengths),))
    wrong = (P < -1) | (P >= lengths[:, None])
    if wrong.any():
        n, i = (int(one) for one in np.argwhere(wrong)[0])
        message = f"P[{n}, {i}] is {P[n, i]}, and segment {n} has {lengths[n]} elements"
        raise op.error(NumericError, message, "places count from 0, -1 is none")
    starts = np.cumsum(lengths, dtype=np.int64) - lengths
    sums[...] = 0
    sums[(starts[:, None] + P)[P >= 0]] = dV[P >= 0]
