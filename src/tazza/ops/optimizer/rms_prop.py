"""RMSProp: a gradient divided by the root of what its square was of late, with momentum.

dW is the gradient, S the running mean of its square, M the momentum; lr is the learning rate:

    S'   = S + (1 - decay) (dW^2 - S)
    M'   = momentum M + lr dW / sqrt(epsilon + S')
    step = M'

What is added to the parameters is the step, by another operator. Source: Hinton, Neural Networks for Machine Learning
2012, lecture 6; Caffe2.
"""

from __future__ import annotations

import math

import numpy as np

from tazza.operator import FLOAT, Array, Cost, Effects, OpView, Role, arg, blob, formula, kernel, schema
from tazza.ops.optimizer.update import NO_GRADIENT, complement, one_rate
from tazza.ops.shape.axis import require_as_many, require_one_element
from tazza.tensor import TensorSpec

RMS_PROP = schema(
    "RmsProp",
    """step = M_next = momentum * M + lr * dW / sqrt(epsilon + S_next), with S_next = S + (1 - decay) * (dW^2 - S).""",
    inputs=[
        blob("dW", FLOAT),
        blob("S", FLOAT, role=Role.STATE, doc="running mean of the square of dW"),
        blob("M", FLOAT, role=Role.STATE, doc="momentum"),
        blob("lr", FLOAT, role=Role.PARAMETER, doc="of one element"),
    ],
    outputs=[
        blob("step", like="dW"),
        blob("S_next", like="S"),
        blob("M_next", like="M"),
    ],
    args=[
        arg("decay", float, 0.9, doc="of S"),
        arg("momentum", float, 0.0, doc="share of M that stays"),
        arg("epsilon", float, 1e-5, doc="added to S_next under the root"),
    ],
    in_place={"step": "dW", "S_next": "S", "M_next": "M"},
    effects=Effects.PURE,
    no_gradient=NO_GRADIENT,
    source="Hinton 2012, lecture 6",
    example="""
    >>> step, S, M = run("RmsProp", [2.0, -3.0], [4.0, 9.0], [0.0, 1.0], [0.5], momentum=0.25, epsilon=0.0)
    >>> step, S
    (array([ 0.5 , -0.25], dtype=float32), array([4., 9.], dtype=float32))
    """,
)


@RMS_PROP.infer
def rms_prop_infer(op: OpView, dW: TensorSpec, S: TensorSpec, M: TensorSpec, lr: TensorSpec) -> tuple[TensorSpec, ...]:
    require_one_element(op, "lr", lr.dims)
    require_as_many(op, "dW", dW.dims, S=S.dims, M=M.dims)
    return tuple(TensorSpec(spec.dims, spec.dtype) for spec in (dW, S, M))


@RMS_PROP.cost
def rms_prop_cost(op: OpView, dW: TensorSpec, **others: TensorSpec | None) -> Cost:
    del op, others
    return Cost(10 * dW.size, 3 * dW.nbytes, 3 * dW.nbytes)


def _texts(op: OpView) -> dict[str, str]:
    if not math.isfinite(op.decay):
        return {}  # no formula can name it
    square = f"S + ({complement(op.decay)}) * (dW * dW - S)"
    moved = f"momentum * M + lr * dW / sqrt(epsilon + ({square}))"
    return {"step": moved, "S_next": square, "M_next": moved}


formula(RMS_PROP, _texts, align=one_rate)


@kernel(RMS_PROP)
def rms_prop(op: OpView, dW: Array, S: Array, M: Array, lr: Array, step: Array, S_next: Array, M_next: Array) -> None:
    square = S.reshape(dW.shape)
    square = square + np.float32(complement(op.decay)) * (np.square(dW) - square)
    moved = M.reshape(dW.shape) * np.float32(op.momentum)
    moved = moved + lr.reshape(()) * dW / np.sqrt(np.float32(op.epsilon) + square)
    step[...] = moved
    S_next[...] = square.reshape(S.shape)
    M_next[...] = moved.reshape(M.shape)
