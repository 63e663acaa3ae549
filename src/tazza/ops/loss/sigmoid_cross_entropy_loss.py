"""Cross entropy of logits with labels, some of which are ignored: SigmoidCrossEntropyLoss of Detectron's module.

x are the logits, t the labels 0 and 1; -1 says that an element is ignored. Over the M elements that are not,

    loss = scale / max(M, 1e-5) * sum of log(1 + exp(x)) - x t        dX = dloss * scale / max(M, 1e-5) * (s(x) - t)

where s is the sigmoid; without `normalize` nothing is divided.

Source: Caffe2, modules/detectron.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Cut,
    Effects,
    GradientRequest,
    OpView,
    Role,
    RowProgram,
    Total,
    arg,
    blob,
    ends,
    kernel,
    row_program,
    schema,
    streamed,
)
from tazza.ops.loss.normalizer import D_LOSS, IGNORED
from tazza.ops.loss.sigmoid_cross_entropy import POSITIVE, REST, softplus_parts
from tazza.ops.shape.axis import require_as_many, require_one_element
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

LEAST = 1e-5
"""What the sum is divided by at least."""

INPUTS = [
    blob("X", FLOAT, doc="logits"),
    blob("targets", DataType.INT32, role=Role.INDEX, doc="as many labels: 0, 1, or -1 for what is ignored"),
]
ARGS = (
    arg("scale", float, 1.0, minimum=0.0, doc="factor on the loss"),
    arg("normalize", int, 1, choices=(0, 1), doc="1: divide by the number of elements that are not ignored"),
)

SIGMOID_CROSS_ENTROPY_LOSS = schema(
    "SigmoidCrossEntropyLoss",
    "loss = scale * mean of log(1 + exp(X)) - X * targets over the elements whose target is not -1.",
    inputs=INPUTS,
    outputs=[blob("loss", "X", doc="rank 0")],
    args=ARGS,
    effects=Effects.PURE,
    source="Goodfellow, Bengio, Courville 2016, section 6.2.2.2; Caffe2, modules/detectron",
    example="""
    >>> run("SigmoidCrossEntropyLoss", [0.0, 0.0, 5.0], [1, 0, -1])
    array(0.6931472, dtype=float32)
    """,
)
SIGMOID_CROSS_ENTROPY_LOSS_GRADIENT = schema(
    "SigmoidCrossEntropyLossGradient",
    "dX = dloss times the derivative of the forward operator.",
    inputs=[*INPUTS, D_LOSS],
    outputs=[blob("dX", like="X")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("SigmoidCrossEntropyLossGradient", [0.0, 0.0, 5.0], [1, 0, -1], 2.0)
    array([-0.5,  0.5,  0. ], dtype=float32)
    """,
)


@SIGMOID_CROSS_ENTROPY_LOSS.infer
def sigmoid_cross_entropy_loss_infer(op: OpView, X: TensorSpec, targets: TensorSpec) -> TensorSpec:
    require_as_many(op, "X", X.dims, targets=targets.dims)
    return TensorSpec((), X.dtype)


@SIGMOID_CROSS_ENTROPY_LOSS.cost
def sigmoid_cross_entropy_loss_cost(op: OpView, X: TensorSpec, targets: TensorSpec, loss: TensorSpec) -> Cost:
    del op
    return streamed((X, targets), (loss,), flops=8 * X.size)


@SIGMOID_CROSS_ENTROPY_LOSS.gradient
def sigmoid_cross_entropy_loss_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("SigmoidCrossEntropyLossGradient", [g.X, g.targets, g.dloss], [g.dX])


@kernel(SIGMOID_CROSS_ENTROPY_LOSS)
def sigmoid_cross_entropy_loss(op: OpView, X: Array, targets: Array, loss: Array) -> None:
    t = targets.reshape(X.shape)
    positive, rest = softplus_parts(X)
    lost = rest - X * (t.astype(X.dtype) - positive)
    loss[...] = np.where(t == IGNORED, 0, lost).sum(dtype=loss.dtype) * _factor(op, targets, loss.dtype)


@SIGMOID_CROSS_ENTROPY_LOSS_GRADIENT.infer
def sigmoid_cross_entropy_loss_gradient_infer(
    op: OpView, X: TensorSpec, targets: TensorSpec, dloss: TensorSpec
) -> TensorSpec:
    require_as_many(op, "X", X.dims, targets=targets.dims)
    require_one_element(op, "dloss", dloss.dims)
    return X


@SIGMOID_CROSS_ENTROPY_LOSS_GRADIENT.cost
def sigmoid_cross_entropy_loss_gradient_cost(
    op: OpView, X: TensorSpec, targets: TensorSpec, dloss: TensorSpec, dX: TensorSpec
) -> Cost:
    del op
    return streamed((X, targets, dloss), (dX,), flops=6 * X.size)


@kernel(SIGMOID_CROSS_ENTROPY_LOSS_GRADIENT)
def sigmoid_cross_entropy_loss_gradient_kernel(op: OpView, X: Array, targets: Array, dloss: Array, dX: Array) -> None:
    t = targets.reshape(X.shape)
    slopes = np.where(t == IGNORED, 0, 1 / (1 + np.exp(-X)) - t.astype(X.dtype))
    dX[...] = slopes * (_factor(op, targets, dX.dtype) * dloss.reshape(()))


def _factor(op: OpView, targets: Array, dtype: np.dtype[np.floating]) -> np.floating:
    """Return what the sum of all losses is multiplied by."""
    counted = max(int((targets != IGNORED).sum()), LEAST) if op.normalize else 1
    return dtype.type(op.scale) / dtype.type(counted)


COUNTED = {"counted": Total("sum", f"targets != {IGNORED}")}


def _divisor(op: OpView) -> str:
    return f"max(counted, {LEAST})" if op.normalize else "1"


def _lost(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    lost = {"lost": Total("sum", f"where(targets == {IGNORED}, 0, {REST} - X * (targets - {POSITIVE}))")}
    return RowProgram(Cut(1, specs["X"].size), COUNTED | lost, {"loss": f"lost * scale / {_divisor(op)}"})


def _slopes(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    row = {"share": f"scale / {_divisor(op)} * dloss"}
    each = {"dX": f"where(targets == {IGNORED}, 0, sigmoid(X) - targets) * share"}
    return RowProgram(Cut(1, specs["X"].size), COUNTED, row, each, {"dloss": "one"})


row_program(SIGMOID_CROSS_ENTROPY_LOSS, _lost)
row_program(SIGMOID_CROSS_ENTROPY_LOSS_GRADIENT, _slopes)
