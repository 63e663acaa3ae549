"""Fills of float16: Float16ConstantFill, Float16UniformFill. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.device import Generator
from tazza.errors import ArgumentError
from tazza.operator import Array, Cost, Effects, OpView, arg, blob, kernel, schema
from tazza.ops.fill.fill import NO_GRADIENT, fill_cost
from tazza.tensor import DataType, TensorSpec

SHAPE = arg("shape", list[int], [], minimum=0, doc="of Y; empty for rank 0")

FLOAT16_CONSTANT_FILL = schema(
    "Float16ConstantFill",
    "Y = value, everywhere; infinity beyond the range of float16.",
    outputs=[blob("Y", DataType.FLOAT16)],
    args=[SHAPE, arg("value", float, 0.0, doc="rounded to the nearest float16")],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("Float16ConstantFill", shape=[2], value=0.5)
    array([0.5, 0.5], dtype=float16)
    """,
)
FLOAT16_UNIFORM_FILL = schema(
    "Float16UniformFill",
    "Y = the numbers that UniformFill draws, rounded to the nearest float16: max may come up.",
    outputs=[blob("Y", DataType.FLOAT16)],
    args=[SHAPE, arg("min", float, 0.0, doc="least number"), arg("max", float, 1.0, doc="end")],
    effects=Effects.RANDOM,
    no_gradient=NO_GRADIENT,
    source="Matsumoto, Nishimura 1998 (MT19937)",
    example="""
    >>> Y = run("Float16UniformFill", shape=[100], min=-1.0, max=2.0)
    >>> bool((Y >= -1).all() and (Y <= 2).all())
    True
    """,
)


@FLOAT16_CONSTANT_FILL.infer
@FLOAT16_UNIFORM_FILL.infer
def half_fill_infer(op: OpView) -> TensorSpec:
    return TensorSpec(tuple(op.shape), DataType.FLOAT16)


@FLOAT16_CONSTANT_FILL.cost
@FLOAT16_UNIFORM_FILL.cost
def half_fill_cost(op: OpView, Y: TensorSpec) -> Cost:
    return fill_cost(op, Y)


@FLOAT16_UNIFORM_FILL.validate
def float16_uniform_fill_validate(op: OpView) -> None:
    if not op.min < op.max:
        raise op.error(ArgumentError, f"min = {op.min} is not below max = {op.max}", "give both")


@kernel(FLOAT16_CONSTANT_FILL)
def float16_constant_fill(op: OpView, Y: Array) -> None:
    with np.errstate(over="ignore"):
        Y[...] = np.float32(op.value).astype(np.float16)


@kernel(FLOAT16_UNIFORM_FILL)
def float16_uniform_fill(op: OpView, random: Generator, Y: Array) -> None:
    Y[...] = random.uniform(Y.size, op.min, op.max).reshape(Y.shape)
