"""The largest of each row or column of matrices: RowwiseMax, ColwiseMax.

X is (B, M, N): B matrices of M rows and N columns. Y and dY are (B, M) for rows, (B, N) for columns. NaN is passed
over, but at the start: nothing is above it.

Source: Caffe2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Cut,
    Effects,
    GradientRequest,
    OpSchema,
    OpView,
    RowProgram,
    Total,
    blob,
    ends,
    family,
    gradients_of,
    kernel,
    row_program,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import require_as_many
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec


def row_max_dims(op: OpView, X: TensorSpec) -> tuple[int | None, ...]:
    """Return the extents of Y.

    Raises:
        ShapeError: there is no element along the axis.
    """
    assert X.dims is not None, "its pattern gives the rank"
    axis = row_maxima.rows[op.type.removesuffix("Gradient")].axis
    relation = f"X has the shape {show_dims(X.dims)}"
    op.require(X.dims[axis] != 0 or 0 in (X.dims[0], X.dims[3 - axis]), relation, "nothing is the largest of nothing")
    return X.dims[0], X.dims[3 - axis]


def row_max_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    return TensorSpec(None if X.dims is None else row_max_dims(op, X), X.dtype)


def row_max_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,), flops=X.size)


def row_max_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit(f"{g.op.type}Gradient", [g.X, g.Y, g.dY], [g.dX])


def row_max_gradient_infer(op: OpView, X: TensorSpec, Y: TensorSpec, dY: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return X
    require_as_many(op, "the largest of X", row_max_dims(op, X), Y=Y.dims, dY=dY.dims)
    return X


def row_max_gradient_cost(op: OpView, X: TensorSpec, Y: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op
    return streamed((X, Y, dY), (dX,), flops=2 * X.size)


@dataclass(frozen=True, slots=True)
class Line:
    """What tells rows from columns: the axis along which they lie, and texts of the examples."""

    what: str
    axis: int
    largest: str
    shares: str


def _cut(X: TensorSpec, row: Line) -> Cut:
    B, M, N = X.shape
    return Cut(B, M, N) if row.axis == 1 else Cut(B * M, N)


@family(
    {
        "RowwiseMax": Line("row", 2, "[[5., 4.]]", "[[[0., 3.],\n        [7., 0.]]]"),
        "ColwiseMax": Line("column", 1, "[[4., 5.]]", "[[[0., 7.],\n        [3., 0.]]]"),
    }
)
def row_maxima(type: str, row: Line) -> OpSchema:
    """The largest of each row, or column."""
    made = schema(
        type,
        f"Y = the largest element of each {row.what} of X.",
        inputs=[blob("X", FLOAT, "B M N")],
        outputs=[blob("Y", "X")],
        effects=Effects.PURE,
        source="Caffe2",
        example=f'>>> run("{type}", [[[1.0, 5.0], [4.0, 2.0]]])\narray({row.largest}, dtype=float32)',
    )
    made.infer(row_max_infer)
    made.cost(row_max_cost)
    made.gradient(row_max_gradient)

    @kernel(made)
    def row_max(X: Array, Y: Array) -> None:
        if Y.size > 0:
            first = np.take(X, 0, axis=row.axis)
            Y[...] = np.where(np.isnan(first), first, np.fmax.reduce(X, axis=row.axis))

    def rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
        del op
        return RowProgram(_cut(specs["X"], row), {"Y": Total("first_max", "X")})

    row_program(made, rows)
    return made


@family(gradients_of(row_maxima))
def row_max_gradients(type: str, row: Line) -> OpSchema:
    """The gradient operator of the largest of each row, or column."""
    made = schema(
        type,
        f"dX = dY where X is the largest of its {row.what}, else 0. Where several are equal, each gets all of dY.",
        inputs=[
            blob("X", FLOAT, "B M N"),
            blob("Y", "X", doc="one element for each row, or column"),
            blob("dY", "X", doc="as many elements as Y"),
        ],
        outputs=[blob("dX", like="X")],
        effects=Effects.PURE,
        no_gradient=ends("second derivatives are not built"),
        source="derivative of the forward operator",
        example=f'>>> run("{type}", [[[1.0, 5.0], [4.0, 2.0]]], {row.largest}, [[3.0, 7.0]])\n'
        f"array({row.shares}, dtype=float32)",
    )
    made.infer(row_max_gradient_infer)
    made.cost(row_max_gradient_cost)

    @kernel(made)
    def row_max_gradient_kernel(X: Array, Y: Array, dY: Array, dX: Array) -> None:
        lying = [1 if axis == row.axis else extent for axis, extent in enumerate(X.shape)]
        dX[...] = np.where(Y.reshape(lying) == X, dY.reshape(lying), 0)

    def rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
        del op
        cut = _cut(specs["X"], row)
        return RowProgram(cut, each={"dX": "where(Y == X, dY, 0)"}, lies={"Y": "row", "dY": "row"})

    row_program(made, rows)
    return made
