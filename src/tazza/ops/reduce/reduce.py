"""Reductions over axes: ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceL1, ReduceL2.

X has the shape S. The axes in `axes` are reduced, all of them when the list is empty; Y has 1 in their place, or
without `keepdims` lacks them. Gradients get dY, X and Y; dX has the shape of X.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

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
from tazza.ops.shape.axis import shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

REDUCE_ARGS = (
    arg("axes", list[int], [], doc="what to reduce; negative ones count from the end; empty for all"),
    arg("keepdims", bool, True, doc="reduced axes stay, with 1 element"),
)


def reduced_axes(op: OpView, dims: Sequence[int | None]) -> tuple[int, ...]:
    """Return the axes of a blob X that are reduced, from 0 on.

    Raises:
        ShapeError: X has no such axis.
    """
    rank = len(dims)
    axes = cast("list[int]", op.axes)
    relation = f"axes = {axes} are not all axes of X, which has {rank} dimensions {show_dims(dims)}"
    op.require(all(-rank <= axis < rank for axis in axes), relation, "axes count from 0, or from the end with -1")
    return tuple(sorted({axis % rank for axis in axes})) if axes else tuple(range(rank))


def reduce_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    if X.dims is None:
        return TensorSpec(None, X.dtype)
    axes = reduced_axes(op, X.dims)
    kept = [1 if i in axes else extent for i, extent in enumerate(X.dims) if op.keepdims or i not in axes]
    return TensorSpec(tuple(kept), X.dtype)


def reduce_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,), flops=X.size)


def reduce_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit(f"{g.op.type}Gradient", [g.dY, g.X, g.Y], [g.dX])


def reduce_gradient_infer(op: OpView, dY: TensorSpec, X: TensorSpec, Y: TensorSpec) -> TensorSpec:
    expected = reduce_infer(op, X)
    for letter, spec in (("dY", dY), ("Y", Y)):
        if spec.dims is not None and expected.dims is not None:
            relation = f"{letter} has the shape {show_dims(spec.dims)}, reducing X gives {show_dims(expected.dims)}"
            op.require(shapes_agree(spec.dims, expected.dims), relation)
    return X


def reduce_gradient_cost(op: OpView, dY: TensorSpec, X: TensorSpec, Y: TensorSpec, dX: TensorSpec) -> Cost:
    del op
    return streamed((dY, X, Y), (dX,), flops=2 * dX.size)


def reduced_cut(op: OpView, X: TensorSpec) -> Cut | str:
    """Return how X lies as matrices whose rows are what is reduced, or why there are none."""
    return Cut.of(X.shape, reduced_axes(op, X.shape))


def _count(X: Array, axes: tuple[int, ...]) -> int:
    """Return how many elements of X go into one of Y."""
    return math.prod(X.shape[axis] for axis in axes)


def _total(X: Array, axes: tuple[int, ...]) -> Array:
    return np.sum(X, axis=axes, keepdims=True, dtype=X.dtype)


def _mean(X: Array, axes: tuple[int, ...]) -> Array:
    return _total(X, axes) / max(_count(X, axes), 1)  # the mean of nothing is 0, as in Caffe2


def _limits(X: Array) -> tuple[Any, Any]:
    """Return the lowest and the highest finite number of the element type of X."""
    limits = np.finfo(X.dtype) if X.dtype.kind == "f" else np.iinfo(X.dtype)
    return limits.min, limits.max


def _largest(X: Array, axes: tuple[int, ...]) -> Array:
    if _count(X, axes) == 0:
        return np.broadcast_to(np.array(_limits(X)[0], X.dtype), _total(X, axes).shape)
    return X.max(axis=axes, keepdims=True)


def _smallest(X: Array, axes: tuple[int, ...]) -> Array:
    if _count(X, axes) == 0:
        return np.broadcast_to(np.array(_limits(X)[1], X.dtype), _total(X, axes).shape)
    return X.min(axis=axes, keepdims=True)


def _share(dY: Array, X: Array, Y: Array, axes: tuple[int, ...]) -> Array:
    del Y
    return dY / max(_count(X, axes), 1)


def _where_reached(dY: Array, X: Array, Y: Array, axes: tuple[int, ...]) -> Array:
    del axes
    return dY * (X == Y)


def _along(dY: Array, X: Array, Y: Array, axes: tuple[int, ...]) -> Array:
    """Return dY * X / Y, and 0 where Y is 0: there the norm has no derivative, and 0 is a subgradient."""
    del axes
    return np.where(Y == 0, 0, dY * X / np.where(Y == 0, 1, Y))


SUM = {"total": Total("sum", "X")}
REACHED = "dY * (X == Y)"


@dataclass(frozen=True, slots=True)
class Reduction:
    """What tells one reduction from another.

    `forward(X, axes)` keeps all axes; `backward(dY, X, Y, axes)` gets dY and Y with all axes and may broadcast.
    """

    doc: str
    gradient_doc: str
    dtypes: frozenset[DataType]
    forward: Callable[[Array, tuple[int, ...]], Array]
    backward: Callable[[Array, Array, Array, tuple[int, ...]], Array]
    totals: Mapping[str, Total]
    """What a row X is reduced to; `row` is what is made of that, and `slope` of each element with dY and Y."""
    row: Mapping[str, str]
    slope: str
    reduced: str
    """Text of `Y` for X = [[3, -4]] in the example."""
    spread: str
    """Text of `dX` for the same X and dY = [[10]]."""


@family(
    {
        "ReduceSum": Reduction(
            "Y = sum of X over `axes`.",
            "dX = dY, everywhere.",
            SUMMABLE,
            _total,
            lambda dY, X, Y, axes: dY,
            SUM,
            {"Y": "total"},
            "dY",
            "[[-1.]]",
            "[[10., 10.]]",
        ),
        "ReduceMean": Reduction(
            "Y = mean of X over `axes`, 0 where there are no elements.",
            "dX = dY / (number of elements of X for each of Y).",
            FLOAT,
            _mean,
            _share,
            SUM,
            {"Y": "total / count"},
            "dY / count",
            "[[-0.5]]",
            "[[5., 5.]]",
        ),
        "ReduceMax": Reduction(
            "Y = largest of X over `axes`, the lowest finite number where there are no elements.",
            "dX = dY where X = Y, else 0; several that are the largest get dY each.",
            SUMMABLE,
            _largest,
            _where_reached,
            {"Y": Total("max", "X")},
            {},
            REACHED,
            "[[3.]]",
            "[[10.,  0.]]",
        ),
        "ReduceMin": Reduction(
            "Y = smallest of X over `axes`, the highest finite number where there are no elements.",
            "dX = dY where X = Y, else 0; several that are the smallest get dY each.",
            SUMMABLE,
            _smallest,
            _where_reached,
            {"Y": Total("min", "X")},
            {},
            REACHED,
            "[[-4.]]",
            "[[ 0., 10.]]",
        ),
        "ReduceL1": Reduction(
            "Y = sum of abs(X) over `axes`.",
            "dX = dY * sign(X), 0 where X is 0.",
            FLOAT,
            lambda X, axes: _total(np.abs(X), axes),
            lambda dY, X, Y, axes: dY * np.sign(X),
            {"Y": Total("sum", "abs(X)")},
            {},
            "dY * sign(X)",
            "[[7.]]",
            "[[ 10., -10.]]",
        ),
        "ReduceL2": Reduction(
            "Y = square root of the sum of X * X over `axes`.",
            "dX = dY * X / Y, 0 where Y is 0.",
            FLOAT,
            lambda X, axes: np.sqrt(_total(np.square(X), axes)),
            _along,
            {"squares": Total("sum", "X * X")},
            {"Y": "sqrt(squares)"},
            "where(Y == 0, 0, dY * X / Y)",
            "[[5.]]",
            "[[ 6., -8.]]",
        ),
    }
)
def reductions(type: str, row: Reduction) -> OpSchema:
    """A reduction over axes."""
    made = schema(
        type,
        row.doc,
        inputs=[blob("X", row.dtypes, "*S")],
        outputs=[blob("Y", "X")],
        args=REDUCE_ARGS,
        effects=Effects.PURE,
        source="Caffe2",
        example=f'>>> run("{type}", [[3.0, -4.0]], axes=[1])\narray({row.reduced}, dtype=float32)',
    )
    made.infer(reduce_infer)
    made.cost(reduce_cost)
    made.gradient(reduce_gradient)
    made.batched("X", when=lambda op: bool(op.axes) and min(op.axes) >= 1)

    @kernel(made)
    def reduce(op: OpView, X: Array, Y: Array) -> None:
        Y[...] = row.forward(X, reduced_axes(op, X.shape)).reshape(Y.shape)

    def rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
        cut = reduced_cut(op, specs["X"])
        return cut if isinstance(cut, str) else RowProgram(cut, row.totals, row.row)

    row_program(made, rows)
    return made


@family(gradients_of(reductions))
def reduction_gradients(type: str, row: Reduction) -> OpSchema:
    """The gradient operator of a reduction."""
    made = schema(
        type,
        row.gradient_doc,
        inputs=[blob("dY", row.dtypes), blob("X", "dY", "*S"), blob("Y", "dY")],
        outputs=[blob("dX", like="X")],
        args=REDUCE_ARGS,
        effects=Effects.PURE,
        no_gradient=ends("second derivatives are not built"),
        source="derivative of the forward operator",
        example=f"""
        >>> X = [[3.0, -4.0]]
        >>> run("{type}", [[10.0]], X, run("{type.removesuffix("Gradient")}", X, axes=[1]), axes=[1])
        array({row.spread}, dtype=float32)
        """,
    )
    made.infer(reduce_gradient_infer)
    made.cost(reduce_gradient_cost)

    @kernel(made)
    def reduce_gradient_kernel(op: OpView, dY: Array, X: Array, Y: Array, dX: Array) -> None:
        axes = reduced_axes(op, X.shape)
        kept = tuple(1 if i in axes else extent for i, extent in enumerate(X.shape))
        dX[...] = row.backward(dY.reshape(kept), X, Y.reshape(kept), axes)

    def rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
        cut = reduced_cut(op, specs["X"])
        if isinstance(cut, str):
            return cut
        return RowProgram(cut, each={"dX": row.slope}, lies={"dY": "row", "Y": "row"})

    row_program(made, rows)
    return made
