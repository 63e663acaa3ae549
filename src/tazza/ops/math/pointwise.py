"""Pointwise formulas as an operator: Pointwise. X are broadcast against each other; every Y has the joint shape."""

from __future__ import annotations

import numpy as np

from tazza.errors import DTypeError, SchemaError, ShapeError
from tazza.operator import (
    Array,
    Cost,
    Effects,
    Expression,
    OpView,
    arg,
    blob,
    formula,
    kernel,
    not_written,
    schema,
    show_dims,
)
from tazza.ops.shape.axis import shapes_agree
from tazza.tensor import DataType, TensorSpec

FLOATS = frozenset({DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BFLOAT16})

POINTWISE = schema(
    "Pointwise",
    """Y0, Y1 ... = the expressions over x0, x1 ..., broadcast as in NumPy.

    The expressions are texts in a small language: names, numbers, + - * /, comparisons and functions such as exp, tanh,
    max, where. Graph passes make it of several pointwise operators in a row.""",
    inputs=[blob("X", FLOATS | {DataType.BOOL}, variadic=True)],
    outputs=[blob("Y", variadic=True)],
    args=[
        arg("expressions", list[str], doc="one for each Y, over x0, x1 ..."),
        arg("alike", int, 0, choices=(0, 1), doc="1: all X are float32 and of one shape, nothing is broadcast"),
    ],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=not_written("it is made by passes that run after the backward pass was built"),
    source="tazza",
    example="""
    >>> run("Pointwise", [1.0, 2.0], [10.0], expressions=["x0 * x1 + 1"])
    array([11., 21.], dtype=float32)
    """,
)


def expressions_of(op: OpView) -> list[Expression]:
    """Return the expressions, each checked to name only inputs that are there."""
    known = {f"x{i}" for i in range(len(op.definition.input))}
    found = [Expression.parse(text) for text in op.expressions]
    for one in found:
        strange = [name for name in one.names if name not in known]
        if strange:
            raise op.error(
                SchemaError, f"expression {one.text()!r} names {', '.join(strange)}, inputs are {len(known)}"
            )
    if len(found) != len(op.definition.output):
        raise op.error(SchemaError, f"{len(found)} expressions for {len(op.definition.output)} outputs")
    return found


@POINTWISE.validate
def pointwise_validate(op: OpView) -> None:
    expressions_of(op)


@POINTWISE.infer
def pointwise_infer(op: OpView, X: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    if op.alike:
        _check_alike(op, X)
    floats = [x.dtype for x in X if x.dtype is not DataType.BOOL]
    # NumPy's promotion, in which a bool takes any other type
    joint = DataType.of(np.result_type(*(dtype.numpy for dtype in floats))) if floats else DataType.FLOAT
    known = [x.shape for x in X if x.shape_known]
    dims = None
    if len(known) == len(X):
        try:
            dims = np.broadcast_shapes(*(tuple(shape) for shape in known))
        except ValueError:
            shapes = ", ".join(show_dims(shape) for shape in known)
            raise op.error(ShapeError, f"shapes {shapes} cannot be broadcast") from None
    return (TensorSpec(dims, joint),) * len(op.definition.output)


def _check_alike(op: OpView, X: tuple[TensorSpec, ...]) -> None:
    """Refuse what the operators that this one stands for refuse: they broadcast nothing."""
    for number, x in enumerate(X):
        if x.dtype is not DataType.FLOAT:
            raise op.error(DTypeError, f"x{number} is {x.dtype.label}, not float32", "cast it")
        if x.dims is not None and X[0].dims is not None and not shapes_agree(x.dims, X[0].dims):
            relation = f"x{number} has the shape {show_dims(x.dims)}, x0 has {show_dims(X[0].dims)}"
            raise op.error(ShapeError, relation, "nothing is broadcast")


@POINTWISE.cost
def pointwise_cost(op: OpView, X: tuple[TensorSpec, ...], Y: tuple[TensorSpec, ...]) -> Cost:
    flops = sum(one.flops for one in expressions_of(op)) * Y[0].size
    return Cost(flops, sum(x.nbytes for x in X), sum(y.nbytes for y in Y))


formula(
    POINTWISE,
    lambda op: {
        f"Y{i}": one.substitute({name: Expression.parse(f"X{name[1:]}") for name in one.names}).text()
        for i, one in enumerate(expressions_of(op))
    },
)


@kernel(POINTWISE)
def pointwise(op: OpView, X: tuple[Array, ...], Y: tuple[Array, ...]) -> None:
    # Halves are computed in float32 and rounded once.
    computed = np.result_type(Y[0].dtype, np.float32)
    values = {f"x{i}": x.astype(computed, copy=False) for i, x in enumerate(X)}
    results = [one.evaluate(values) for one in expressions_of(op)]
    for y, result in zip(Y, results, strict=True):  # only now, since a y may be an x
        np.copyto(y, result, casting="same_kind")
