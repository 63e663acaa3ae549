"""Reductions of segments: Lengths<R>, SparseLengths<R> and their gradients, for each reducer R: Sum.

    Y[m] = R over the rows of segment m; LENGTHS[m] rows belong to it, one segment behind the other

Letters: M segments; DATA has N rows that are taken in turn, or V rows of which INDICES (I) picks; a row has the shape
S. A segment without rows gives what R gives of nothing. Lengths that do not add up to N (or I), negative ones, and
indices outside of [0, V) are errors that name the position. For each R there are

- `Lengths<R>`: of rows in turn. Its gradient operator is `LengthsIndicesInGradient<R>Gradient`;
- `SparseLengths<R>`: of picked rows, float16 ones too, which are added up in float32. Its gradient is one of rows:
  INDICES, and what `SparseLengthsIndicesInGradient<R>Gradient` gives for each of them;
- `Lengths<R>Gradient`, `SparseLengths<R>Gradient`: the same from lengths alone, with as many rows as these add up to.

Source: Caffe2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tazza.operator import (
    FLOAT,
    INDEX,
    Array,
    BlobSpec,
    Cost,
    DynamicOutput,
    Effects,
    GradientRequest,
    OpSchema,
    OpView,
    Role,
    blob,
    ends,
    family,
    kernel,
    schema,
)
from tazza.ops.sparse.segment import check_rows, starts_of
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec


@dataclass(frozen=True, slots=True)
class Reducer:
    """What makes one row of many.

    Attributes:
        name: R in the names of its operators.
        formula: of Y[m], in words of rows x.
        gradient: of the gradient of each row, in terms of dY[m].
        reduce: writes the result of rows (n, S...) into a row (S...); n may be 0.
        spread: the gradient of each of n rows, given that of their result.
        example: Y for DATA = 1, 2, 3 and LENGTHS = 2, 0, 1.
    """

    name: str
    formula: str
    gradient: str
    reduce: Callable[[Array, Array], None]
    spread: Callable[[Array, int], Array]
    example: str


def _sum(rows: Array, y: Array) -> None:
    np.sum(rows, axis=0, dtype=y.dtype, out=y)


SUM = Reducer("Sum", "sum of x", "dY[m]", _sum, lambda dy, count: dy, "3., 0., 3.")

LENGTHS = blob("LENGTHS", DataType.INT32, "M", role=Role.INDEX, doc="how many rows each segment takes")
INDICES = blob("INDICES", INDEX, "I", role=Role.INDEX, doc="which row of DATA, each in [0, V)")
PICKED = frozenset({DataType.FLOAT, DataType.FLOAT16})
NO_GRADIENT = ends("second derivatives are not built")


# -- forward -----------------------------------------------------------------------------------------------------------


@family({"LengthsSum": SUM})
def lengths_reductions(type: str, reducer: Reducer) -> OpSchema:
    """A reduction of rows in turn."""
    made = schema(
        type,
        f"Y[m] = {reducer.formula} for the rows x of DATA in segment m.",
        inputs=[blob("DATA", FLOAT, "N *S"), LENGTHS],
        outputs=[blob("Y", FLOAT, "M *S")],
        effects=Effects.PURE,
        source="Caffe2",
        example=f"""
        >>> run("{type}", [1.0, 2.0, 3.0], [2, 0, 1])
        array([{reducer.example}], dtype=float32)
        """,
    )

    @made.cost
    def cost(op: OpView, DATA: TensorSpec, LENGTHS: TensorSpec, Y: TensorSpec) -> Cost:
        del op
        return Cost(DATA.size, DATA.nbytes + LENGTHS.nbytes, Y.nbytes)

    @made.gradient
    def maker(g: GradientRequest) -> list[OperatorDef]:
        return g.emit(f"LengthsIndicesInGradient{reducer.name}Gradient", [g.dY, g.LENGTHS, g.like("DATA")], [g.dDATA])

    @kernel(made)
    def compute(op: OpView, DATA: Array, LENGTHS: Array, Y: Array) -> None:
        starts = starts_of(op, LENGTHS, len(DATA), "rows of DATA")
        for m in range(LENGTHS.size):
            reducer.reduce(DATA[starts[m] : starts[m + 1]], Y[m, ...])

    return made


@family({"SparseLengthsSum": SUM})
def sparse_lengths_reductions(type: str, reducer: Reducer) -> OpSchema:
    """A reduction of picked rows."""
    made = schema(
        type,
        f"Y[m] = {reducer.formula} for the rows x = DATA[i] of the INDICES i in segment m.",
        inputs=[blob("DATA", PICKED, "V *S", role=Role.PARAMETER, doc="a table"), INDICES, LENGTHS],
        outputs=[blob("Y", FLOAT, "M *S")],
        effects=Effects.PURE,
        source="Caffe2",
        example=f"""
        >>> run("{type}", [3.0, 1.0, 2.0], [1, 2, 0], [2, 0, 1])
        array([{reducer.example}], dtype=float32)
        """,
    )

    @made.cost
    def cost(op: OpView, DATA: TensorSpec, INDICES: TensorSpec, LENGTHS: TensorSpec, Y: TensorSpec) -> Cost:
        del op
        taken = INDICES.size * (DATA.size // DATA.shape[0] if DATA.shape[0] else 0)
        return Cost(taken, taken * DATA.dtype.itemsize + INDICES.nbytes + LENGTHS.nbytes, Y.nbytes)

    @made.gradient
    def maker(g: GradientRequest) -> list[OperatorDef]:
        rows = g.sparse(0, indices=g.INDICES)
        return g.emit(
            f"SparseLengthsIndicesInGradient{reducer.name}Gradient", [g.dY, g.LENGTHS, g.INDICES], [rows.values]
        )

    @kernel(made)
    def compute(op: OpView, DATA: Array, INDICES: Array, LENGTHS: Array, Y: Array) -> None:
        starts = starts_of(op, LENGTHS, INDICES.size, "INDICES")
        check_rows(op, INDICES, len(DATA))
        for m in range(LENGTHS.size):
            reducer.reduce(DATA[INDICES[starts[m] : starts[m + 1]]], Y[m, ...])

    return made


# -- backward ----------------------------------------------------------------------------------------------------------


def told_gradient_cost(op: OpView, dY: TensorSpec, LENGTHS: TensorSpec, dX: TensorSpec, **rows: TensorSpec) -> Cost:
    del op, rows
    return Cost(0, dY.nbytes + LENGTHS.nbytes, dX.nbytes)


@dataclass(frozen=True, slots=True)
class Counted:
    """A letter that tells a gradient operator how many rows there are, what it is called, and three in an example."""

    by: BlobSpec
    dX: BlobSpec
    noun: str
    three: str


BY_DATA = Counted(
    blob("DATA", None, "N *S", role=Role.SHAPE, doc="of any type: its shape counts alone"),
    blob("dX", FLOAT, "N *S"),
    "rows of DATA",
    "[[0.0]] * 3",
)
BY_INDICES = Counted(
    blob("INDICES", None, "I", role=Role.INDEX, doc="of any type: it counts how many there are"),
    blob("dX", FLOAT, "I *S"),
    "INDICES",
    "[0, 2, 2]",
)


@dataclass(frozen=True, slots=True)
class Spread:
    """A gradient operator: of which reducer, and how many rows it gives."""

    reducer: Reducer
    rows: Counted


@family(
    {
        "LengthsIndicesInGradientSumGradient": Spread(SUM, BY_DATA),
        "SparseLengthsIndicesInGradientSumGradient": Spread(SUM, BY_INDICES),
    }
)
def told_gradients(type: str, row: Spread) -> OpSchema:
    """A gradient operator that is told how many rows there are."""
    made = schema(
        type,
        f"dX[n] = {row.reducer.gradient} for each row n of segment m.",
        inputs=[blob("dY", FLOAT, "M *S"), LENGTHS, row.rows.by],
        outputs=[row.rows.dX],
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="derivative of the forward operator",
        example=f"""
        >>> run("{type}", [[5.0], [6.0], [7.0]], [2, 0, 1], {row.rows.three})[:, 0]
        array([5., 5., 7.], dtype=float32)
        """,
    )
    made.cost(told_gradient_cost)

    @kernel(made)
    def told_gradient(op: OpView, dY: Array, LENGTHS: Array, dX: Array) -> None:
        _spread(row.reducer, dY, starts_of(op, LENGTHS, len(dX), row.rows.noun), dX)

    return made


@family({"LengthsSumGradient": SUM, "SparseLengthsSumGradient": SUM})
def bare_gradients(type: str, reducer: Reducer) -> OpSchema:
    """The gradient of either, which finds the number of rows in the lengths."""
    made = schema(
        type,
        f"dX[n] = {reducer.gradient} for each row n of segment m; there are as many rows as LENGTHS add up to.",
        inputs=[blob("dY", FLOAT, "M *S"), LENGTHS],
        outputs=[blob("dX", FLOAT, "R *S", dynamic=True)],
        effects=Effects.PURE,
        no_gradient=NO_GRADIENT,
        source="derivative of the forward operator",
        example=f"""
        >>> run("{type}", [5.0, 6.0, 7.0], [2, 0, 1])
        array([5., 5., 7.], dtype=float32)
        """,
    )

    @kernel(made)
    def compute(op: OpView, dY: Array, LENGTHS: Array, dX: DynamicOutput) -> None:
        rows = row_count(op, LENGTHS)
        _spread(reducer, dY, starts_of(op, LENGTHS, rows, "rows"), dX.allocate((rows, *dY.shape[1:])))

    return made


def row_count(op: OpView, lengths: Array) -> int:
    """Return how many rows lengths add up to.

    Raises:
        NumericError: one is negative.
    """
    rows = int(np.sum(lengths, dtype=np.int64))
    return int(starts_of(op, lengths, rows, "rows")[-1])


def _spread(reducer: Reducer, dY: Array, starts: Array, dX: Array) -> None:
    for m, dy in enumerate(dY):
        begin, end = starts[m], starts[m + 1]
        dX[begin:end] = reducer.spread(dy, int(end - begin))
