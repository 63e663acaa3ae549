"""The largest elements along an axis: TopK.

X has n elements along `axis`, the outputs k. Equal elements stand in the order of X, NaN behind all others. Where k is
larger than n, what is missing has the value 0 and the index -1.

Source: Caffe2.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from tazza.errors import ArgumentError, NumericError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
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
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

ARGS = (
    arg("k", int, -1, doc="how many; else the input K says it"),
    arg("axis", int, -1, doc="along which, negative from the last one"),
)
LONG = frozenset({DataType.INT64})

TOP_K = schema(
    "TopK",
    """V = the k largest elements of X along `axis`, in falling order; P = their places on it, F = those in all of X.

    F is flat. k is the argument, or without it the value of K.""",
    inputs=[
        blob("X", FLOAT),
        blob("K", LONG, optional=True, host=True, role=Role.SHAPE, doc="one element; no effect beside the argument"),
    ],
    outputs=[blob("V", FLOAT), blob("P", LONG), blob("F", LONG, optional=True)],
    args=ARGS,
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> V, P, F = run("TopK", [[1.0, 5.0, 3.0], [2.0, 2.0, 0.0]], k=2, outputs=3)
    >>> V, P, F
    (array([[5., 3.],
           [2., 2.]], dtype=float32), array([[1, 2],
           [0, 1]]), array([1, 2, 3, 4]))
    """,
)


def top_axis(op: OpView, rank: int) -> int:
    """Return the axis, counted from the first.

    Raises:
        ShapeError: X has none of that number.
    """
    op.require(-rank <= op.axis < rank, f"axis {op.axis} of an X of rank {rank}", "axis is in [-rank, rank)")
    return int(op.axis) % rank


def _count(op: OpView, K: Array | None) -> int | None:
    """Return k; None while the value of K is not known."""
    if op.given("k") or not op.has_input("K"):
        found = int(op.k)
    elif K is None:
        return None
    else:
        op.require(K.size == 1, f"K has {K.size} elements, it must have 1")
        found = int(K.reshape(()))
    if found < 1:
        raise op.error(ArgumentError, f"k is {found}, it must be at least 1", "give the argument k, or the input K")
    return found


@TOP_K.infer
def top_k_infer(op: OpView, X: TensorSpec, K: TensorSpec | None) -> tuple[TensorSpec, ...]:
    k = _count(op, None if K is None else op.value_of("K"))
    if X.dims is None:
        return tuple(TensorSpec(None, dtype) for dtype in (X.dtype, DataType.INT64, DataType.INT64))[: _outputs(op)]
    axis = top_axis(op, len(X.dims))
    dims = (*X.dims[:axis], k, *X.dims[axis + 1 :])
    flat = None if None in dims else math.prod(cast("tuple[int, ...]", dims))
    specs = TensorSpec(dims, X.dtype), TensorSpec(dims, DataType.INT64), TensorSpec((flat,), DataType.INT64)
    return specs[: _outputs(op)]


def _outputs(op: OpView) -> int:
    return len(op.output_letters)


@TOP_K.cost
def top_k_cost(op: OpView, X: TensorSpec, V: TensorSpec, **others: TensorSpec | None) -> Cost:
    n = X.shape[top_axis(op, len(X.shape))]
    written = V.nbytes + sum(others[letter].nbytes for letter in "PF" if others[letter] is not None)  # pyright: ignore[reportOptionalMemberAccess] -- just asked
    return Cost(X.size * max(1, math.ceil(math.log2(max(n, 2)))), X.nbytes, written)


@TOP_K.gradient
def top_k_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("TopKGradient", [g.dV, g.P, g.like("X")], [g.dX])


@kernel(TOP_K)
def top_k(op: OpView, X: Array, V: Array, P: Array, F: Array | None) -> None:
    axis = top_axis(op, X.ndim)
    taken = min(V.shape[axis], X.shape[axis])
    order = np.take(np.argsort(-X, axis=axis, kind="stable"), range(taken), axis=axis)
    missing = [(0, V.shape[axis] - taken if i == axis else 0) for i in range(X.ndim)]
    V[...] = np.pad(np.take_along_axis(X, order, axis), missing)
    P[...] = np.pad(order, missing, constant_values=-1)
    if F is not None:
        steps = [math.prod(X.shape[i + 1 :]) for i in range(X.ndim)]
        others = sum(step * one for step, one in zip(steps, _grid(P, axis), strict=True))
        F[...] = np.where(P < 0, -1, others + steps[axis] * P).reshape(-1)


def _grid(P: Array, axis: int) -> list[Array]:
    """Return the index along each axis, broadcast against P; 0 along `axis`."""
    found: list[Array] = list(np.indices(P.shape, sparse=True))
    found[axis] = np.zeros_like(found[axis])
    return found


TOP_K_GRADIENT = schema(
    "TopKGradient",
    """dX = dV where P says that V stood in X, else 0.

    Behind an index of -1 there is nothing more along the axis.""",
    inputs=[
        blob("dV", FLOAT),
        blob("P", LONG, role=Role.INDEX),
        blob("X", role=Role.SHAPE, doc="of any type: its shape counts alone"),
    ],
    outputs=[blob("dX", "dV")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("TopKGradient", [[7.0, 8.0]], np.array([[2, 0]]), [[0.0, 0.0, 0.0]])
    array([[8., 0., 7.]], dtype=float32)
    """,
)


@TOP_K_GRADIENT.infer
def top_k_gradient_infer(op: OpView, dV: TensorSpec, P: TensorSpec, X: TensorSpec) -> TensorSpec:
    if dV.dims is not None and P.dims is not None:
        relation = f"dV has the shape {show_dims(dV.dims)}, P {show_dims(P.dims)}"
        op.require(shapes_agree(dV.dims, P.dims), relation, "each gradient belongs to an index")
    if dV.dims is not None and X.dims is not None:
        rank = len(X.dims)
        axis = top_axis(op, rank)
        others = [tuple(extent for i, extent in enumerate(dims) if i != axis) for dims in (dV.dims, X.dims)]
        relation = f"dV has the shape {show_dims(dV.dims)}, X {show_dims(X.dims)}"
        op.require(len(dV.dims) == rank and shapes_agree(*others), relation, f"they differ along axis {axis} alone")
    return TensorSpec(X.dims, dV.dtype)


@TOP_K_GRADIENT.cost
def top_k_gradient_cost(op: OpView, dV: TensorSpec, P: TensorSpec, X: TensorSpec, dX: TensorSpec) -> Cost:
    del op, X
    return Cost(0, dV.nbytes + P.nbytes, dX.nbytes)


@kernel(TOP_K_GRADIENT)
def top_k_gradient_kernel(op: OpView, dV: Array, P: Array, dX: Array) -> None:
    axis = top_axis(op, dX.ndim)
    check_places(op, P, dX.shape[axis], axis)
    there = np.logical_and.accumulate(P >= 0, axis=axis)
    grid = [np.broadcast_to(one, P.shape)[there] for one in _grid(P, axis)]
    grid[axis] = P[there]
    dX[...] = 0
    np.add.at(dX, tuple(grid), dV[there])


def check_places(op: OpView, P: Array, count: int, axis: int) -> None:
    """Check that no place is beyond the elements that X has along the axis.

    Raises:
        NumericError: one is.
    """
    wrong = count <= P
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        message = f"P{list(place)} is {P[place]}, and X has {count} elements along axis {axis}"
        raise op.error(NumericError, message, "indices count from 0")
