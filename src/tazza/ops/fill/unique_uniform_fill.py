"""Different random integers: UniqueUniformFill. How it gets its shape stands in `fill`. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.device import Generator
from tazza.errors import ArgumentError, NumericError
from tazza.operator import (
    INDEX,
    REQUIRED,
    Array,
    Cost,
    Effects,
    OpView,
    Role,
    arg,
    blob,
    kernel,
    schema,
    show_dims,
)
from tazza.ops.fill.fill import NO_GRADIENT, SHAPE_ARGS, SHAPE_DOC, check_shape_args, fill_cost, fill_dims
from tazza.ops.shape.axis import product
from tazza.tensor import DataType, TensorSpec

UNIQUE_UNIFORM_FILL = schema(
    "UniqueUniformFill",
    "Y = different integers of [min, max], drawn uniformly and again where one was there; none of avoid.",
    inputs=[
        blob("X", optional=True, role=Role.SHAPE, doc=SHAPE_DOC),
        blob("avoid", INDEX, optional=True, role=Role.PARAMETER, doc="different integers, of the type of Y"),
    ],
    outputs=[blob("Y", INDEX)],
    args=[
        *SHAPE_ARGS,
        arg("min", int, REQUIRED, doc="least number"),
        arg("max", int, REQUIRED, doc="greatest number"),
        arg("dtype", int, DataType.INT32.proto, choices=tuple(one.proto for one in sorted(INDEX, key=str)), doc="of Y"),
    ],
    in_place={"Y": "X"},
    effects=Effects.RANDOM,
    no_gradient=NO_GRADIENT,
    source="Matsumoto, Nishimura 1998 (MT19937)",
    example="""
    >>> sorted(run("UniqueUniformFill", shape=[4], min=0, max=3).tolist())
    [0, 1, 2, 3]
    """,
)


@UNIQUE_UNIFORM_FILL.validate
def unique_uniform_fill_validate(op: OpView) -> None:
    check_shape_args(op)
    limits = np.iinfo(DataType.from_proto(op.dtype).numpy)
    if not limits.min <= op.min < op.max <= limits.max:
        range_ = f"min = {op.min}, max = {op.max}"
        raise op.error(ArgumentError, f"{range_} are no range of {limits.dtype}", "min is below max")


@UNIQUE_UNIFORM_FILL.infer
def unique_uniform_fill_infer(op: OpView, X: TensorSpec | None, avoid: TensorSpec | None) -> TensorSpec:
    dtype = DataType.from_proto(op.dtype)
    dims = fill_dims(op, X)
    left = op.max - op.min + 1
    if avoid is not None:
        op.require(avoid.dtype is dtype, f"avoid is {avoid.dtype.label}, Y is {dtype.label}", "set dtype")
        avoided = None if avoid.dims is None else product(avoid.dims)
        left -= 0 if avoided is None else avoided
    count = None if dims is None else product(dims)
    enough = count is None or count <= left
    op.require(enough, f"Y has the shape {show_dims(dims or ())}, and there are {left} different integers")
    return TensorSpec(dims, dtype)


@UNIQUE_UNIFORM_FILL.cost
def unique_uniform_fill_cost(op: OpView, X: TensorSpec | None, avoid: TensorSpec | None, Y: TensorSpec) -> Cost:
    del X, avoid
    return fill_cost(op, Y)


@kernel(UNIQUE_UNIFORM_FILL)
def unique_uniform_fill(op: OpView, random: Generator, avoid: Array | None, Y: Array) -> None:
    taken: set[int] = set() if avoid is None else set(avoid.reshape(-1).tolist())
    if avoid is not None and len(taken) != avoid.size:
        raise op.error(NumericError, f"avoid has {avoid.size} elements, of which {len(taken)} are different")
    found: list[int] = []
    while len(found) < Y.size:
        drawn = int(random.integers(1, op.min, op.max, Y.dtype)[0])
        if drawn not in taken:
            taken.add(drawn)
            found.append(drawn)
    Y[...] = np.array(found, Y.dtype).reshape(Y.shape)
