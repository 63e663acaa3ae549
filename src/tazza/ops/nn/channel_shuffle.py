"""Channel shuffles: ChannelShuffle. With G groups of K = C/G channels, channels go from (G, K) to (K, G).

X, Y, dY and dX have one shape: (N, C, S...), with NHWC (N, S..., C).
"""

from __future__ import annotations

from tazza.operator import FLOAT, Array, Cost, Effects, GradientRequest, OpView, arg, blob, ends, kernel, schema
from tazza.ops.nn.channel import ORDER, channel_count
from tazza.ops.nn.window import channels_first
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

# Old model files carry the arguments of the convolution beside it; Caffe2 reads and forgets them.
WINDOW = tuple(
    arg(name, int, None, doc="no effect: it comes from a convolution") for name in ("kernel", "stride", "pad")
)
ARGS = (arg("group", int, 1, minimum=1, doc="G: the channels come from so many groups"), ORDER, *WINDOW)

CHANNEL_SHUFFLE = schema(
    "ChannelShuffle",
    "Y[k * G + g] = X[g * K + k] for channels, so that each group of what follows sees all G groups.",
    inputs=[blob("X", FLOAT, doc="(N, C, S...), NHWC: (N, S..., C)")],
    outputs=[blob("Y", like="X")],
    args=ARGS,
    effects=Effects.PURE,
    source="Zhang, Zhou, Lin, Sun 2017, arXiv 1707.01083, section 3.1",
    example="""
    >>> run("ChannelShuffle", [[0.0, 1.0, 2.0, 10.0, 11.0, 12.0]], group=2)
    array([[ 0., 10.,  1., 11.,  2., 12.]], dtype=float32)
    """,
)


def channel_shuffle_infer(op: OpView, X: TensorSpec) -> TensorSpec:
    C = channel_count(op, "X", X.dims)
    relation = f"{C} channels do not divide into {op.group} groups"
    op.require(C is None or C % op.group == 0, relation, "set group to a divisor of C")
    return TensorSpec(X.dims, X.dtype)


def channel_shuffle_cost(op: OpView, X: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return Cost(0, X.nbytes, Y.nbytes)


CHANNEL_SHUFFLE.infer(channel_shuffle_infer)
CHANNEL_SHUFFLE.cost(channel_shuffle_cost)
CHANNEL_SHUFFLE.batched("X")


@CHANNEL_SHUFFLE.gradient
def channel_shuffle_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("ChannelShuffleGradient", [g.dY], [g.dX])


@kernel(CHANNEL_SHUFFLE)
def channel_shuffle(op: OpView, X: Array, Y: Array) -> None:
    x, y = channels_first(op.order, X), channels_first(op.order, Y)
    y[...] = _swapped(x, op.group)


CHANNEL_SHUFFLE_GRADIENT = schema(
    "ChannelShuffleGradient",
    "dX[g * K + k] = dY[k * G + g] for channels.",
    inputs=[blob("dY", FLOAT)],
    outputs=[blob("dX", like="dY")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="the forward operator the other way",
    example="""
    >>> run("ChannelShuffleGradient", [[0.0, 10.0, 1.0, 11.0, 2.0, 12.0]], group=2)
    array([[ 0.,  1.,  2., 10., 11., 12.]], dtype=float32)
    """,
)


@CHANNEL_SHUFFLE_GRADIENT.infer
def channel_shuffle_gradient_infer(op: OpView, dY: TensorSpec) -> TensorSpec:
    return channel_shuffle_infer(op, dY)


@CHANNEL_SHUFFLE_GRADIENT.cost
def channel_shuffle_gradient_cost(op: OpView, dY: TensorSpec, dX: TensorSpec) -> Cost:
    return channel_shuffle_cost(op, dY, dX)


@kernel(CHANNEL_SHUFFLE_GRADIENT)
def channel_shuffle_gradient_kernel(op: OpView, dY: Array, dX: Array) -> None:
    dy, dx = channels_first(op.order, dY), channels_first(op.order, dX)
    dx[...] = _swapped(dy, dy.shape[1] // op.group)


def _swapped(x: Array, rows: int) -> Array:
    """Return x (N, C, S...) with its channels, taken as a matrix of so many rows, transposed."""
    N, C = x.shape[:2]
    parts = x.reshape(N, rows, C // max(rows, 1), *x.shape[2:])
    return parts.swapaxes(1, 2).reshape(x.shape)
