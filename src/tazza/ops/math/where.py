"""A choice between two tensors at each place: Where, Conditional.

X, Y and Z have one shape S. C has it too, or with `broadcast_on_rows` only its first extent N: then it picks rows, as
it always does in Conditional.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tazza.operator import (
    Array,
    Cost,
    Cut,
    Effects,
    OpView,
    Role,
    RowProgram,
    Spec,
    arg,
    blob,
    ends,
    forbidden,
    formula,
    kernel,
    row_program,
    schema,
    show_dims,
)
from tazza.ops.math.comparison import COMPARABLE, TRUTH
from tazza.ops.shape.axis import agree, shapes_agree
from tazza.tensor import DataType, TensorSpec

WHERE = schema(
    "Where",
    "Z = X where C is true, else Y.",
    inputs=[
        blob("C", TRUTH, doc="of shape S; with `broadcast_on_rows` (N)"),
        blob("X", COMPARABLE | {DataType.STRING}, "*S", role=Role.DATA),
        blob("Y", "X", "*S", role=Role.DATA),
    ],
    outputs=[blob("Z", like="X")],
    args=[arg("broadcast_on_rows", bool, False, doc="whether C has one element for each row of X and Y")],
    effects=Effects.PURE,
    no_gradient=forbidden("Caffe2 has none, and emits none"),
    source="Caffe2",
    example="""
    >>> run("Where", np.array([True, False]), [1.0, 2.0], [3.0, 4.0])
    array([1., 4.], dtype=float32)
    """,
)


@WHERE.infer
def where_infer(op: OpView, C: TensorSpec, X: TensorSpec, Y: TensorSpec) -> TensorSpec:
    del Y
    if C.dims is None or X.dims is None:
        return X
    if op.broadcast_on_rows:
        op.require(len(C.dims) == 1, f"C has the shape {show_dims(C.dims)}, it must have one dimension")
        relation = f"C has the shape {show_dims(C.dims)}, X has {show_dims(X.dims)}"
        op.require(len(X.dims) > 0 and agree(C.dims[0], X.dims[0]), relation, "one element of C for each row of X")
    else:
        relation = f"C has the shape {show_dims(C.dims)}, X has {show_dims(X.dims)}"
        op.require(shapes_agree(C.dims, X.dims), relation, "for a C of rows: broadcast_on_rows=1")
    return X


@WHERE.cost
def where_cost(op: OpView, C: TensorSpec, X: TensorSpec, Y: TensorSpec, Z: TensorSpec) -> Cost:
    del op
    return Cost(Z.size, C.nbytes + X.nbytes + Y.nbytes, Z.nbytes)


def align_rows(op: OpView, specs: Mapping[str, Spec]) -> dict[str, tuple[int, ...]]:
    """Say for formulas how C lies under X; see `tazza.operator.formula`."""
    C, X = specs.get("C"), specs.get("X")
    if not op.broadcast_on_rows or not isinstance(C, TensorSpec) or not isinstance(X, TensorSpec) or X.dims is None:
        return {}
    return {"C": (*C.shape, *(1,) * (len(X.dims) - 1))}


formula(WHERE, Z="where(C, X, Y)", align=align_rows)


@kernel(WHERE)
def where(op: OpView, C: Array, X: Array, Y: Array, Z: Array) -> None:
    picked = C.reshape(-1, *(1,) * (X.ndim - 1)) if op.broadcast_on_rows else C
    Z[...] = np.where(picked, X, Y)


CONDITIONAL = schema(
    "Conditional",
    "Row n of Z is that of X where C[n] is true, else that of Y.",
    inputs=[
        blob("C", TRUTH, "N"),
        blob("X", dims="N *S", role=Role.DATA, doc="of any type"),
        blob("Y", "X", "N *S", role=Role.DATA),
    ],
    outputs=[blob("Z", like="X")],
    effects=Effects.PURE,
    no_gradient=ends("Caffe2 ends the backward pass here"),
    source="Caffe2",
    example="""
    >>> run("Conditional", np.array([True, False]), [[1, 2], [3, 4]], [[5, 6], [7, 8]])
    array([[1, 2],
           [7, 8]], dtype=int32)
    """,
)
CONDITIONAL.cost(where_cost)
CONDITIONAL.batched("C", "X", "Y")


@kernel(CONDITIONAL)
def conditional(C: Array, X: Array, Y: Array, Z: Array) -> None:
    Z[...] = np.where(C.reshape(-1, *(1,) * (X.ndim - 1)), X, Y)


def _picked(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    del op
    X = specs["X"]
    return RowProgram(Cut(X.shape[0], math.prod(X.shape[1:])), each={"Z": "where(C, X, Y)"}, lies={"C": "row"})


row_program(CONDITIONAL, _picked)
