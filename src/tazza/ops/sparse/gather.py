"""Parts of a tensor by their places along an axis: Gather, BatchGather.

Letters: DATA (A..., V, B...), V places along `axis`; INDICES of any shape I; OUTPUT (A..., I..., B...). With
`match_outer` each of the outer places A has indices of its own: INDICES (A..., I...).
"""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    INDEX,
    Array,
    Cost,
    Dims,
    Effects,
    GradientRequest,
    OpSchema,
    OpView,
    Role,
    arg,
    blob,
    ends,
    family,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import require_within, shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

GATHER_ARGS = (
    arg("axis", int, 0, doc="along which indices count"),
    arg("dense_gradient", bool, False, doc="the gradient along axis 0 is dense, not one of rows"),
)
MATCH_OUTER = arg("match_outer", bool, False, doc="INDICES begins with the outer extents of DATA")


def axis_of(op: OpView, rank: int) -> int:
    """Return the axis of DATA that indices count along.

    Raises:
        ShapeError: DATA has too few dimensions.
    """
    axis: int = 1 if op.type == "BatchGather" else op.axis
    relation = f"axis = {axis}, DATA has {rank} dimensions"
    op.require(-rank <= axis < rank, relation, f"it must have at least {axis + 1 if axis >= 0 else -axis}")
    return axis % rank


def own_dims(op: OpView, data: Dims, indices: Dims, axis: int) -> Dims:
    """Return I, the extents of INDICES behind the outer ones that it may begin with.

    Raises:
        ShapeError: it does not begin with them.
    """
    if not op.match_outer:
        return indices
    relation = f"INDICES has the shape {show_dims(indices)}, DATA {show_dims(data)} with axis = {axis}"
    fits = len(indices) >= axis and shapes_agree(indices[:axis], data[:axis])
    op.require(fits, relation, "with match_outer INDICES begins with the outer extents of DATA")
    return indices[axis:]


def infer(op: OpView, DATA: TensorSpec, INDICES: TensorSpec) -> TensorSpec:
    if DATA.dims is None:
        return TensorSpec(None, DATA.dtype)
    data = tuple(DATA.dims)
    axis = axis_of(op, len(data))
    if data[axis] == 0:
        return TensorSpec(data, DATA.dtype)  # as in Caffe2: nothing is taken from nothing, however often
    if INDICES.dims is None or data[axis] is None:
        return TensorSpec(None, DATA.dtype)
    own = own_dims(op, data, tuple(INDICES.dims), axis)
    return TensorSpec((*data[:axis], *own, *data[axis + 1 :]), DATA.dtype)


def cost(op: OpView, DATA: TensorSpec, INDICES: TensorSpec, OUTPUT: TensorSpec) -> Cost:
    del op, DATA
    return streamed((OUTPUT, INDICES), (OUTPUT,))  # of DATA only what is taken is read


def places(op: OpView, INDICES: Array, count: int, *, wraps: bool) -> Array:
    """Return indices in [0, count).

    Raises:
        NumericError: one is not.
    """
    require_within(op, "INDICES", INDICES, -count if wraps else 0, count, "indices count from 0 along the axis")
    return np.where(INDICES < 0, INDICES + count, INDICES) if wraps else INDICES


def outer_rows(op: OpView, DATA: Array, INDICES: Array, axis: int) -> tuple[Array, Array]:
    """Return DATA as (A, V, B) and indices as (A, I) or (1, I)."""
    outer = int(np.prod(DATA.shape[:axis], dtype=np.int64))
    inner = int(np.prod(DATA.shape[axis + 1 :], dtype=np.int64))
    found = places(op, INDICES, DATA.shape[axis], wraps=op.type == "Gather" and op.axis == 0)
    rows = outer if op.match_outer else 1
    return DATA.reshape(outer, DATA.shape[axis], inner), found.reshape(rows, found.size // max(rows, 1))


def gather(op: OpView, DATA: Array, INDICES: Array, OUTPUT: Array) -> None:
    axis = axis_of(op, DATA.ndim)
    if not OUTPUT.size and not DATA.shape[axis]:
        return
    data, found = outer_rows(op, DATA, INDICES, axis)
    if op.match_outer:
        OUTPUT[...] = data[np.arange(len(data))[:, None], found].reshape(OUTPUT.shape)
    else:
        OUTPUT[...] = data[:, found[0]].reshape(OUTPUT.shape)


def emit(g: GradientRequest) -> list[OperatorDef]:
    if g.op.type == "Gather" and g.op.axis == 0:
        if g.op.dense_gradient:
            return g.emit("SparseToDense", [g.INDICES, g.dOUTPUT, g.like("DATA")], [g.dDATA])
        g.sparse(0, indices=g.INDICES, values=g.dOUTPUT)
        return []
    told = {"axis": g.op.axis} if g.op.type == "Gather" else {}  # and copied once more, as Caffe2 has it
    return g.emit("BatchGatherGradient", [g.DATA, g.INDICES, g.dOUTPUT], [g.dDATA], **told)


@family("Gather", "BatchGather")
def gathers(type: str) -> OpSchema:
    """Parts of DATA in the order of indices."""
    wraps = "\n\n    Along axis 0 indices below 0 count from behind." if type == "Gather" else ""
    along = "`axis`" if type == "Gather" else "axis 1"
    taken = "[2, 0]" if type == "Gather" else "[1]"
    result = "[[5, 6],\n       [1, 2]]" if type == "Gather" else "[[2],\n       [4],\n       [6]]"
    made = schema(
        type,
        f"OUTPUT[a, i, b] = DATA[a, INDICES[i], b], where INDICES count along {along}.{wraps}",
        inputs=[
            blob("DATA", doc="(A..., V, B...)"),
            blob("INDICES", INDEX, role=Role.INDEX, doc="(I...), each in [0, V)"),
        ],
        outputs=[blob("OUTPUT", "DATA", doc="(A..., I..., B...)")],
        args=[*(GATHER_ARGS if type == "Gather" else ()), MATCH_OUTER],
        effects=Effects.PURE,
        source="Caffe2",
        example=f'>>> run("{type}", [[1, 2], [3, 4], [5, 6]], {taken})\narray({result}, dtype=int32)',
    )
    made.infer(infer)
    made.cost(cost)
    made.gradient(emit)
    kernel(made)(gather)
    return made


BATCH_GATHER_GRADIENT = schema(
    "BatchGatherGradient",
    "dDATA[a, v, b] = sum of dOUTPUT[a, i, b] over the i with INDICES[i] = v.",
    inputs=[
        blob("DATA", FLOAT, role=Role.SHAPE, doc="(A..., V, B...)"),
        blob("INDICES", INDEX, role=Role.INDEX, doc="(I...), each in [0, V)"),
        blob("dOUTPUT", "DATA", doc="(A..., I..., B...)"),
    ],
    outputs=[blob("dDATA", "DATA")],
    args=[
        arg("axis", int, 1, doc="along which indices count"),
        arg("dense_gradient", bool, False, doc="it comes from a Gather; what is given back is dense in any case"),
        MATCH_OUTER,
    ],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("BatchGatherGradient", [[1.0, 2.0]], [1, 1], [[3.0, 4.0]])
    array([[0., 7.]], dtype=float32)
    """,
)


@BATCH_GATHER_GRADIENT.infer
def batch_gather_gradient_infer(op: OpView, DATA: TensorSpec, INDICES: TensorSpec, dOUTPUT: TensorSpec) -> TensorSpec:
    expected = infer(op, DATA, INDICES)
    if expected.dims is not None and dOUTPUT.dims is not None:
        relation = f"dOUTPUT has the shape {show_dims(dOUTPUT.dims)}, what is gathered {show_dims(expected.dims)}"
        op.require(shapes_agree(dOUTPUT.dims, expected.dims), relation)
    return TensorSpec(DATA.dims, DATA.dtype)


@BATCH_GATHER_GRADIENT.cost
def batch_gather_gradient_cost(
    op: OpView, DATA: TensorSpec, INDICES: TensorSpec, dOUTPUT: TensorSpec, dDATA: TensorSpec
) -> Cost:
    del op, DATA
    return streamed((dOUTPUT, INDICES), (dDATA,), flops=dOUTPUT.size)


@kernel(BATCH_GATHER_GRADIENT)
def batch_gather_gradient(op: OpView, DATA: Array, INDICES: Array, dOUTPUT: Array, dDATA: Array) -> None:
    sums = np.zeros(dDATA.shape, dDATA.dtype)
    if sums.size:
        axis = axis_of(op, DATA.ndim)
        data, found = outer_rows(op, sums, INDICES, axis)
        found = np.broadcast_to(found, (len(data), found.shape[1]))
        np.add.at(data, (np.arange(len(data))[:, None], found), dOUTPUT.reshape(*found.shape, data.shape[2]))
    dDATA[...] = sums
