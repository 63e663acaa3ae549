"""Vectors of length 1 along one axis: Normalize (Euclidean length), NormalizeL1 (sum of absolute values).

X, Y, dY and dX have one shape S; x is the vector along `axis` at one place, |x| its length.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Cut,
    Effects,
    GradientRequest,
    OpView,
    RowProgram,
    Total,
    arg,
    blob,
    ends,
    kernel,
    not_written,
    row_program,
    schema,
)
from tazza.ops.shape.axis import cut
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

AXIS = arg("axis", int, -1, doc="along which axis the vectors lie")

SHORTEST = 1e-12
"""A shorter vector is divided by this much, so that a zero vector stays one."""

NORMALIZE = schema(
    "Normalize",
    "Y = X / max(|x|, 1e-12) with |x| = sqrt(sum of X * X along `axis`).",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", "X", "*S")],
    args=[AXIS],
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Normalize", [[3.0, 4.0], [0.0, 0.0]])
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """,
)


def normalize_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is not None:
        cut(op, "axis", "X", X.dims)
    return TensorSpec(X.dims, X.dtype)


def normalize_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(3 * X.size, X.nbytes, Y.nbytes)


NORMALIZE.infer(normalize_infer)
NORMALIZE.cost(normalize_cost)


@NORMALIZE.gradient
def normalize_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("NormalizeGradient", [g.X, g.dY], [g.dX])


@kernel(NORMALIZE)
def normalize(op: OpView, X: Array, Y: Array) -> None:
    Y[...] = X / np.maximum(_length(X, op.axis), SHORTEST)


MOST = {"most": Total("max", "abs(X)")}
SQUARES = {**MOST, "squares": Total("sum", "square(X * small)")}
SMALL = {"small": "where(most > 1e15, 1e-25, 1)"}
"""What keeps sums in float32 from overflowing, where an element is very large."""
DIVISOR = {**SMALL, "length": "sqrt(squares) / small", "divisor": f"max(length, {SHORTEST})"}


def _vectors(op: OpView, X: TensorSpec) -> Cut | str:
    """Return the cut whose rows are the vectors that have a length."""
    return Cut.of(X.shape, [op.axis % len(X.shape)])


def _normalized(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    found = _vectors(op, specs["X"])
    return found if isinstance(found, str) else RowProgram(found, SQUARES, DIVISOR, {"Y": "X / divisor"})


row_program(NORMALIZE, _normalized)


NORMALIZE_GRADIENT = schema(
    "NormalizeGradient",
    """dX = (dY - Y * (sum of Y * dY along `axis`)) / |x|; where |x| is below 1e-12, dX = dY / 1e-12.

    Below, the forward operator divides by a constant.""",
    inputs=[blob("X", FLOAT, "*S"), blob("dY", "X", "*S")],
    outputs=[blob("dX", like="X")],
    args=[AXIS],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("NormalizeGradient", [[3.0, 4.0]], [[25.0, 0.0]])
    array([[ 3.2, -2.4]], dtype=float32)
    """,
)


@NORMALIZE_GRADIENT.infer
def normalize_gradient_infer(op: OpView, X: TensorSpec, dY: TensorSpec) -> TensorSpec:
    del dY
    return normalize_infer(op, X)


@NORMALIZE_GRADIENT.cost
def normalize_gradient_cost(op: OpView, X: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op
    return Cost(8 * X.size, X.nbytes + dY.nbytes, dX.nbytes)


@kernel(NORMALIZE_GRADIENT)
def normalize_gradient_kernel(op: OpView, X: Array, dY: Array, dX: Array) -> None:
    length = _length(X, op.axis)
    divisor = np.maximum(length, SHORTEST)
    y = np.where(length < SHORTEST, 0, X / divisor)
    dX[...] = (dY - y * (y * dY).sum(axis=op.axis, keepdims=True)) / divisor


def _gradients(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    """The length of each vector, and what its slope has in its direction: in float64, since dY may lie along X."""
    found = _vectors(op, specs["X"])
    if isinstance(found, str):
        return found
    totals = {"squares": Total("sum", "X * X"), "dots": Total("sum", "X * dY")}
    row = {"length": "sqrt(squares)", "divisor": f"max(length, {SHORTEST})"}
    row["along"] = f"where(length < {SHORTEST}, 0, dots / divisor)"
    return RowProgram(found, totals, row, {"dX": "(dY - X / divisor * along) / divisor"}, wide=True)


row_program(NORMALIZE_GRADIENT, _gradients)


NORMALIZE_L1 = schema(
    "NormalizeL1",
    "Y = X / |x| with |x| = sum of absolute values along `axis`; 0 where that is 0.",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", "X", "*S")],
    args=[AXIS],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Caffe2",
    example="""
    >>> run("NormalizeL1", [[3.0, -1.0], [0.0, 0.0]])
    array([[ 0.75, -0.25],
           [ 0.  ,  0.  ]], dtype=float32)
    """,
)
NORMALIZE_L1.infer(normalize_infer)
NORMALIZE_L1.cost(normalize_cost)


@kernel(NORMALIZE_L1)
def normalize_l1(op: OpView, X: Array, Y: Array) -> None:
    length = np.abs(X).sum(axis=op.axis, keepdims=True, dtype=np.float64)
    Y[...] = X / np.where(length == 0, 1, length)


def _length(X: Array, axis: int) -> Array:
    """Return the Euclidean length of each vector in float64, with the axis kept."""
    return np.sqrt(np.square(X, dtype=np.float64).sum(axis=axis, keepdims=True))


def _normalized_l1(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    found = _vectors(op, specs["X"])
    if isinstance(found, str):
        return found
    totals = {**MOST, "sizes": Total("sum", "abs(X) * small")}
    row = {**SMALL, "length": "sizes / small", "divisor": "where(length == 0, 1, length)"}
    return RowProgram(found, totals, row, {"Y": "X / divisor"})


row_program(NORMALIZE_L1, _normalized_l1)
