"""One scale and one bias a column: ElementwiseLinear. X is cut at `axis` into N rows of D columns; w and b are (D)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Cut,
    Effects,
    GradientRequest,
    OpView,
    Role,
    RowProgram,
    Spec,
    Total,
    arg,
    blob,
    ends,
    formula,
    kernel,
    row_program,
    schema,
)
from tazza.ops.shape.axis import agree, cut, matrix, product, require_as_many
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

AXIS = arg("axis", int, 1, doc="columns begin here")


def align_columns(op: OpView, specs: Mapping[str, Spec]) -> dict[str, tuple[int, ...]]:
    """Return the dims with which w and b broadcast over X."""
    columns = cut(op, "axis", "X", cast("TensorSpec", specs["X"]).shape)[1]
    return {letter: cast("tuple[int, ...]", columns) for letter in specs if letter != "X"}


def require_columns(op: OpView, X: TensorSpec, **vectors: TensorSpec) -> None:
    """Check that vectors have an element for each column of X.

    Raises:
        ShapeError: one has not.
    """
    D = None if X.dims is None else product(cut(op, "axis", "X", X.dims)[1])
    for letter, spec in vectors.items():
        count = None if spec.dims is None else spec.dims[0]
        op.require(agree(count, D), f"{letter} has {count} elements, X has D = {D} columns")


ELEMENTWISE_LINEAR = schema(
    "ElementwiseLinear",
    "Y = w * X + b, for each column.",
    inputs=[
        blob("X", FLOAT),
        blob("w", FLOAT, "D", role=Role.PARAMETER),
        blob("b", FLOAT, "D", role=Role.PARAMETER),
    ],
    outputs=[blob("Y", like="X")],
    args=[AXIS],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("ElementwiseLinear", [[1.0, 2.0], [3.0, 4.0]], [10.0, 100.0], [5.0, 6.0])
    array([[ 15., 206.],
           [ 35., 406.]], dtype=float32)
    """,
)
formula(ELEMENTWISE_LINEAR, Y="w * X + b", align=align_columns)
ELEMENTWISE_LINEAR.batched("X", when=lambda op: op.axis > 0)


@ELEMENTWISE_LINEAR.infer
def elementwise_linear_infer(op: OpView, X: TensorSpec, w: TensorSpec, b: TensorSpec) -> TensorSpec:
    require_columns(op, X, w=w, b=b)
    return TensorSpec(X.dims, X.dtype)


@ELEMENTWISE_LINEAR.cost
def elementwise_linear_cost(op: OpView, X: TensorSpec, w: TensorSpec, b: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(2 * X.size, X.nbytes + w.nbytes + b.nbytes, Y.nbytes, w.nbytes + b.nbytes)


@ELEMENTWISE_LINEAR.gradient
def elementwise_linear_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("ElementwiseLinearGradient", [g.dY, g.X, g.w], [g.dX, g.dw, g.db])


@kernel(ELEMENTWISE_LINEAR)
def elementwise_linear(op: OpView, X: Array, w: Array, b: Array, Y: Array) -> None:
    matrix(op, "axis", Y)[...] = matrix(op, "axis", X) * w + b


ELEMENTWISE_LINEAR_GRADIENT = schema(
    "ElementwiseLinearGradient",
    "dX = w * dY, dw = sum of dY * X, db = sum of dY, over rows.",
    inputs=[blob("dY", FLOAT), blob("X", FLOAT), blob("w", FLOAT, "D", role=Role.PARAMETER)],
    outputs=[blob("dX", like="X"), blob("dw", like="w"), blob("db", like="w")],
    args=[AXIS],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> dX, dw, db = run("ElementwiseLinearGradient", [[1.0], [2.0]], [[3.0], [4.0]], [10.0], outputs=3)
    >>> dX[:, 0], dw, db
    (array([10., 20.], dtype=float32), array([11.], dtype=float32), array([3.], dtype=float32))
    """,
)


@ELEMENTWISE_LINEAR_GRADIENT.infer
def elementwise_linear_gradient_infer(
    op: OpView, dY: TensorSpec, X: TensorSpec, w: TensorSpec
) -> tuple[TensorSpec, ...]:
    require_columns(op, X, w=w)
    require_as_many(op, "X", X.dims, dY=dY.dims)
    return tuple(TensorSpec(spec.dims, spec.dtype) for spec in (X, w, w))


@ELEMENTWISE_LINEAR_GRADIENT.cost
def elementwise_linear_gradient_cost(
    op: OpView, dY: TensorSpec, X: TensorSpec, w: TensorSpec, **others: TensorSpec
) -> Cost:
    del op, others
    return Cost(4 * X.size, dY.nbytes + X.nbytes + w.nbytes, X.nbytes + 2 * w.nbytes, w.nbytes)


@kernel(ELEMENTWISE_LINEAR_GRADIENT)
def elementwise_linear_gradient_kernel(
    op: OpView, dY: Array, X: Array, w: Array, dX: Array, dw: Array, db: Array
) -> None:
    x = matrix(op, "axis", X)
    dy = dY.reshape(x.shape)
    matrix(op, "axis", dX)[...] = w * dy
    dw[...] = (dy * x).sum(axis=0)
    db[...] = dy.sum(axis=0)


def _gradients(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    D = specs["w"].size
    sums = {"dw": Total("sum", "dY * X"), "db": Total("sum", "dY")}
    return RowProgram(Cut(1, specs["X"].size // max(D, 1), D), sums, each={"dX": "w * dY"}, lies={"w": "row"})


row_program(ELEMENTWISE_LINEAR_GRADIENT, _gradients)
