"""The largest and the smallest of several tensors: Max, Min. All tensors of one operator have one shape S."""

from __future__ import annotations

from collections.abc import Sequence

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
    as_many,
    blob,
    ends,
    family,
    formula,
    kernel,
    schema,
    show_dims,
)
from tazza.ops.math.sum import same_tensors
from tazza.ops.shape.axis import shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec


def minimum_infer(op: OpView, X: tuple[TensorSpec, ...]) -> TensorSpec:
    return same_tensors(op, "X", X)


def minimum_cost(op: OpView, X: tuple[TensorSpec, ...], Y: TensorSpec) -> Cost:
    del op
    return Cost((len(X) - 1) * Y.size, len(X) * Y.nbytes, Y.nbytes)


def minimum_gradient(g: GradientRequest) -> list[OperatorDef]:
    inputs = [g.I(i) for i in range(len(g.definition.input))]
    return g.emit(f"{g.op.type}Gradient", [g.Y, g.dY, *inputs], [g.GI(i) for i in range(len(inputs))])


def minimum_gradient_infer(
    op: OpView, Y: TensorSpec, dY: TensorSpec, X: tuple[TensorSpec, ...]
) -> tuple[TensorSpec, ...]:
    one = same_tensors(op, "X", X)
    for letter, spec in (("Y", Y), ("dY", dY)):
        if spec.dims is not None and one.dims is not None:
            relation = f"{letter} has the shape {show_dims(spec.dims)}, X0 has {show_dims(one.dims)}"
            op.require(shapes_agree(spec.dims, one.dims), relation)
    return (one,) * len(X)


def minimum_gradient_cost(
    op: OpView, Y: TensorSpec, dY: TensorSpec, X: tuple[TensorSpec, ...], dX: tuple[TensorSpec, ...]
) -> Cost:
    del op, dY
    return Cost(2 * len(dX) * Y.size, (2 + len(X)) * Y.nbytes, len(dX) * Y.nbytes)


def minimum_gradient_kernel(Y: Array, dY: Array, X: tuple[Array, ...], dX: tuple[Array, ...]) -> None:
    for x, dx in zip(X, dX, strict=True):
        np.multiply(dY, x == Y, out=dx)


def _gradient_texts(op: OpView) -> dict[str, str]:
    return {f"dX{i}": f"where(X{i} == Y, dY, 0)" for i in range(len(op.definition.output))}


def _nested(function: str, names: Sequence[str]) -> str:
    """Return `function` of all names as calls of two operands, nested as little as can be."""
    half = len(names) // 2
    return f"{function}({_nested(function, names[:half])}, {_nested(function, names[half:])})" if half else names[0]


@dataclass(frozen=True, slots=True)
class Extreme:
    """What tells the largest from the smallest; `pick` picks one of two."""

    doc: str
    pick: np.ufunc
    example: str


@family(
    {
        "Max": Extreme("Y = the largest of X0, X1 ... at each place", np.maximum, "[3., 5.]"),
        "Min": Extreme("Y = the smallest of X0, X1 ... at each place", np.minimum, "[1., 2.]"),
    }
)
def extremes(type: str, row: Extreme) -> OpSchema:
    """The largest or the smallest of several tensors."""
    made = schema(
        type,
        f"{row.doc}; NaN where one of them is NaN.",
        inputs=[blob("X", FLOAT, variadic=True)],
        outputs=[blob("Y", "X")],
        in_place={"Y": "X"},
        effects=Effects.PURE,
        source="Caffe2",
        example=f"""
        >>> run("{type}", [1.0, 5.0], [3.0, 4.0], [2.0, 2.0])
        array({row.example}, dtype=float32)
        """,
    )
    made.infer(minimum_infer)
    made.cost(minimum_cost)
    made.gradient(minimum_gradient)
    name = type.lower()
    formula(made, lambda op: {"Y": _nested(name, [f"X{i}" for i in range(len(op.definition.input))])})

    @kernel(made)
    def extreme(X: tuple[Array, ...], Y: Array) -> None:
        np.copyto(Y, X[0])
        for x in X[1:]:
            row.pick(Y, x, out=Y)

    return made


@family("MaxGradient", "MinGradient")
def extreme_gradients(type: str) -> OpSchema:
    """The gradient operator, which is the same for both."""
    made = schema(
        type,
        "dX0 = dY where X0 = Y, else 0; dX1 ... Where several are equal, each gets all of dY.",
        inputs=[blob("Y", FLOAT), blob("dY", "Y"), blob("X", "Y", variadic=True)],
        outputs=[blob("dX", "X", variadic=True)],
        effects=Effects.PURE,
        relations=[as_many("dX", "X")],
        no_gradient=ends("second derivatives are not built"),
        example=f"""
        >>> run("{type}", [1.0, 2.0], [5.0, 7.0], [1.0, 0.0], [0.0, 2.0], outputs=2)
        (array([5., 0.], dtype=float32), array([0., 7.], dtype=float32))
        """,
    )
    made.infer(minimum_gradient_infer)
    made.cost(minimum_gradient_cost)
    formula(made, _gradient_texts)
    kernel(made)(minimum_gradient_kernel)
    return made
