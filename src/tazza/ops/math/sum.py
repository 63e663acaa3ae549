"""Sums of whole tensors: Sum, SumInt, WeightedSum. All tensors of one operator have one shape S: no broadcasting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tazza.errors import DTypeError, SchemaError
from tazza.operator import (
    FLOAT,
    HALVES,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    as_many,
    blob,
    ends,
    formula,
    kernel,
    not_written,
    pairs,
    schema,
    show_dims,
)
from tazza.ops.shape.axis import require_one_element, shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

SUMMABLE = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.INT32, DataType.INT64})

SUM = schema(
    "Sum",
    "Y = X0 + X1 + ..., from left to right.",
    inputs=[blob("X", SUMMABLE, variadic=True, elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("Sum", [1, 2], [10, 20], [100, 200])
    array([111, 222], dtype=int32)
    """,
)


SUM.hands_on("X", when=lambda op: len(op.input_letters) == 1)
SUM.commutes("X")


def same_tensors(op: OpView, letter: str, specs: Sequence[TensorSpec]) -> TensorSpec:
    """Return the spec that all of a variadic input have, as far as known.

    Raises:
        ShapeError, DTypeError: two of them differ.
    """
    k = next((i for i, spec in enumerate(specs) if spec.shape_known), 0)
    one = specs[k]
    for i, spec in enumerate(specs):
        if spec.dtype is not one.dtype:
            message = f"{letter}{i} is {spec.dtype.label}, {letter}{k} is {one.dtype.label}"
            raise op.error(DTypeError, message, "all must have one type: insert a Cast")
        if spec.dims is not None and one.dims is not None:
            message = f"{letter}{i} has the shape {show_dims(spec.dims)}, {letter}{k} has {show_dims(one.dims)}"
            op.require(
                shapes_agree(spec.dims, one.dims), message, "all must have one shape, nothing is broadcast; see Add"
            )
    return TensorSpec(one.dims, one.dtype)


@SUM.infer
def sum_infer(op: OpView, X: tuple[TensorSpec, ...]) -> TensorSpec:
    return same_tensors(op, "X", X)


@SUM.cost
def sum_cost(op: OpView, X: tuple[TensorSpec, ...], Y: TensorSpec) -> Cost:
    del op
    return Cost((len(X) - 1) * Y.size, len(X) * Y.nbytes, Y.nbytes)


@SUM.gradient
def sum_gradient(g: GradientRequest) -> list[OperatorDef]:
    for i in range(len(g.definition.input)):
        g.pass_to(i, g.dY)
    return []


def sum_text(op: OpView) -> str:
    """Return the formula of a sum of all inputs."""
    return " + ".join(f"X{i}" for i in range(len(op.definition.input)))


formula(SUM, lambda op: {"Y": sum_text(op)})


@kernel(SUM)
def sum_(X: tuple[Array, ...], Y: Array) -> None:
    if len(X) == 1:
        np.copyto(Y, X[0])
        return
    np.add(X[0], X[1], out=Y)
    for x in X[2:]:
        np.add(Y, x, out=Y)


SUM_INT = schema(
    "SumInt",
    "Y = X0 + X1 + ..., from left to right; as Sum, but without a gradient.",
    inputs=[blob("X", SUMMABLE, variadic=True, elsewhere=HALVES)],
    outputs=[blob("Y", like="X")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none; that of Sum is there"),
    source="Caffe2",
    example="""
    >>> run("SumInt", [1, 2], [10, 20])
    array([11, 22], dtype=int32)
    """,
)
SUM_INT.infer(sum_infer)
SUM_INT.cost(sum_cost)
kernel(SUM_INT)(sum_)


WEIGHTED_SUM = schema(
    "WeightedSum",
    """Y = w0 * X0 + w1 * X1 + ...; inputs X0, w0, X1, w1 ...

    The weights get gradients only with `grad_on_w`.""",
    inputs=[
        blob("X", FLOAT, "#S", variadic=True, doc="the first one says the shape"),
        blob("w", FLOAT, variadic=True, role=Role.PARAMETER, doc="one element each, of any rank"),
    ],
    outputs=[blob("Y", "X")],
    args=[arg("grad_on_w", int, 0, doc="the gradient operator gives gradients of the weights too")],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    relations=[pairs("X", "w")],
    source="Caffe2",
    example="""
    >>> run("WeightedSum", [1.0, 2.0], [10.0], [3.0, 4.0], [-1.0])
    array([ 7., 16.], dtype=float32)
    """,
)


def weighted_tensors(op: OpView, X: tuple[TensorSpec, ...], w: tuple[TensorSpec, ...]) -> TensorSpec:
    """Return the spec of the first X; checks that the weights are single numbers."""
    for i, weight in enumerate(w):
        require_one_element(op, f"w{i}", weight.dims)
    return TensorSpec(X[0].dims, X[0].dtype)


@WEIGHTED_SUM.infer
def weighted_sum_infer(op: OpView, X: tuple[TensorSpec, ...], w: tuple[TensorSpec, ...]) -> TensorSpec:
    return weighted_tensors(op, X, w)


@WEIGHTED_SUM.cost
def weighted_sum_cost(op: OpView, X: tuple[TensorSpec, ...], w: tuple[TensorSpec, ...], Y: TensorSpec) -> Cost:
    del op
    return Cost((2 * len(X) - 1) * Y.size, len(X) * Y.nbytes + sum(weight.nbytes for weight in w), Y.nbytes)


@WEIGHTED_SUM.gradient
def weighted_sum_gradient(g: GradientRequest) -> list[OperatorDef]:
    count = len(g.definition.input)
    tensors, weights = range(0, count, 2), range(1, count, 2)
    # The tensors matter for the gradients of their weights only.
    inputs = [g.I(i) if g.op.grad_on_w or i in weights else g.like(i) for i in range(count)]
    outputs = [g.GI(i) for i in (*tensors, *(weights if g.op.grad_on_w else ()))]
    return g.emit("WeightedSumGradient", [g.dY, *inputs], outputs)


formula(
    WEIGHTED_SUM,
    lambda op: {"Y": " + ".join(f"X{i} * w{i}" for i in range(len(op.definition.input) // 2))},
    align=lambda op, specs: {name: () for name in specs if name.startswith("w")},
)


@kernel(WEIGHTED_SUM)
def weighted_sum(X: tuple[Array, ...], w: tuple[Array, ...], Y: Array) -> None:
    np.multiply(X[0], w[0].reshape(()), out=Y)
    for x, weight in zip(X[1:], w[1:], strict=True):
        np.add(Y, x * weight.reshape(()), out=Y)


WEIGHTED_SUM_GRADIENT = schema(
    "WeightedSumGradient",
    """dX0 = w0 * dY, dX1 = w1 * dY ...; with `grad_on_w` then dw0 = sum of X0 * dY, dw1 ...

    Inputs dY, X0, w0, X1, w1 ...""",
    inputs=[
        blob("dY", FLOAT, "*S"),
        blob("X", None, "#S", variadic=True, doc="without `grad_on_w` of any type: not read"),
        blob("w", "dY", variadic=True, role=Role.PARAMETER),
    ],
    outputs=[blob("dX", like="dY", variadic=True), blob("dw", "dY", "1", variadic=True, optional=True)],
    args=[arg("grad_on_w", int, 0, doc="give gradients of the weights too")],
    effects=Effects.PURE,
    relations=[pairs("X", "w"), as_many("dX", "X")],
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("WeightedSumGradient", [1.0, 2.0], [3.0, 4.0], [10.0], grad_on_w=1, outputs=2)
    (array([10., 20.], dtype=float32), array([11.], dtype=float32))
    """,
)


@WEIGHTED_SUM_GRADIENT.name_outputs
def weighted_sum_gradient_outputs(op: OpView, count: int) -> tuple[str, ...]:
    count_of_pairs = op.input_letters.count("w")
    letters = ("dX",) * count_of_pairs + ("dw",) * (count_of_pairs if op.grad_on_w else 0)
    if count != len(letters):
        given = f"{count_of_pairs} pairs of inputs with grad_on_w = {op.grad_on_w}"
        message = f"{count} outputs, it gives {len(letters)} for {given}"
        raise op.error(SchemaError, message)
    return letters


@WEIGHTED_SUM_GRADIENT.infer
def weighted_sum_gradient_infer(
    op: OpView, dY: TensorSpec, X: tuple[TensorSpec, ...], w: tuple[TensorSpec, ...]
) -> tuple[TensorSpec, ...]:
    weighted_tensors(op, X, w)
    for x in X if op.grad_on_w else ():
        if x.dtype is not dY.dtype:
            raise op.error(DTypeError, f"X is {x.dtype}, dY is {dY.dtype}", "insert a Cast")
    specs = {"dX": TensorSpec(dY.dims, dY.dtype), "dw": TensorSpec((1,), dY.dtype)}
    return tuple(specs[letter] for letter in op.output_letters)


@WEIGHTED_SUM_GRADIENT.cost
def weighted_sum_gradient_cost(
    op: OpView,
    dY: TensorSpec,
    X: tuple[TensorSpec, ...],
    w: tuple[TensorSpec, ...],
    dX: tuple[TensorSpec, ...],
    dw: tuple[TensorSpec, ...],
) -> Cost:
    del op
    flops = (len(dX) + 2 * len(dw)) * dY.size
    read = dY.nbytes + sum(spec.nbytes for spec in (*(X if dw else ()), *w))
    return Cost(flops, read, sum(spec.nbytes for spec in (*dX, *dw)))


@kernel(WEIGHTED_SUM_GRADIENT)
def weighted_sum_gradient_kernel(
    dY: Array, X: tuple[Array, ...], w: tuple[Array, ...], dX: tuple[Array, ...], dw: tuple[Array, ...]
) -> None:
    for weight, dx in zip(w, dX, strict=True):
        np.multiply(dY, weight.reshape(()), out=dx)
    for x, dweight in zip(X, dw, strict=False):  # dw is empty without grad_on_w
        dweight[0] = np.vdot(x, dY)
