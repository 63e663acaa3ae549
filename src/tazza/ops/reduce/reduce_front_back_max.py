"""The largest over leading or trailing axes: ReduceFrontMax, ReduceBackMax.

X is looked at as in `reduce_front_back`: R elements that are reduced, K columns that stay. With lengths only the first
lengths[j] elements of column j count, but the first one always does. No elements give 0. Source: Caffe2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
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
from tazza.ops.reduce.reduce_front_back import ARGS, LENGTHS, columns_of, kept_dims, matrix_cut, weights_of
from tazza.ops.shape.axis import shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec


@dataclass(frozen=True, slots=True)
class Largest:
    """Which axes are reduced, text of `Y` for X = [[2, 6], [8, 4]], and of `dX` for dY = [1, 3]."""

    front: bool
    reduced: str
    spread: str


def counted(op: OpView, R: int, lengths: Array | None) -> Array | bool:
    """Return which elements (R, K) count.

    Raises:
        NumericError: a length is above R.
    """
    return weights_of(op, R, None if lengths is None else np.maximum(lengths, min(R, 1)))[0]


@family(
    {
        "ReduceFrontMax": Largest(True, "[8., 6.]", "[[0., 3.],\n       [1., 0.]]"),
        "ReduceBackMax": Largest(False, "[6., 8.]", "[[0., 1.],\n       [3., 0.]]"),
    }
)
def matrix_maxima(type: str, row: Largest) -> OpSchema:
    """The largest over leading or trailing axes."""
    made = schema(
        type,
        f"Y = the largest of X over the {'first' if row.front else 'last'} `num_reduce_dim` axes.",
        inputs=[blob("X", FLOAT), LENGTHS],
        outputs=[blob("Y", "X")],
        args=ARGS,
        effects=Effects.PURE,
        source="Caffe2",
        example=f'>>> run("{type}", [[2.0, 6.0], [8.0, 4.0]])\narray({row.reduced}, dtype=float32)',
    )

    @made.infer
    def infer(op: OpView, X: TensorSpec, lengths: TensorSpec | None) -> TensorSpec:
        return TensorSpec(None if X.dims is None else kept_dims(op, tuple(X.dims), lengths, front=row.front), X.dtype)

    @made.cost
    def cost(op: OpView, X: TensorSpec, lengths: TensorSpec | None, Y: TensorSpec) -> Cost:
        del op
        return streamed((X, lengths), (Y,), flops=X.size)

    @made.gradient
    def gradient(g: GradientRequest) -> list[OperatorDef]:
        lengths = [g.lengths] if g.op.has_input("lengths") else []
        return g.emit(f"{type}Gradient", [g.dY, g.X, g.Y, *lengths], [g.dX])

    @kernel(made)
    def reduce(op: OpView, X: Array, lengths: Array | None, Y: Array) -> None:
        columns = columns_of(op, X, front=row.front)
        counts = counted(op, len(columns), lengths)
        if len(columns) == 0:
            Y[...] = 0
        else:
            largest: Array = np.fmax.reduce(columns, axis=0, initial=-np.inf, where=counts)
            # As in Caffe2: a NaN that stands first stays, others are passed over.
            np.copyto(largest, columns[0], where=np.isnan(columns[0]))
            Y[...] = largest.reshape(Y.shape)

    def rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
        cut = matrix_cut(op, specs["X"], front=row.front)
        return cut if isinstance(cut, str) else RowProgram(cut, {"Y": Total("first_max", "X")})

    row_program(made, rows)
    return made


@family(gradients_of(matrix_maxima))
def matrix_maximum_gradients(type: str, row: Largest) -> OpSchema:
    """The gradient operator of the largest over leading or trailing axes."""
    made = schema(
        type,
        "dX = dY for each element that counts and is as large as Y, else 0.",
        inputs=[blob("dY", FLOAT), blob("X", FLOAT), blob("Y", FLOAT), LENGTHS],
        outputs=[blob("dX", like="X")],
        args=ARGS,
        effects=Effects.PURE,
        no_gradient=ends("second derivatives are not built"),
        source="derivative of the forward operator",
        example=f"""
    >>> X = [[2.0, 6.0], [8.0, 4.0]]
    >>> run("{type}", [1.0, 3.0], X, run("{type.removesuffix("Gradient")}", X))
    array({row.spread.replace(chr(10), chr(10) + "    ")}, dtype=float32)
    """,
    )

    @made.infer
    def infer(op: OpView, dY: TensorSpec, X: TensorSpec, Y: TensorSpec, lengths: TensorSpec | None) -> TensorSpec:
        if X.dims is not None:
            kept = kept_dims(op, tuple(X.dims), lengths, front=row.front)
            for name, one in (("dY", dY), ("Y", Y)):
                fits = one.dims is None or shapes_agree(one.dims, kept)
                op.require(
                    fits, f"{name} has the shape {show_dims(one.dims or ())}, reducing X gives {show_dims(kept)}"
                )
        return X

    @made.cost
    def cost(op: OpView, X: TensorSpec, dX: TensorSpec, dY: TensorSpec, Y: TensorSpec, **others: TensorSpec) -> Cost:
        del op, others
        return streamed((X, dY, Y), (dX,), flops=X.size)

    @kernel(made)
    def spread(op: OpView, dY: Array, X: Array, Y: Array, lengths: Array | None, dX: Array) -> None:
        columns = columns_of(op, X, front=row.front)
        hit = (columns == Y.reshape(-1)) & counted(op, len(columns), lengths)
        if lengths is not None:
            hit &= lengths.reshape(-1) > 0  # of none the first is the largest, and gets nothing
        found = np.where(hit, dY.reshape(-1), np.float32(0))
        dX[...] = (found if row.front else found.T).reshape(dX.shape)

    def rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
        cut = matrix_cut(op, specs["X"], front=row.front)
        if isinstance(cut, str):
            return cut
        return RowProgram(cut, each={"dX": "where(X == Y, dY, 0)"}, lies={"Y": "row", "dY": "row"})

    row_program(made, rows)
    return made
