"""Parameters that are multiplied at some steps: WeightScale. Source: Caffe2."""

from __future__ import annotations

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpView, Role, arg, blob, formula, kernel, schema, streamed
from tazza.ops.optimizer.update import ITER, NO_GRADIENT
from tazza.ops.shape.axis import require_one_element
from tazza.tensor import TensorSpec

WEIGHT_SCALE = schema(
    "WeightScale",
    "Y = scale * X where this step, iter + 1, is a multiple of `stepsize` below `upper_bound_iter`, else X.",
    inputs=[
        blob("X", FLOAT, role=Role.PARAMETER),
        ITER,
    ],
    outputs=[blob("Y", like="X")],
    args=[
        arg("stepsize", int, 2**63 - 1, minimum=1, doc="steps from one time to the next"),
        arg("upper_bound_iter", int, 2**63 - 1, doc="from this step on X is left as it is"),
        arg("scale", float, 1.0, doc="the factor"),
    ],
    in_place={"Y": "X"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Caffe2",
    example="""
    >>> run("WeightScale", [1.0, 2.0], np.array([3]), stepsize=2, scale=0.5)
    array([0.5, 1. ], dtype=float32)
    """,
)


@WEIGHT_SCALE.infer
def weight_scale_infer(op: OpView, X: TensorSpec, iter: TensorSpec) -> TensorSpec:
    require_one_element(op, "iter", iter.dims)
    return X


@WEIGHT_SCALE.cost
def weight_scale_cost(op: OpView, X: TensorSpec, Y: TensorSpec, **others: TensorSpec) -> Cost:
    del op, others
    return streamed((X,), (Y,), flops=X.size)


@kernel(WEIGHT_SCALE)
def weight_scale(op: OpView, X: Array, iter: Array, Y: Array) -> None:
    step = iter.reshape(()).item() + 1
    scaled = step % op.stepsize == 0 and step < op.upper_bound_iter
    Y[...] = np.float32(op.scale) * X if scaled else X


NOW = "logical_and(remainder(iter + 1, stepsize) == 0, iter + 1 < upper_bound_iter)"
formula(WEIGHT_SCALE, Y="X * factor", scalars={"factor": f"where({NOW}, scale, 1)"})
