"""Softmax over groups of channels, place by place: GroupSpatialSoftmax of Detectron's module.

Letters: N images, A groups (anchors) of K = `num_classes` channels, H and W height and width. X, Y, dY and dX are
(N, A*K, H, W). With s the sum over a group, e = exp(X - the largest of the group),

    Y = e / s(e)        dX = Y * (dY - s(Y * dY))

Source: Caffe2, modules/detectron.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.operator import (
    FLOAT,
    ArgSpec,
    Array,
    Cost,
    Cut,
    Effects,
    GradientRequest,
    OpView,
    RowProgram,
    Total,
    arg,
    blob,
    ends,
    kernel,
    row_program,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.nn.channel import CHANNELS_FIRST
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec


def classes_arg(default: int) -> ArgSpec:
    """Return the declaration of the number of classes."""
    return arg("num_classes", int, default, minimum=1, doc="K: channels of a group")


def require_groups(op: OpView, letter: str, spec: TensorSpec) -> None:
    """Check that channels divide into groups of K."""
    if spec.dims is not None:
        C = spec.dims[1]
        relation = f"{letter} has {C} channels {show_dims(spec.dims)}, num_classes = {op.num_classes}"
        op.require(C is None or C % op.num_classes == 0, relation, "channels must divide into groups of num_classes")


def in_groups(op: OpView, X: Array) -> Array:
    """Return (N, A, K, H, W) of an array (N, A*K, H, W), or of as many elements in a row."""
    N, C, H, W = X.shape
    return X.reshape(N, C // op.num_classes, op.num_classes, H, W)


def group_softmax(x: Array) -> Array:
    """Return the softmax over axis 2."""
    powers = np.exp(x - x.max(axis=2, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis=2, keepdims=True)


GROUP_SPATIAL_SOFTMAX = schema(
    "GroupSpatialSoftmax",
    "Y[n, a*K + k, h, w] = exp(X[n, a*K + k, h, w]) / sum over the K channels of group a.",
    inputs=[blob("X", FLOAT, "N C H W")],
    outputs=[blob("Y", like="X")],
    args=[classes_arg(81), CHANNELS_FIRST],
    effects=Effects.PURE,
    source="Caffe2, modules/detectron",
    example="""
    >>> run("GroupSpatialSoftmax", np.zeros((1, 4, 1, 1), "f"), num_classes=2).ravel()
    array([0.5, 0.5, 0.5, 0.5], dtype=float32)
    """,
)
GROUP_SPATIAL_SOFTMAX_GRADIENT = schema(
    "GroupSpatialSoftmaxGradient",
    "dX = Y * (dY - sum over the K channels of the group of Y * dY).",
    inputs=[blob("Y", FLOAT, "N C H W"), blob("dY", "Y", "N C H W")],
    outputs=[blob("dX", like="Y")],
    args=[classes_arg(81), CHANNELS_FIRST],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> Y, dY = np.full((1, 2, 1, 1), 0.5, "f"), np.array([[[[4.0]], [[0.0]]]], "f")
    >>> run("GroupSpatialSoftmaxGradient", Y, dY, num_classes=2).ravel()
    array([ 1., -1.], dtype=float32)
    """,
)
GROUP_SPATIAL_SOFTMAX.batched("X")


@GROUP_SPATIAL_SOFTMAX.infer
def group_spatial_softmax_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    require_groups(op, "X", X)
    return X


@GROUP_SPATIAL_SOFTMAX.cost
def group_spatial_softmax_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X,), (Y,), flops=5 * X.size)


@GROUP_SPATIAL_SOFTMAX.gradient
def group_spatial_softmax_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("GroupSpatialSoftmaxGradient", [g.Y, g.dY], [g.dX])


@kernel(GROUP_SPATIAL_SOFTMAX)
def group_spatial_softmax(op: OpView, X: Array, Y: Array) -> None:
    Y[...] = group_softmax(in_groups(op, X)).reshape(Y.shape)


@GROUP_SPATIAL_SOFTMAX_GRADIENT.infer
def group_spatial_softmax_gradient_infer(op: OpView, Y: TensorSpec, dY: TensorSpec) -> TensorSpec:
    del dY
    require_groups(op, "Y", Y)
    return Y


@GROUP_SPATIAL_SOFTMAX_GRADIENT.cost
def group_spatial_softmax_gradient_cost(op: OpView, Y: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op
    return streamed((Y, dY), (dX,), flops=4 * Y.size)


@kernel(GROUP_SPATIAL_SOFTMAX_GRADIENT)
def group_spatial_softmax_gradient_kernel(op: OpView, Y: Array, dY: Array, dX: Array) -> None:
    y, dy = in_groups(op, Y), in_groups(op, dY)
    dX[...] = (y * (dy - (y * dy).sum(axis=2, keepdims=True))).reshape(dX.shape)


def _groups(op: OpView, X: TensorSpec) -> Cut:
    N, C, H, W = X.shape
    K: int = op.num_classes
    return Cut(N * C // K, K, H * W)


def _softmax(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    totals = {"most": Total("max", "X"), "powers": Total("sum", "exp(X - most)")}
    return RowProgram(_groups(op, specs["X"]), totals, each={"Y": "exp(X - most) / powers"})


def _softmax_back(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    dots = {"dots": Total("sum", "Y * dY")}
    return RowProgram(_groups(op, specs["Y"]), dots, each={"dX": "Y * (dY - dots)"})


row_program(GROUP_SPATIAL_SOFTMAX, _softmax)
row_program(GROUP_SPATIAL_SOFTMAX_GRADIENT, _softmax_back)
