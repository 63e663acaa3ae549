"""Rows that ids name, put into a dense tensor: SparseToDense, SparseToDenseMask; EnsureDense.

Letters: K ids, each with a row of the shape S. In `SparseToDense` an id is the place of its row among R rows; in
`SparseToDenseMask` M ids are wanted, those of the argument `mask`, and where they stand there is the place of a row.

Source: Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.errors import ArgumentError, NumericError, SchemaError
from tazza.operator import (
    INDEX,
    REQUIRED,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Role,
    RowSlices,
    arg,
    blob,
    ends,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import shapes_agree
from tazza.ops.sparse.segment import ROWS_MAX, check_rows, starts_of
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

ADDED = INDEX | {DataType.FLOAT}

SPARSE_TO_DENSE = schema(
    "SparseToDense",
    """Y[r] = the sum of the rows of X whose index is r.

    R is the first extent of `like`; without it one more than the largest index.""",
    inputs=[
        blob("indices", INDEX, "K", role=Role.INDEX, doc="in [0, R)"),
        blob("X", ADDED, "K *S", role=Role.DATA),
        blob("like", optional=True, role=Role.SHAPE, doc="of any type: its first extent is R"),
    ],
    outputs=[blob("Y", "X", doc="(R, *S)")],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("SparseToDense", [2, 0, 2], [5.0, 6.0, 7.0])
    array([ 6.,  0., 12.], dtype=float32)
    """,
)


@SPARSE_TO_DENSE.infer
def sparse_to_dense_infer(op: OpView, indices: TensorSpec, X: TensorSpec, like: TensorSpec | None) -> TensorSpec:
    del indices
    if like is not None and like.dims is not None:
        op.require(len(like.dims) > 0, "like has rank 0, it must have rows")
    rows = _rows(op) if like is None else None if like.dims is None else like.dims[0]
    return TensorSpec(None if X.dims is None else (rows, *X.dims[1:]), X.dtype)


def _rows(op: OpView) -> int | None:
    """Return how many rows the indices name, None where these are not known.

    Raises:
        NumericError: there are too many.
    """
    indices = op.value_of("indices")
    rows = None if indices is None else int(indices.max(initial=-1)) + 1
    if rows is not None and rows > ROWS_MAX:
        raise op.error(NumericError, f"the indices name {rows} rows, {ROWS_MAX} are the most", "give like")
    return rows


@SPARSE_TO_DENSE.cost
def sparse_to_dense_cost(op: OpView, indices: TensorSpec, X: TensorSpec, **others: TensorSpec | None) -> Cost:
    del op, others
    return streamed((indices, X), (X,), flops=X.size)


@SPARSE_TO_DENSE.gradient
def sparse_to_dense_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("Gather", [g.dY, g.indices], [g.dX])


@kernel(SPARSE_TO_DENSE)
def sparse_to_dense(op: OpView, indices: Array, X: Array, Y: Array) -> None:
    check_rows(op, indices, len(Y), "indices")
    Y[...] = 0
    np.add.at(Y, indices, X)


ENSURE_DENSE = schema(
    "EnsureDense",
    "Y = X; in the backward pass a gradient by rows becomes a dense one.",
    inputs=[blob("X", dims="*S")],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("EnsureDense", [1.0, 2.0])
    array([1., 2.], dtype=float32)
    """,
)

ENSURE_DENSE.hands_on("X")


@ENSURE_DENSE.cost
def ensure_dense_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(0, X.nbytes, Y.nbytes)


@ENSURE_DENSE.gradient
def ensure_dense_gradient(g: GradientRequest) -> list[OperatorDef]:
    given = g.output_gradients[0]
    if isinstance(given, RowSlices):
        return g.emit("SparseToDense", [given.indices, given.values, g.like("X")], [g.dX])
    g.pass_to(0, g.dY)
    return []


@kernel(ENSURE_DENSE)
def ensure_dense(X: Array, Y: Array) -> None:
    np.copyto(Y, X)


LENGTHS = blob(
    "lengths",
    DataType.INT32,
    "N",
    optional=True,
    role=Role.INDEX,
    doc="ids of each segment, one behind the other; behind the last one ids may be left",
)
ARGS = (
    arg("mask", list[int], REQUIRED, doc="the M ids that are wanted, not negative, each once"),
    arg("return_presence_mask", bool, False, doc="there is a second output"),
    arg("max_skipped_indices", int, 50, doc="so many segments with negative ids are too many; below 0: any number"),
)

SPARSE_TO_DENSE_MASK = schema(
    "SparseToDenseMask",
    """Y[n, m] = the row of X whose id is mask[m] in segment n, the last of several; `default` where there is none.

    Ids that are not wanted are passed over. `present` says where rows were. Without lengths Y is (M, *S).""",
    inputs=[
        blob("ids", INDEX, "K", role=Role.INDEX),
        blob("X", None, "K *S", role=Role.DATA),
        blob("default", "X", role=Role.DATA, doc="one row (*S)"),
        LENGTHS,
    ],
    outputs=[
        blob("Y", "X", doc="(N, M, *S)"),
        blob("present", DataType.BOOL, optional=True, doc="(N, M)"),
    ],
    args=ARGS,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("SparseToDenseMask", [7, 3, 9, 7], [1.0, 2.0, 4.0, 5.0], np.array(-1, "f"), [2, 0, 2], mask=[7, 3])
    array([[ 1.,  2.],
           [-1., -1.],
           [ 5., -1.]], dtype=float32)
    """,
)


@SPARSE_TO_DENSE_MASK.validate
def sparse_to_dense_mask_validate(op: OpView) -> None:
    _check_mask(op)
    if op.return_presence_mask and not op.has_output("present"):
        raise op.error(SchemaError, "return_presence_mask = 1, and there is no second output", "name a blob for it")


def _check_mask(op: OpView) -> None:
    wanted = list(op.mask)
    if not wanted:
        raise op.error(ArgumentError, "argument 'mask' is empty", "it lists the ids that are wanted")
    for m, id in enumerate(wanted):
        if id < 0 or id in wanted[:m]:
            told = "is negative" if id < 0 else f"stands at {wanted.index(id)} already"
            raise op.error(ArgumentError, f"mask[{m}] = {id} {told}", "ids are not negative, and stand there once")


@SPARSE_TO_DENSE_MASK.infer
def sparse_to_dense_mask_infer(
    op: OpView, ids: TensorSpec, X: TensorSpec, default: TensorSpec, lengths: TensorSpec | None
) -> tuple[TensorSpec, ...]:
    del ids
    if X.dims is not None and default.dims is not None:
        relation = f"default has the shape {show_dims(default.dims)}, a row of X {show_dims(X.dims[1:])}"
        op.require(shapes_agree(default.dims, X.dims[1:]), relation)
    own = (len(op.mask),) if lengths is None else (None if lengths.dims is None else lengths.dims[0], len(op.mask))
    Y = TensorSpec(None if X.dims is None else (*own, *X.dims[1:]), X.dtype)
    return (Y, TensorSpec(own, DataType.BOOL))[: len(op.output_letters)]


@SPARSE_TO_DENSE_MASK.cost
def sparse_to_dense_mask_cost(op: OpView, X: TensorSpec, ids: TensorSpec, Y: TensorSpec, **others: object) -> Cost:
    del op, others
    return Cost(0, ids.nbytes + X.nbytes, Y.nbytes)


@SPARSE_TO_DENSE_MASK.gradient
def sparse_to_dense_mask_gradient(g: GradientRequest) -> list[OperatorDef]:
    lengths = [g.lengths] if g.op.has_input("lengths") else []
    return g.emit("SparseToDenseMaskGradient", [g.ids, g.dY, *lengths], [g.dX])


def _found(op: OpView, ids: Array, lengths: Array | None) -> tuple[Array, Array, Array]:
    """Return which ids are wanted, and of each of these its segment and its place in the mask."""
    counts = np.array([ids.size]) if lengths is None else lengths
    starts = starts_of(op, "lengths", counts, ids.size, "ids", whole=False)
    segments = np.repeat(np.arange(counts.size), np.diff(starts))
    order = np.argsort(op.mask)
    mask = np.array(op.mask, np.int64)[order]
    own = ids[: starts[-1]].astype(np.int64)
    places = np.minimum(np.searchsorted(mask, own), mask.size - 1)
    taken = np.flatnonzero(mask[places] == own)
    return taken, segments[taken], order[places[taken]]


@kernel(SPARSE_TO_DENSE_MASK)
def sparse_to_dense_mask(
    op: OpView, ids: Array, X: Array, default: Array, lengths: Array | None, Y: Array, present: Array | None
) -> None:
    taken, segments, places = _found(op, ids, lengths)
    _check_skipped(op, ids, lengths)
    rows = Y[None] if lengths is None else Y
    rows[...] = default
    rows[segments, places] = X[taken]  # of several for one place NumPy keeps the last
    if present is not None:
        there = present[None] if lengths is None else present
        there[...] = False
        there[segments, places] = True


def _check_skipped(op: OpView, ids: Array, lengths: Array | None) -> None:
    behind = np.array([ids.size]) if lengths is None else np.cumsum(lengths)
    negative = np.flatnonzero(ids[: int(behind[-1]) if behind.size else 0] < 0)
    skipped = np.unique(np.searchsorted(behind, negative, side="right")).size
    if 0 <= op.max_skipped_indices <= skipped:
        message = f"{skipped} segments have negative ids, max_skipped_indices is {op.max_skipped_indices}"
        raise op.error(NumericError, message, f"the first stands at {negative[0]}" if skipped else "0 allows no run")


SPARSE_TO_DENSE_MASK_GRADIENT = schema(
    "SparseToDenseMaskGradient",
    "dX[k] = dY[n, m] where the id k of segment n is mask[m] and the last one there that is, else 0.",
    inputs=[
        blob("ids", INDEX, "K", role=Role.INDEX),
        blob("dY", role=Role.DATA, doc="(N, M, *S); without lengths (M, *S)"),
        LENGTHS,
    ],
    outputs=[blob("dX", "dY", doc="(K, *S)")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("SparseToDenseMaskGradient", [7, 3, 9, 7], [[1.0, 2.0], [3.0, 4.0]], [2, 2], mask=[7, 3])
    array([1., 2., 0., 3.], dtype=float32)
    """,
)

SPARSE_TO_DENSE_MASK_GRADIENT.validate(_check_mask)


@SPARSE_TO_DENSE_MASK_GRADIENT.infer
def sparse_to_dense_mask_gradient_infer(
    op: OpView, ids: TensorSpec, dY: TensorSpec, lengths: TensorSpec | None
) -> TensorSpec:
    if dY.dims is None:
        return dY
    own = (len(op.mask),) if lengths is None else (None if lengths.dims is None else lengths.dims[0], len(op.mask))
    relation = f"dY has the shape {show_dims(dY.dims)}, it must begin with {show_dims(own)}"
    op.require(shapes_agree(dY.dims[: len(own)], own), relation)
    return TensorSpec((None if ids.dims is None else ids.dims[0], *dY.dims[len(own) :]), dY.dtype)


@SPARSE_TO_DENSE_MASK_GRADIENT.cost
def sparse_to_dense_mask_gradient_cost(op: OpView, ids: TensorSpec, dX: TensorSpec, **others: object) -> Cost:
    del op, others
    return Cost(0, ids.nbytes + dX.nbytes, dX.nbytes)


@kernel(SPARSE_TO_DENSE_MASK_GRADIENT)
def sparse_to_dense_mask_gradient_kernel(op: OpView, ids: Array, dY: Array, lengths: Array | None, dX: Array) -> None:
    taken, segments, places = _found(op, ids, lengths)
    rows = dY[None] if lengths is None else dY
    last = np.full(rows.shape[:2], -1)
    last[segments, places] = taken
    dX[...] = 0
    dX[last[last >= 0]] = rows[last >= 0]
