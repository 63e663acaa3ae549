"""What PyTorch has in the place of an operator: functions of its view and its inputs, by the schema's letters.

Windows are not left to PyTorch's own padding, which has fewer forms: images are padded or cut as far as the windows of
the output reach. A result that is detached has no gradient by the operator's definition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

from tazza.operator import OpView
from tazza.ops.nn.conv import conv_window
from tazza.ops.nn.conv_transpose import conv_transpose_window
from tazza.ops.nn.im2col import im2col_window
from tazza.ops.nn.pool import pool_window
from tazza.ops.nn.window import Window
from tazza.ops.vision.pad_image import pads_of
from tests.judge.peer import NoCounterpart, Tensor, counterpart, torch


def functional() -> Any:
    """Return torch.nn.functional."""
    return torch().nn.functional


def first(op: OpView, x: Tensor) -> Tensor:
    """Return an image with the channels first."""
    return x.movedim(-1, 1) if _is_last(op, x) else x


def back(op: OpView, y: Tensor) -> Tensor:
    """Return an image of channels first in the operator's order."""
    return y.movedim(1, -1) if _is_last(op, y) else y


def _is_last(op: OpView, x: Tensor) -> bool:
    return op.arguments.get("order", "NCHW").upper() == "NHWC" and x.dim() > 2


def padded(x: Tensor, window: Window, out: Sequence[int | None], value: float = 0.0) -> Tensor:
    """Return (N, C, in...) padded, or cut, to what the windows cover."""
    sides: list[int] = []
    for axis in reversed(range(window.rank)):
        covered = (cast("int", out[axis]) - 1) * window.stride[axis] + window.cover[axis]
        sides += [window.head[axis], covered - x.shape[2 + axis] - window.head[axis]]
    return functional().pad(x, sides, value=value)


def of_rank(name: str, rank: int) -> Any:
    """Return a function of torch.nn.functional for so many dimensions."""
    if not 1 <= rank <= 3:
        raise NoCounterpart(f"windows of {rank} dimensions")
    return getattr(functional(), f"{name}{rank}d")


@counterpart("Conv", "Conv1D", "Conv2D", "Conv3D")
def conv(op: OpView, X: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:
    window, out = conv_window(op, tuple(X.shape), tuple(W.shape))
    x = padded(first(op, X), window, out)
    options = {"stride": window.stride, "dilation": window.dilation, "groups": op.group}
    return back(op, of_rank("conv", window.rank)(x, first(op, W), b, **options))


@counterpart("ConvTranspose")
def conv_transpose(op: OpView, X: Tensor, W: Tensor, b: Tensor | None = None) -> Tensor:
    window, out = conv_transpose_window(op, tuple(X.shape), tuple(W.shape))
    name = "conv_transpose"
    whole = of_rank(name, window.rank)(first(op, X), first(op, W), stride=window.stride, groups=op.group)
    sides: list[int] = []
    for axis in reversed(range(window.rank)):
        sides += [-window.head[axis], cast("int", out[axis]) - whole.shape[2 + axis] + window.head[axis]]
    y = functional().pad(whole, sides)
    return back(op, y if b is None else y + b.reshape(-1, *[1] * window.rank))


@counterpart("MaxPool", "MaxPool1D", "MaxPool2D", "MaxPool3D")
def max_pool(op: OpView, X: Tensor) -> Tensor:
    window, out = pool_window(op, tuple(X.shape))
    x = padded(first(op, X), window, out, -math.inf)
    y = of_rank("max_pool", window.rank)(x, window.kernel, window.stride)
    if bool(torch().isinf(y).any()):
        raise NoCounterpart("a window that holds padding alone")
    return back(op, y)


@counterpart("AveragePool", "AveragePool1D", "AveragePool2D", "AveragePool3D")
def average_pool(op: OpView, X: Tensor) -> Tensor:
    window, out = pool_window(op, tuple(X.shape))
    pool = of_rank("avg_pool", window.rank)
    x = first(op, X)
    y = pool(padded(x, window, out), window.kernel, window.stride)
    if op.count_include_pad:
        return back(op, y)
    part = pool(padded(torch().ones_like(x), window, out), window.kernel, window.stride)
    if bool((part == 0).any()):
        raise NoCounterpart("a window that holds padding alone")
    return back(op, y / part)


@counterpart("Im2Col")
def im2col(op: OpView, X: Tensor) -> Tensor:
    window, out = im2col_window(op, tuple(X.shape))
    if _is_last(op, X):
        raise NoCounterpart("the columns of NHWC lie otherwise")
    x = padded(X, window, out)
    columns = functional().unfold(x, window.kernel, dilation=window.dilation, stride=window.stride)
    return columns.reshape(*columns.shape[:2], *out)


@counterpart("PadImage")
def pad_image(op: OpView, X: Tensor) -> Tensor:
    (top, bottom), (left, right) = pads_of(op)
    sides = [left, right, top, bottom]
    mode = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}[op.mode]
    return back(op, functional().pad(first(op, X), sides, mode, **({"value": op.value} if mode == "constant" else {})))


# -- normalization -----------------------------------------------------------------------------------------------------


@counterpart("LRN")
def lrn(op: OpView, X: Tensor) -> Tensor:
    """A window of even size reaches one further down there, and up here."""
    x = first(op, X)
    even = op.size % 2 == 0
    y = functional().local_response_norm(x.flip(1) if even else x, op.size, op.alpha, op.beta, op.bias)
    return back(op, y.flip(1) if even else y)


@counterpart("SpatialBN")
def spatial_bn(
    op: OpView, X: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, **sums: Tensor
) -> Sequence[Tensor | None]:
    x = first(op, X)
    if op.is_test and len(op.output_letters) == 1:
        return [back(op, functional().batch_norm(x, mean.detach(), var.detach(), scale, bias, False, 0.0, op.epsilon))]
    if sums or x.numel() // max(1, x.shape[1]) < 2:
        raise NoCounterpart("statistics of several batches, or of less than two numbers")
    running = [mean.detach().clone(), var.detach().clone()]
    y = functional().batch_norm(x, *running, scale, bias, True, 1 - op.momentum, op.epsilon)
    axes = (0, *range(2, x.dim()))
    deviation = (x.var(axes, correction=0) + op.epsilon).rsqrt()
    return [back(op, y), *running, x.mean(axes).detach(), deviation.detach()]


@counterpart("GroupNorm")
def group_norm(op: OpView, X: Tensor, gamma: Tensor, beta: Tensor) -> Sequence[Tensor | None]:
    x = first(op, X)
    if x.numel() < 2 * x.shape[0] * op.group or x.shape[0] == 0:
        raise NoCounterpart("one number to normalize, or none")
    y = functional().group_norm(x, op.group, gamma, beta, op.epsilon)
    groups = x.reshape(x.shape[0], op.group, -1)
    deviation = (groups.var(2, correction=0) + op.epsilon).rsqrt()
    return [back(op, y), groups.mean(2).detach(), deviation.detach()]


@counterpart("InstanceNorm")
def instance_norm(op: OpView, X: Tensor, scale: Tensor, bias: Tensor) -> Sequence[Tensor | None]:
    x = first(op, X)
    if math.prod(x.shape[2:]) < 2 or x.numel() == 0:
        raise NoCounterpart("one number to normalize, or none")
    # torch.nn.functional.instance_norm of 2.13 gives wrong gradients of a single image whose dY is not contiguous.
    rows, along = x.flatten(2), (-1, *[1] * (x.dim() - 2))
    z = functional().layer_norm(rows, rows.shape[2:], eps=op.epsilon).reshape(x.shape)
    y = z * scale.reshape(along) + bias.reshape(along)
    deviation = (rows.var(2, correction=0) + op.epsilon).rsqrt()
    return [back(op, y), rows.mean(2).detach(), deviation.detach()]


@counterpart("LayerNorm")
def layer_norm(
    op: OpView, X: Tensor, gamma: Tensor | None = None, beta: Tensor | None = None
) -> Sequence[Tensor | None]:
    axis = op.axis % X.dim()
    if X.numel() == 0 or math.prod(X.shape[axis:]) < 2:
        raise NoCounterpart("nothing to normalize: what is left of a row of one element is rounding")
    scale, offset = (gamma, beta) if op.elementwise_affine else (None, None)
    y = functional().layer_norm(X, X.shape[axis:], scale, offset, op.epsilon)
    rows = X.reshape(*X.shape[:axis], -1)
    deviation = (rows.var(-1, correction=0) + op.epsilon).sqrt()
    return [y, *(one.detach().reshape(*X.shape[:axis], 1) for one in (rows.mean(-1), deviation))]


@counterpart("Normalize")
def normalize(op: OpView, X: Tensor) -> Tensor:
    return functional().normalize(X, 2.0, op.axis)


@counterpart("NormalizeL1")
def normalize_l1(op: OpView, X: Tensor) -> Tensor:
    return functional().normalize(X, 1.0, op.axis)


@counterpart("AffineChannel")
def affine_channel(op: OpView, X: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    x = first(op, X)
    along = (-1, *[1] * (x.dim() - 2))
    return back(op, x * scale.reshape(along) + bias.reshape(along))


@counterpart("ChannelShuffle")
def channel_shuffle(op: OpView, X: Tensor) -> Tensor:
    return back(op, functional().channel_shuffle(first(op, X), op.group))


@counterpart("PRelu")
def prelu(op: OpView, X: Tensor, W: Tensor) -> Tensor:
    return back(op, functional().prelu(first(op, X), W))


# -- probabilities -----------------------------------------------------------------------------------------------------


@counterpart("Softmax")
def softmax(op: OpView, X: Tensor) -> Tensor:
    axis = op.axis % X.dim()
    return functional().softmax(X.flatten(axis), -1).reshape(X.shape)


@counterpart("SoftmaxWithLoss")
def softmax_with_loss(op: OpView, X: Tensor, label: Tensor, weights: Tensor | None = None) -> Sequence[Tensor | None]:
    axis = op.axis % X.dim()
    x = X.reshape(math.prod(X.shape[:axis]), -1)
    if op.label_prob:  # what a label lacks of 1, some 10^-8, has no part in the gradient by the operator's definition
        t = label.detach().reshape(x.shape)
        part = x.logsumexp(1) - (t * x).sum(1)
        losses = functional().cross_entropy(x, t, reduction="none").detach() + part - part.detach()
    else:
        losses = functional().cross_entropy(x, label.reshape(-1).long(), reduction="none")
    w = torch().ones_like(losses) if weights is None else weights.detach().reshape(-1)
    total = len(losses) if weights is None or op.average_by_batch_size else w.sum()
    if total == 0:
        raise NoCounterpart("weights that sum up to 0")
    return [functional().softmax(x, -1).reshape(X.shape).detach(), op.scale * (losses * w).sum() / total]


@counterpart("LabelCrossEntropy")
def label_cross_entropy(op: OpView, X: Tensor, label: Tensor) -> Tensor:
    del op
    return functional().nll_loss(X.clamp(min=1e-20).log(), label.reshape(-1).long(), reduction="none")


@counterpart("AveragedLoss")
def averaged_loss(op: OpView, X: Tensor) -> Tensor:
    del op
    if X.numel() == 0:
        raise NoCounterpart("the mean of nothing")
    return X.mean()


# -- products ----------------------------------------------------------------------------------------------------------


@counterpart("FC")
def fc(op: OpView, X: Tensor, W: Tensor, b: Tensor) -> Tensor:
    axis, axis_w = op.axis % X.dim(), op.axis_w % W.dim()
    x, w = (one.reshape(math.prod(one.shape[:at]), math.prod(one.shape[at:])) for one, at in ((X, axis), (W, axis_w)))
    return functional().linear(x, w, b.reshape(-1)).reshape(*X.shape[:axis], w.shape[0])


@counterpart("MatMul")
def matmul(op: OpView, A: Tensor, B: Tensor, like: Tensor | None = None) -> Tensor:
    a, b = (
        x.reshape(math.prod(x.shape[: axis % x.dim()]), math.prod(x.shape[axis % x.dim() :]))
        for x, axis in ((A, op.axis_a), (B, op.axis_b))
    )
    y = (a.T if op.trans_a else a) @ (b.T if op.trans_b else b)
    return y if like is None else y.reshape(like.shape)


@counterpart("BatchMatMul")
def batch_matmul(op: OpView, A: Tensor, B: Tensor) -> Tensor:
    a = A.mT if op.trans_a and A.dim() > 1 else A
    b = B.mT if op.trans_b and B.dim() > 1 else B
    y = torch().matmul(a, b)
    return y.reshape(1) if y.dim() == 0 else y


# -- elementwise -------------------------------------------------------------------------------------------------------


def elementwise(type: str, function: Callable[[OpView, Tensor], Tensor]) -> None:
    """Register a function of X."""

    @counterpart(type)
    def of_one(op: OpView, X: Tensor) -> Tensor:
        return function(op, X)

    del of_one


def positive(alpha: float) -> float:
    """Return alpha where the gradient, which is taken from Y, tells the sign of X by that of Y."""
    if alpha < 0:
        raise NoCounterpart("alpha < 0: the sign of Y is not that of X, which the gradient is not given")
    return alpha


for _type in "Abs Acos Asin Atan Ceil Cos Cosh Erf Exp Floor Log Negative Reciprocal Rsqrt Sigmoid".split():
    elementwise(_type, lambda op, X: getattr(torch(), op.type.lower())(X))
for _type in "Sign Sin Sinh Sqrt Tan Tanh".split():
    elementwise(_type, lambda op, X: getattr(torch(), op.type.lower())(X))
elementwise("Sqr", lambda op, X: X**2)
elementwise("Cube", lambda op, X: X**3)
elementwise("Relu", lambda op, X: functional().relu(X))
elementwise("ReluN", lambda op, X: functional().hardtanh(X, 0.0, op.n))
elementwise("LeakyRelu", lambda op, X: functional().leaky_relu(X, positive(op.alpha)))
elementwise("Elu", lambda op, X: functional().elu(X, positive(op.alpha)))
elementwise("Gelu", lambda op, X: functional().gelu(X, approximate="tanh" if op.fast_gelu else "none"))
elementwise("Softplus", lambda op, X: functional().softplus(X, threshold=700.0))
elementwise("Softsign", lambda op, X: functional().softsign(X))
elementwise("Swish", lambda op, X: functional().silu(X))
elementwise("Scale", lambda op, X: X * op.scale)
elementwise("Clip", lambda op, X: X.clamp(op.min, op.max))
elementwise("HardSigmoid", lambda op, X: (X * op.alpha + op.beta).clamp(0.0, 1.0))
elementwise("Not", lambda op, X: ~X)


@counterpart("Selu")
def selu(op: OpView, X: Tensor) -> Tensor:
    return op.scale * functional().elu(X, positive(op.alpha * op.scale) / op.scale)


PAIRS = {
    **{"Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Pow": "pow"},
    **{"EQ": "eq", "NE": "ne", "LT": "lt", "LE": "le", "GT": "gt", "GE": "ge"},
    **{"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor"},
}


@counterpart(*PAIRS)
def pair(op: OpView, A: Tensor, B: Tensor | None = None) -> Tensor:
    if B is None:
        return A**op.exponent
    b = _under(op, A, B) if op.broadcast else B
    if op.type == "Div" and not A.is_floating_point():
        return torch().div(A, b, rounding_mode="trunc")
    return getattr(torch(), PAIRS[op.type])(A, b)


def _under(op: OpView, A: Tensor, B: Tensor) -> Tensor:
    if op.axis_str:
        raise NoCounterpart("an axis named by a letter")
    if B.numel() == 1:  # lies under all of A, whatever the axis
        return B.reshape(())
    axis = A.dim() - B.dim() if op.axis == -1 else op.axis
    return B.reshape((*B.shape, *[1] * (A.dim() - B.dim() - axis)))


@counterpart("Sum")
def total(op: OpView, X: list[Tensor]) -> Tensor:
    del op
    return sum(X[1:], X[0])


@counterpart("Max")
def maximum(op: OpView, X: list[Tensor]) -> Tensor:
    del op
    return torch().stack(X).amax(0)


@counterpart("Min")
def minimum(op: OpView, X: list[Tensor]) -> Tensor:
    del op
    return torch().stack(X).amin(0)


# -- reductions --------------------------------------------------------------------------------------------------------

REDUCTIONS: dict[str, Callable[[Tensor, Sequence[int], bool], Tensor]] = {
    "ReduceSum": lambda x, axes, keep: x.sum(axes, keep),
    "ReduceMean": lambda x, axes, keep: x.mean(axes, keep),
    "ReduceMax": lambda x, axes, keep: x.amax(axes, keep),
    "ReduceMin": lambda x, axes, keep: x.amin(axes, keep),
    "ReduceL1": lambda x, axes, keep: x.abs().sum(axes, keep),
    "ReduceL2": lambda x, axes, keep: torch().linalg.vector_norm(x, 2, axes, keep),
}


@counterpart(*REDUCTIONS)
def reduction(op: OpView, X: Tensor) -> Tensor:
    if X.numel() == 0 or X.dim() == 0 or not X.is_floating_point():
        raise NoCounterpart("nothing to reduce, or integers")
    axes = tuple(axis % X.dim() for axis in op.axes) if op.axes else tuple(range(X.dim()))
    return REDUCTIONS[op.type](X, axes, bool(op.keepdims))


@counterpart("ReduceFrontSum", "ReduceFrontMean", "ReduceBackSum", "ReduceBackMean")
def reduce_ends(op: OpView, X: Tensor, lengths: Tensor | None = None) -> Tensor:
    count, mean = op.num_reduce_dim, op.type.endswith("Mean")
    if X.numel() == 0 or not X.is_floating_point():
        raise NoCounterpart("integers, or nothing to reduce")
    front = "Front" in op.type
    kept = X.shape[count:] if front else X.shape[: X.dim() - count]
    rows = X.reshape(-1, math.prod(kept)) if front else X.reshape(math.prod(kept), -1).T  # (R, K)
    if lengths is None:
        return (rows.mean(0) if mean else rows.sum(0)).reshape(kept)
    counts = torch().arange(len(rows)).reshape(-1, 1) < lengths.reshape(1, -1)
    y = (rows * counts).sum(0)
    return (y / lengths.clamp(min=1) if mean else y).reshape(kept)


@counterpart("SumElements", "SumSqrElements")
def sum_elements(op: OpView, X: Tensor) -> Tensor:
    if X.numel() == 0:
        raise NoCounterpart("the mean of nothing")
    x = X**2 if op.type == "SumSqrElements" else X
    return x.mean() if op.average else x.sum()


# -- shapes ------------------------------------------------------------------------------------------------------------


@counterpart("Concat")
def concat(op: OpView, X: list[Tensor]) -> Sequence[Tensor | None]:
    given = [argument.name for argument in op.definition.arg]
    axis = op.axis if "axis" in given else X[0].dim() - 1 if op.order.upper() == "NHWC" else 1
    return [torch().stack(X, axis) if op.add_axis else torch().cat(X, axis)]


@counterpart("Transpose")
def transpose(op: OpView, X: Tensor) -> Tensor:
    return X.permute(tuple(op.axes) if op.axes else tuple(reversed(range(X.dim()))))


@counterpart("Flatten")
def flatten(op: OpView, X: Tensor) -> Tensor:
    return X.reshape(math.prod(X.shape[: op.axis]), math.prod(X.shape[op.axis :]))


@counterpart("Squeeze")
def squeeze(op: OpView, X: Tensor) -> Tensor:
    return X.squeeze(tuple(op.dims))


@counterpart("NCHW2NHWC")
def to_last(op: OpView, X: Tensor) -> Tensor:
    del op
    return X.movedim(1, -1)


@counterpart("NHWC2NCHW")
def to_first(op: OpView, X: Tensor) -> Tensor:
    del op
    return X.movedim(-1, 1)
