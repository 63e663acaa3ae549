"""Tensors that lie one behind the other in one: UnsafeCoalesce. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpView, as_many, blob, each, kernel, not_written, schema
from tazza.ops.shape.axis import product
from tazza.tensor import DataType, TensorSpec

UNSAFE_COALESCE = schema(
    "UnsafeCoalesce",
    """Y = X for each of them; all = their elements, one tensor behind the other.

    In Caffe2 each Y is a part of the memory of `all`, so that writing one changes the other; here each keeps its
    value.""",
    inputs=[blob("X", FLOAT, variadic=True, optional=True, doc="each of any shape")],
    outputs=[
        blob("Y", FLOAT, variadic=True, optional=True),
        blob("all", FLOAT, doc="a list of as many elements as all X have"),
    ],
    in_place={"Y": each("X")},
    relations=[as_many("Y", "X")],
    effects=Effects.PURE,
    no_gradient=not_written("Caffe2 has none either"),
    source="Caffe2",
    example="""
    >>> run("UnsafeCoalesce", [[1.0], [2.0]], [3.0], outputs=3)[2]
    array([1., 2., 3.], dtype=float32)
    """,
)


@UNSAFE_COALESCE.infer
def unsafe_coalesce_infer(op: OpView, X: tuple[TensorSpec, ...]) -> tuple[TensorSpec, ...]:
    del op
    sizes = [None if spec.dims is None else product(spec.dims) for spec in X]
    count = None if None in sizes else sum(size for size in sizes if size is not None)
    return (*X, TensorSpec((count,), DataType.FLOAT))


@UNSAFE_COALESCE.cost
def unsafe_coalesce_cost(op: OpView, all: TensorSpec, **others: object) -> Cost:
    del op, others
    return Cost(0, all.nbytes, 2 * all.nbytes)


@kernel(UNSAFE_COALESCE)
def unsafe_coalesce(X: tuple[Array, ...], Y: tuple[Array, ...], all: Array) -> None:
    np.concatenate([np.zeros(0, np.float32), *(x.reshape(-1) for x in X)], out=all)
    for x, y in zip(X, Y, strict=True):
        np.copyto(y, x)
