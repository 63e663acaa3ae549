"""The mean of several tensors: Mean. All tensors of one operator have one shape S; nothing is broadcast.

1 / n is rounded to float32, whatever the type of n tensors is, as in Caffe2.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    blob,
    ends,
    formula,
    kernel,
    schema,
)
from tazza.ops.math.sum import same_tensors
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

REAL = frozenset({DataType.FLOAT, DataType.DOUBLE})

MEAN = schema(
    "Mean",
    "Y = (X0 + X1 + ...) / n, from left to right.",
    inputs=[blob("X", REAL, variadic=True)],
    outputs=[blob("Y", "X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Mean", [1.0, 2.0], [2.0, 6.0])
    array([1.5, 4. ], dtype=float32)
    """,
)
MEAN_GRADIENT = schema(
    "MeanGradient",
    "dX0 = dX1 = ... = dY / n, for n outputs.",
    inputs=[blob("dY", REAL, "*S")],
    outputs=[blob("dX", like="dY", variadic=True)],
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("MeanGradient", [1.0, 2.0], outputs=2)
    (array([0.5, 1. ], dtype=float32), array([0.5, 1. ], dtype=float32))
    """,
)


@MEAN.infer
def mean_infer(op: OpView, X: tuple[TensorSpec, ...]) -> TensorSpec:
    return same_tensors(op, "X", X)


@MEAN.cost
def mean_cost(op: OpView, X: tuple[TensorSpec, ...], Y: TensorSpec) -> Cost:
    del op
    return Cost(len(X) * Y.size, len(X) * Y.nbytes, Y.nbytes)


@MEAN_GRADIENT.infer
def mean_gradient_infer(op: OpView, dY: TensorSpec) -> tuple[TensorSpec, ...]:
    return (dY,) * len(op.output_letters)


@MEAN_GRADIENT.cost
def mean_gradient_cost(op: OpView, dY: TensorSpec, dX: tuple[TensorSpec, ...]) -> Cost:
    del op
    return Cost(dY.size, dY.nbytes, len(dX) * dY.nbytes)


@MEAN.gradient
def mean_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("MeanGradient", [g.dY], [g.GI(i) for i in range(len(g.definition.input))])


def share(count: int) -> float:
    """Return 1 / count, in float32."""
    return float(np.float32(1) / np.float32(count))


formula(
    MEAN,
    lambda op: {
        "Y": f"({' + '.join(f'X{i}' for i in range(len(op.definition.input)))}) * {share(len(op.definition.input))!r}"
    },
)


@kernel(MEAN)
def mean(X: tuple[Array, ...], Y: Array) -> None:
    total = X[0].copy()
    for x in X[1:]:
        total += x
    np.multiply(total, share(len(X)), out=Y)


@kernel(MEAN_GRADIENT)
def mean_gradient_kernel(dY: Array, dX: tuple[Array, ...]) -> None:
    shared = dY * dY.dtype.type(share(len(dX)))
    for dx in dX:
        dx[...] = shared


def _shares(op: OpView) -> dict[str, str]:
    count = len(op.output_letters)
    return {f"dX{i}": f"dY * {float(share(count))}" for i in range(count)}


formula(MEAN_GRADIENT, _shares)
