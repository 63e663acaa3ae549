"""Reductions over leading or trailing axes: ReduceFrontSum, ReduceFrontMean, ReduceBackSum, ReduceBackMean.

X is looked at as a matrix: its first (Front) or last (Back) `num_reduce_dim` axes are the R elements that are reduced,
the others the K columns that stay. Y has the shape of the latter. With an input lengths (K), of each column j only the
first lengths[j] elements count; `num_reduce_dim` is 1 then. A mean over no elements is 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import (
    Array,
    Cost,
    Cut,
    Dims,
    Effects,
    GradientRequest,
    OpSchema,
    OpView,
    Role,
    RowProgram,
    Total,
    arg,
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
from tazza.ops.math.sum import SUMMABLE
from tazza.ops.shape.axis import agree, product, require_within, shapes_agree, unknown_dims
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

ARGS = (arg("num_reduce_dim", int, 1, minimum=0, doc="how many axes are reduced"),)
LENGTHS = blob("lengths", DataType.INT32, optional=True, role=Role.INDEX, doc="(K) elements that count")


def is_front(op: OpView) -> bool:
    """Whether the first axes are reduced rather than the last."""
    return matrix_reductions.rows[op.type.removesuffix("Gradient")].front


def is_mean(op: OpView) -> bool:
    """Whether the sum is divided by the number of elements."""
    return matrix_reductions.rows[op.type.removesuffix("Gradient")].mean


def kept_dims(op: OpView, dims: Dims, lengths: TensorSpec | None, *, front: bool) -> Dims:
    """Return the extents of X that stay, where the first axes are reduced or the last; checks lengths.

    Raises:
        ShapeError: X has too few axes, or lengths does not fit.
    """
    count: int = op.num_reduce_dim
    relation = f"num_reduce_dim = {count}, X has only {len(dims)} dimensions {show_dims(dims)}"
    op.require(count <= len(dims), relation)
    kept = dims[count:] if front else dims[: len(dims) - count]
    if lengths is not None:
        op.require(count == 1, f"num_reduce_dim = {count} with an input lengths, it must be 1 then")
        if lengths.dims is not None:
            columns = product(kept)
            relation = f"lengths has the shape {show_dims(lengths.dims)}, X {show_dims(dims)} has {columns} columns"
            op.require(agree(product(lengths.dims), columns), relation, "one for each element of Y")
    return kept


def infer(op: OpView, X: TensorSpec, lengths: TensorSpec | None) -> TensorSpec:
    return TensorSpec(None if X.dims is None else kept_dims(op, tuple(X.dims), lengths, front=is_front(op)), X.dtype)


def cost(op: OpView, X: TensorSpec, lengths: TensorSpec | None, Y: TensorSpec) -> Cost:
    del op
    return streamed((X, lengths), (Y,), flops=X.size)


def gradient(g: GradientRequest) -> list[OperatorDef]:
    lengths = [g.lengths] if g.op.has_input("lengths") else []
    return g.emit(f"{g.op.type}Gradient", [g.dY, g.X, *lengths], [g.dX])


def columns_of(op: OpView, X: Array, *, front: bool) -> Array:
    """Return a view (R, K) of X, where that is possible."""
    count = op.num_reduce_dim if front else X.ndim - op.num_reduce_dim
    rows = int(np.prod(X.shape[:count], dtype=np.int64))
    matrix = X.reshape(rows, int(np.prod(X.shape[count:], dtype=np.int64)))
    return matrix if front else matrix.T


def weights_of(op: OpView, R: int, lengths: Array | None) -> tuple[Array | bool, Array | int]:
    """Return which elements (R, K) count, and how many they are in each column, at least 1.

    Raises:
        NumericError: a length is below 0 or above R.
    """
    if lengths is None:
        return True, max(R, 1)
    require_within(op, "lengths", lengths, 0, R + 1, f"a column has {R} rows")
    return np.arange(R)[:, None] < lengths.reshape(-1), np.maximum(lengths.reshape(-1), 1)


def divide(total: Array, count: Array | int) -> Array:
    """Return total / count, for integers rounded to zero."""
    if total.dtype.kind == "f":
        return total / np.asarray(count, total.dtype)
    return np.sign(total) * (np.abs(total) // count)


def matrix_cut(op: OpView, X: TensorSpec, *, front: bool) -> Cut | str:
    """Return how X lies as a matrix whose rows are what is reduced, or why that is not all there is to say."""
    if op.has_input("lengths"):
        return "lengths say which elements count"
    count: int = op.num_reduce_dim if front else len(X.shape) - op.num_reduce_dim
    first, last = math.prod(X.shape[:count]), math.prod(X.shape[count:])
    return Cut(1, first, last) if front else Cut(first, last)


def _reduced_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    cut = matrix_cut(op, specs["X"], front=is_front(op))
    if isinstance(cut, str):
        return cut
    sums = {"total": Total("sum", "X")}
    return RowProgram(cut, sums, row={"Y": "total / count" if is_mean(op) else "total"})


def _spread_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    cut = matrix_cut(op, specs["dX"], front=is_front(op))
    if isinstance(cut, str):
        return cut
    row = {"share": "dY / count" if is_mean(op) else "dY"}
    return RowProgram(cut, row=row, each={"dX": "share"}, lies={"dY": "row"})


def reduce_columns(op: OpView, X: Array, lengths: Array | None, Y: Array) -> None:
    columns = columns_of(op, X, front=is_front(op))
    counts, number = weights_of(op, columns.shape[0], lengths)
    total = np.sum(np.where(counts, columns, 0), axis=0, dtype=X.dtype)
    Y[...] = (divide(total, number) if is_mean(op) else total).reshape(Y.shape)


def gradient_infer(op: OpView, dY: TensorSpec, X: TensorSpec, lengths: TensorSpec | None) -> TensorSpec:
    dims = X.dims
    if X.dtype is DataType.INT64 and dims is not None and len(dims) == 1:
        shape = op.value_of("X")
        dims = unknown_dims(op, "X", dims[0]) if shape is None else tuple(shape.tolist())
    if dims is None:
        return TensorSpec(None, dY.dtype)
    kept = kept_dims(op, tuple(dims), lengths, front=is_front(op))
    if dY.dims is not None:
        op.require(
            shapes_agree(dY.dims, kept), f"dY has the shape {show_dims(dY.dims)}, reducing X gives {show_dims(kept)}"
        )
    return TensorSpec(dims, dY.dtype)


def gradient_cost(op: OpView, dY: TensorSpec, X: TensorSpec, lengths: TensorSpec | None, dX: TensorSpec) -> Cost:
    del op, X
    return streamed((dY, lengths), (dX,), flops=dX.size)


def spread_columns(op: OpView, dY: Array, lengths: Array | None, dX: Array) -> None:
    spread = np.empty(dX.shape, dX.dtype)
    columns = columns_of(op, spread, front=is_front(op))
    counts, number = weights_of(op, columns.shape[0], lengths)
    row = dY.reshape(-1)
    columns[...] = np.where(counts, divide(row, number) if is_mean(op) else row, 0)
    dX[...] = spread


@dataclass(frozen=True, slots=True)
class Matrix:
    """What tells one reduction from another: which axes are reduced, and whether the sum is divided."""

    front: bool
    mean: bool
    reduced: str
    """Text of `Y` for X = [[2, 6], [4, 8]] in the example."""
    spread: str
    """Text of `dX` for dY = [2, 6]."""


@family(
    {
        "ReduceFrontSum": Matrix(True, False, "[ 6., 14.]", "[[2., 6.],\n       [2., 6.]]"),
        "ReduceBackSum": Matrix(False, False, "[ 8., 12.]", "[[2., 2.],\n       [6., 6.]]"),
        "ReduceFrontMean": Matrix(True, True, "[3., 7.]", "[[1., 3.],\n       [1., 3.]]"),
        "ReduceBackMean": Matrix(False, True, "[4., 6.]", "[[1., 1.],\n       [3., 3.]]"),
    }
)
def matrix_reductions(type: str, row: Matrix) -> OpSchema:
    """A reduction over leading or trailing axes."""
    what, axes = "mean" if row.mean else "sum", "first" if row.front else "last"
    made = schema(
        type,
        f"Y = {what} of X over the {axes} `num_reduce_dim` axes.",
        inputs=[blob("X", SUMMABLE), LENGTHS],
        outputs=[blob("Y", "X")],
        args=ARGS,
        effects=Effects.PURE,
        source="Caffe2",
        example=f'>>> run("{type}", [[2.0, 6.0], [4.0, 8.0]])\narray({row.reduced}, dtype=float32)',
    )
    made.infer(infer)
    made.cost(cost)
    made.gradient(gradient)
    kernel(made)(reduce_columns)
    row_program(made, _reduced_rows)
    return made


@family(gradients_of(matrix_reductions))
def matrix_reduction_gradients(type: str, row: Matrix) -> OpSchema:
    """The gradient operator of a reduction over leading or trailing axes."""
    made = schema(
        type,
        f"dX = dY{' / (elements that count)' if row.mean else ''} for each element that counts, else 0.",
        inputs=[blob("dY", SUMMABLE), blob("X", role=Role.SHAPE, doc="or, if a list of int64, its shape"), LENGTHS],
        outputs=[blob("dX", "dY")],
        args=ARGS,
        effects=Effects.PURE,
        no_gradient=ends("second derivatives are not built"),
        source="derivative of the forward operator",
        example=f'>>> run("{type}", [2.0, 6.0], np.zeros((2, 2)))\narray({row.spread}, dtype=float32)',
    )
    made.infer(gradient_infer)
    made.cost(gradient_cost)
    kernel(made)(spread_columns)
    row_program(made, _spread_rows)
    return made
