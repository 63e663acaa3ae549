"""Losses in which examples that are easy count little: SigmoidFocalLoss, SoftmaxFocalLoss of Detectron's module.

Letters: N images, A anchors of K = `num_classes` channels, H and W height and width. X and dX are (N, A*K, H, W), one
label for each anchor and place is in T (N, A, H, W), the normalizer M is one number. With g = gamma, zp = alpha /
max(M, 1), zn = (1 - alpha) / max(M, 1):

    Sigmoid     p = 1 / (1 + exp(-x)); channel k is right where the label is k + 1, not counted where it is -1:
                right    -zp (1 - p)^g log p          derivative by x   -zp (1 - p)^g (1 - p - g p log p)
                wrong    -zn p^g log(1 - p)                             -zn p^g (g (1 - p) log(1 - p) - p)
    Softmax     p of the label's channel, of the softmax over an anchor's channels; labels below 0 are not counted:
                -z (1 - p)^g log p                    derivative by the logarithm of p
                                                      z (g (1 - p)^(g - 1) p log p - (1 - p)^g)
                with z = zn where the label is 0, the background, else zp

    loss = scale * sum over all that is counted

Of a p below the smallest number of full precision the logarithm is that of this number.

Source: Lin, Goyal, Girshick, He, Dollar 2017, arXiv 1708.02002; Caffe2, modules/detectron.
"""

from __future__ import annotations

import numpy as np

from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Role,
    arg,
    blob,
    ends,
    kernel,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.loss.normalizer import D_LOSS, IGNORED, NORMALIZER, divisor
from tazza.ops.loss.sigmoid_cross_entropy import softplus_parts
from tazza.ops.nn.channel import CHANNELS_FIRST
from tazza.ops.nn.group_spatial_softmax import classes_arg, group_softmax, in_groups, require_groups
from tazza.ops.shape.axis import agree, product, require_as_many, require_one_element, require_within
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

FOCAL_FLOPS = 30
"""Operations for each element: powers, logarithms."""

SMALLEST = np.finfo(np.float32).tiny

INPUTS = [
    blob("X", FLOAT, "N C H W", doc="logits"),
    blob("T", DataType.INT32, role=Role.INDEX, doc="(N, A, H, W): labels"),
    NORMALIZER,
]
ARGS = (
    arg("scale", float, 1.0, minimum=0.0, doc="factor on the loss"),
    arg("alpha", float, 0.25, doc="weight of objects; the background has 1 - alpha"),
    arg("gamma", float, 1.0, doc="how much less easy examples count"),
)
SIGMOID_ARGS = (*ARGS, classes_arg(80))
SOFTMAX_ARGS = (*ARGS, classes_arg(81), CHANNELS_FIRST)

SIGMOID_FOCAL_LOSS = schema(
    "SigmoidFocalLoss",
    "loss = -scale / max(normalizer, 1) * sum of alpha (1 - p)^gamma log p, or (1 - alpha) p^gamma log(1 - p).",
    inputs=INPUTS,
    outputs=[blob("loss", "X", doc="rank 0")],
    args=SIGMOID_ARGS,
    effects=Effects.PURE,
    source="Lin, Goyal, Girshick, He, Dollar 2017, arXiv 1708.02002, section 3; Caffe2, modules/detectron",
    example="""
    >>> X, T = np.zeros((1, 2, 1, 1), "f"), np.ones((1, 1, 1, 1), "i")
    >>> round(float(run("SigmoidFocalLoss", X, T, 1.0, num_classes=2)), 4)
    0.3466
    """,
)
SIGMOID_FOCAL_LOSS_GRADIENT = schema(
    "SigmoidFocalLossGradient",
    "dX = dloss times the derivative of the forward operator.",
    inputs=[*INPUTS, D_LOSS],
    outputs=[blob("dX", like="X")],
    args=SIGMOID_ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> X, T = np.zeros((1, 2, 1, 1), "f"), np.ones((1, 1, 1, 1), "i")
    >>> run("SigmoidFocalLossGradient", X, T, 1.0, 4.0, num_classes=2, gamma=0.0).ravel()
    array([-0.5,  1.5], dtype=float32)
    """,
)
SOFTMAX_FOCAL_LOSS = schema(
    "SoftmaxFocalLoss",
    "loss = -scale / max(normalizer, 1) * sum of alpha (1 - p)^gamma log p, with 1 - alpha where the label is 0.",
    inputs=INPUTS,
    outputs=[blob("loss", "X", doc="rank 0"), blob("P", "X", doc="(N*A*K*H*W): the softmax, in a row")],
    args=SOFTMAX_ARGS,
    effects=Effects.PURE,
    source="Lin, Goyal, Girshick, He, Dollar 2017, arXiv 1708.02002, section 3; Caffe2, modules/detectron",
    example="""
    >>> X, T = np.zeros((1, 2, 1, 1), "f"), np.ones((1, 1, 1, 1), "i")
    >>> loss, P = run("SoftmaxFocalLoss", X, T, 1.0, num_classes=2)
    >>> round(float(loss), 4), P
    (0.0866, array([0.5, 0.5], dtype=float32))
    """,
)
SOFTMAX_FOCAL_LOSS_GRADIENT = schema(
    "SoftmaxFocalLossGradient",
    "dX = dloss times the derivative of the forward operator.",
    inputs=[*INPUTS, blob("P", FLOAT, role=Role.DATA, doc="as many elements as X"), D_LOSS],
    outputs=[blob("dX", like="X")],
    args=SOFTMAX_ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> X, T, P = np.zeros((1, 2, 1, 1), "f"), np.ones((1, 1, 1, 1), "i"), np.full(2, 0.5, "f")
    >>> run("SoftmaxFocalLossGradient", X, T, 1.0, P, 8.0, num_classes=2, gamma=0.0).ravel()
    array([ 1., -1.], dtype=float32)
    """,
)


def require_labels(op: OpView, X: TensorSpec, T: TensorSpec, normalizer: TensorSpec) -> None:
    """Check that there is a label for each anchor and place, and one normalizer."""
    require_groups(op, "X", X)
    require_one_element(op, "normalizer", normalizer.dims)
    elements = None if X.dims is None else product(X.dims)
    if elements is not None and T.dims is not None:
        wanted, found = elements // op.num_classes, product(T.dims)
        relation = f"T has {found} elements {show_dims(T.dims)}, X has {wanted} anchors and places"
        op.require(agree(wanted, found), relation, "T must be (N, A, H, W)")


@SIGMOID_FOCAL_LOSS.infer
def sigmoid_focal_infer(op: OpView, X: TensorSpec, T: TensorSpec, normalizer: TensorSpec) -> TensorSpec:
    require_labels(op, X, T, normalizer)
    return TensorSpec((), X.dtype)


@SOFTMAX_FOCAL_LOSS.infer
def softmax_focal_infer(
    op: OpView, X: TensorSpec, T: TensorSpec, normalizer: TensorSpec
) -> tuple[TensorSpec, TensorSpec]:
    require_labels(op, X, T, normalizer)
    return TensorSpec((), X.dtype), TensorSpec((None if X.dims is None else product(X.dims),), X.dtype)


@SIGMOID_FOCAL_LOSS.cost
@SOFTMAX_FOCAL_LOSS.cost
def focal_cost(op: OpView, X: TensorSpec, T: TensorSpec, loss: TensorSpec, **others: TensorSpec) -> Cost:
    del op
    return streamed((X, T), (loss, *((others["P"],) if "P" in others else ())), flops=FOCAL_FLOPS * X.size)


@SIGMOID_FOCAL_LOSS.gradient
def sigmoid_focal_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("SigmoidFocalLossGradient", [g.X, g.T, g.normalizer, g.dloss], [g.dX])


@SOFTMAX_FOCAL_LOSS.gradient
def softmax_focal_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("SoftmaxFocalLossGradient", [g.like("X"), g.T, g.normalizer, g.P, g.dloss], [g.dX])


@kernel(SIGMOID_FOCAL_LOSS)
def sigmoid_focal(op: OpView, X: Array, T: Array, normalizer: Array, loss: Array) -> None:
    x, gamma = in_groups(op, X), X.dtype.type(op.gamma)
    (p, q), (right, wrong) = _probabilities(x), _sides(op, x, T, normalizer)
    lost = -right * q**gamma * _log_sigmoid(x) - wrong * p**gamma * _log_of_rest(x)
    loss[...] = lost.sum(dtype=loss.dtype) * loss.dtype.type(op.scale)


@SIGMOID_FOCAL_LOSS_GRADIENT.infer
def sigmoid_focal_gradient_infer(
    op: OpView, X: TensorSpec, T: TensorSpec, normalizer: TensorSpec, dloss: TensorSpec
) -> TensorSpec:
    require_labels(op, X, T, normalizer)
    require_one_element(op, "dloss", dloss.dims)
    return X


@SOFTMAX_FOCAL_LOSS_GRADIENT.infer
def softmax_focal_gradient_infer(
    op: OpView, X: TensorSpec, T: TensorSpec, normalizer: TensorSpec, P: TensorSpec, dloss: TensorSpec
) -> TensorSpec:
    require_as_many(op, "X", X.dims, P=P.dims)
    return sigmoid_focal_gradient_infer(op, X, T, normalizer, dloss)


@SIGMOID_FOCAL_LOSS_GRADIENT.cost
def sigmoid_focal_gradient_cost(
    op: OpView, X: TensorSpec, T: TensorSpec, normalizer: TensorSpec, dloss: TensorSpec, dX: TensorSpec
) -> Cost:
    del op, normalizer, dloss
    return streamed((X, T), (dX,), flops=FOCAL_FLOPS * X.size)


@SOFTMAX_FOCAL_LOSS_GRADIENT.cost
def softmax_focal_gradient_cost(op: OpView, T: TensorSpec, P: TensorSpec, dX: TensorSpec, **others: TensorSpec) -> Cost:
    del op, others
    return streamed((P, T), (dX,), flops=FOCAL_FLOPS * T.size + 3 * P.size)


@kernel(SIGMOID_FOCAL_LOSS_GRADIENT)
def sigmoid_focal_gradient_kernel(op: OpView, X: Array, T: Array, normalizer: Array, dloss: Array, dX: Array) -> None:
    x, gamma = in_groups(op, X), X.dtype.type(op.gamma)
    (p, q), (right, wrong) = _probabilities(x), _sides(op, x, T, normalizer)
    of_right = q**gamma * (q - gamma * p * _log_sigmoid(x))
    of_wrong = p**gamma * (gamma * q * _log_of_rest(x) - p)
    slopes = -(right * of_right + wrong * of_wrong) * (dloss.reshape(()) * dX.dtype.type(op.scale))
    dX[...] = slopes.reshape(dX.shape)


@kernel(SOFTMAX_FOCAL_LOSS)
def softmax_focal(op: OpView, X: Array, T: Array, normalizer: Array, loss: Array, P: Array) -> None:
    probabilities, gamma = group_softmax(in_groups(op, X)), X.dtype.type(op.gamma)
    p, z, _ = _labelled(op, probabilities, T, normalizer)
    loss[...] = (-((1 - p) ** gamma) * _log(p) * z).sum(dtype=loss.dtype) * loss.dtype.type(op.scale)
    P[...] = probabilities.reshape(-1)


@kernel(SOFTMAX_FOCAL_LOSS_GRADIENT)
def softmax_focal_gradient_kernel(op: OpView, T: Array, normalizer: Array, P: Array, dloss: Array, dX: Array) -> None:
    probabilities, gamma = in_groups(op, P.reshape(dX.shape)), P.dtype.type(op.gamma)
    p, z, hot = _labelled(op, probabilities, T, normalizer)
    slopes = (gamma * (1 - p) ** (gamma - 1) * p * _log(p) - (1 - p) ** gamma) * z
    dX[...] = (slopes * (hot - probabilities) * (dloss.reshape(()) * dX.dtype.type(op.scale))).reshape(dX.shape)


def _probabilities(x: Array) -> tuple[Array, Array]:
    """Return p and 1 - p, neither of which comes from the other: close to 1 nothing would be left of the difference."""
    return 1 / (1 + np.exp(-x)), 1 / (1 + np.exp(x))


def _log(p: Array) -> Array:
    return np.log(np.maximum(p, SMALLEST))


def _log_sigmoid(x: Array) -> Array:
    """Return the logarithm of p, from x, since that of a p close to 1 has lost its digits."""
    return np.maximum(_log_of_rest(-x), np.log(SMALLEST))


def _log_of_rest(x: Array) -> Array:
    """Return log(1 - p)."""
    positive, rest = softplus_parts(x)
    return -(x * positive + rest)


def _sides(op: OpView, x: Array, T: Array, normalizer: Array) -> tuple[Array, Array]:
    """Return (N, A, K, H, W): the weights of channels that are right, and of those that are wrong."""
    t = T.reshape(x.shape[0], x.shape[1], 1, *x.shape[3:])
    channels: Array = np.arange(x.shape[2], dtype=np.int32)[:, np.newaxis, np.newaxis]
    right: Array = t == channels + 1
    M, alpha = divisor(normalizer), x.dtype.type(op.alpha)
    return right * (alpha / M), ((t != IGNORED) & ~right) * ((1 - alpha) / M)


def _labelled(op: OpView, probabilities: Array, T: Array, normalizer: Array) -> tuple[Array, Array, Array]:
    """Return (N, A, 1, H, W): p and z of labels, with a half and 0 where nothing is counted; and where labels point to.

    Raises:
        NumericError: a label is not among the classes.
    """
    N, A, K, H, W = probabilities.shape
    t = T.reshape(N, A, 1, H, W)
    require_within(op, "T", np.maximum(T, -1), -1, K, f"num_classes = {K}; labels count from 0, and -1 is none")
    M, alpha = divisor(normalizer), probabilities.dtype.type(op.alpha)
    found = np.take_along_axis(probabilities, np.maximum(t, 0), axis=2)
    z = np.where(t == 0, (1 - alpha) / M, np.where(t > 0, alpha / M, 0))
    channels: Array = np.arange(probabilities.shape[2], dtype=np.int32)[:, np.newaxis, np.newaxis]
    return np.where(t < 0, 0.5, found), z, t == channels
