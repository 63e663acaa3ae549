"""One of two values by a threshold, or the places of both: StumpFunc, StumpFuncIndex. NaN is high. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, DynamicOutput, Effects, OpView, arg, blob, ends, formula, kernel, schema
from tazza.ops.math.elementwise import formula_cost
from tazza.tensor import DataType, TensorSpec

NO_GRADIENT = ends("it is a step function")
THRESHOLD = arg("threshold", float, 0.0, doc="the largest X that is low")

STUMP_FUNC = schema(
    "StumpFunc",
    "Y = low_value where X <= threshold, else high_value.",
    inputs=[blob("X", FLOAT, "*S")],
    outputs=[blob("Y", like="X")],
    args=[THRESHOLD, arg("low_value", float, 0.0, doc="Y below"), arg("high_value", float, 0.0, doc="Y above")],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("StumpFunc", [1.0, 2.0], threshold=1.0, low_value=-1.0, high_value=3.0)
    array([-1.,  3.], dtype=float32)
    """,
)
STUMP_FUNC_INDEX = schema(
    "StumpFuncIndex",
    "low = the places of all X <= threshold, high = those of the others, in X as a list.",
    inputs=[blob("X", FLOAT)],
    outputs=[blob("low", DataType.INT64, dynamic=True), blob("high", DataType.INT64, dynamic=True)],
    args=[THRESHOLD],
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("StumpFuncIndex", [5.0, 1.0, 2.0], threshold=1.5)
    (array([1]), array([0, 2]))
    """,
)
formula(STUMP_FUNC, Y="where(X <= threshold, low_value, high_value)")
STUMP_FUNC.cost(formula_cost)


@kernel(STUMP_FUNC)
def stump_func(op: OpView, X: Array, Y: Array) -> None:
    Y[...] = np.where(np.float32(op.threshold) >= X, op.low_value, op.high_value)


@STUMP_FUNC_INDEX.infer
def stump_func_index_infer(op: OpView, X: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    del op, X
    return TensorSpec((None,), DataType.INT64), TensorSpec((None,), DataType.INT64)


@kernel(STUMP_FUNC_INDEX)
def stump_func_index(op: OpView, X: Array, low: DynamicOutput, high: DynamicOutput) -> None:
    below = X.reshape(-1) <= np.float32(op.threshold)
    for output, places in ((low, np.flatnonzero(below)), (high, np.flatnonzero(~below))):
        output.allocate(places.shape)[...] = places
