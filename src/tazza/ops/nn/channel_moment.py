"""Numbers for each channel: BatchMoments, ChannelStats, ChannelBackpropStats.

Letters: N images, C channels, S... spatial sizes; n the elements of a channel in all images. X and what has its shape
are (N, C, S...), with NHWC (N, S..., C); what is said of channels has C elements.

Source: Caffe2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tazza.data_class import dataclass
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    NoGradient,
    OpSchema,
    OpView,
    Role,
    RowProgram,
    Total,
    blob,
    ends,
    family,
    forbidden,
    kernel,
    row_program,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.nn.channel import (
    ORDER,
    along,
    beside_channels,
    channel_count,
    channel_cut,
    channels_last,
    require_channels,
)
from tazza.ops.nn.window import channels_first
from tazza.ops.reduce.moment import mean_over
from tazza.ops.shape.axis import require_as_many
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec


def _sum_over(x: Array, axes: tuple[int, ...]) -> Array:
    return x.sum(axis=axes, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Powers:
    """How the elements of a channel, or their squares, become one number, and an example."""

    what: str
    over: Callable[[Array, tuple[int, ...]], Array]
    example: str
    no_gradient: NoGradient | None = None


def powers_infer(op: OpView, X: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
    numbers = TensorSpec((channel_count(op, "X", X.dims),), X.dtype)
    return numbers, numbers


def powers_cost(op: OpView, X: TensorSpec, first: TensorSpec, second: TensorSpec) -> Cost:
    del op
    return streamed((X,), (first, second), flops=3 * X.size)


POWERS = {"sum": Total("sum", "X"), "squares": Total("sum", "X * X")}


@family(
    {
        "BatchMoments": Powers("mean", mean_over, "(array([2.], dtype=float32), array([5.], dtype=float32))"),
        "ChannelStats": Powers(
            "sum",
            _sum_over,
            "(array([4.], dtype=float32), array([10.], dtype=float32))",
            forbidden("a step within a normalization, which has the gradient"),
        ),
    }
)
def channel_powers(type: str, row: Powers) -> OpSchema:
    """The mean, or the sum, of each channel and of its squares."""
    made = schema(
        type,
        f"first = the {row.what} of each channel of X, second = that of the squares; 0 where there is no element.",
        inputs=[blob("X", FLOAT, doc="(N, C, S...), NHWC: (N, S..., C)")],
        outputs=[blob("first", "X", "C"), blob("second", "X", "C")],
        args=[ORDER],
        effects=Effects.PURE,
        no_gradient=row.no_gradient,
        source="Caffe2",
        example=f'>>> run("{type}", [[[1.0, 3.0]]], outputs=2)\n{row.example}',
    )
    made.infer(powers_infer)

    made.cost(powers_cost)

    @kernel(made)
    def powers(op: OpView, X: Array, first: Array, second: Array) -> None:
        x = channels_first(op.order, X).astype(np.float64)
        first[...] = row.over(x, beside_channels(x)).reshape(-1)
        second[...] = row.over(x * x, beside_channels(x)).reshape(-1)

    def rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
        cut = channel_cut(specs["X"], last=channels_last(op))
        if isinstance(cut, str):
            return cut
        share = "" if row.over is _sum_over else " / count"
        return RowProgram(cut, POWERS, {"first": f"sum{share}", "second": f"squares{share}"})

    row_program(made, rows)
    return made


BATCH_MOMENTS_GRADIENT = schema(
    "BatchMomentsGradient",
    "dX = (dfirst + 2 * X * dsecond) / n.",
    inputs=[
        blob("dfirst", FLOAT, doc="(C), of any shape"),
        blob("dsecond", "dfirst", role=Role.DATA, doc="(C), of any shape"),
        blob("X", "dfirst", role=Role.DATA, doc="(N, C, S...), NHWC: (N, S..., C)"),
    ],
    outputs=[blob("dX", like="X")],
    args=[ORDER],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("BatchMomentsGradient", [4.0], [10.0], [[[1.0, 3.0]]])
    array([[[12., 32.]]], dtype=float32)
    """,
)


@channel_powers["BatchMoments"].gradient
def batch_moments_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("BatchMomentsGradient", [g.dfirst, g.dsecond, g.X], [g.dX])


@BATCH_MOMENTS_GRADIENT.infer
def batch_moments_gradient_infer(op: OpView, dfirst: TensorSpec, dsecond: TensorSpec, X: TensorSpec) -> TensorSpec:
    require_channels(op, channel_count(op, "X", X.dims), dfirst=dfirst, dsecond=dsecond)
    return X


@BATCH_MOMENTS_GRADIENT.cost
def batch_moments_gradient_cost(
    op: OpView, dfirst: TensorSpec, dsecond: TensorSpec, X: TensorSpec, dX: TensorSpec
) -> Cost:
    del op
    return streamed((dfirst, dsecond, X), (dX,), flops=4 * X.size)


@kernel(BATCH_MOMENTS_GRADIENT)
def batch_moments_gradient_kernel(op: OpView, dfirst: Array, dsecond: Array, X: Array, dX: Array) -> None:
    x, dx = channels_first(op.order, X), channels_first(op.order, dX)
    n = max(X.size // max(x.shape[1], 1), 1)
    dx[...] = (along(dfirst, x) + 2 * x * along(dsecond, x)) / n


CHANNEL_BACKPROP_STATS = schema(
    "ChannelBackpropStats",
    """dscale = the sum of dY * (X - mean) * inv_std over each channel, dbias = the sum of dY.

    Channels stand in axis 1, whatever `order` says.""",
    inputs=[
        blob("X", FLOAT, doc="(N, C, S...), of 3 to 5 dimensions"),
        blob("mean", "X", doc="(C), of any shape"),
        blob("inv_std", "X", doc="(C), of any shape"),
        blob("dY", "X", doc="as many elements as X"),
    ],
    outputs=[blob("dscale", "X", "C"), blob("dbias", "X", "C")],
    args=[ORDER],
    effects=Effects.PURE,
    no_gradient=forbidden("a step within the gradient of a normalization"),
    source="Caffe2",
    example="""
    >>> run("ChannelBackpropStats", [[[1.0, 3.0]]], [2.0], [10.0], [[[1.0, 5.0]]], outputs=2)
    (array([40.], dtype=float32), array([6.], dtype=float32))
    """,
)


@CHANNEL_BACKPROP_STATS.infer
def channel_backprop_stats_infer(
    op: OpView, X: TensorSpec, mean: TensorSpec, inv_std: TensorSpec, dY: TensorSpec
) -> tuple[TensorSpec, TensorSpec]:
    if X.dims is not None:
        op.require(3 <= len(X.dims) <= 5, f"X has the shape {show_dims(X.dims)}, it needs 3 to 5 dimensions")
    C = None if X.dims is None else X.dims[1]
    require_channels(op, C, mean=mean, inv_std=inv_std)
    require_as_many(op, "X", X.dims, dY=dY.dims)
    return TensorSpec((C,), X.dtype), TensorSpec((C,), X.dtype)


@CHANNEL_BACKPROP_STATS.cost
def channel_backprop_stats_cost(
    op: OpView,
    X: TensorSpec,
    mean: TensorSpec,
    inv_std: TensorSpec,
    dY: TensorSpec,
    dscale: TensorSpec,
    dbias: TensorSpec,
) -> Cost:
    del op
    return streamed((X, mean, inv_std, dY), (dscale, dbias), flops=5 * X.size)


@kernel(CHANNEL_BACKPROP_STATS)
def channel_backprop_stats(X: Array, mean: Array, inv_std: Array, dY: Array, dscale: Array, dbias: Array) -> None:
    dy, axes = dY.reshape(X.shape), beside_channels(X)
    z = (X - along(mean, X)).astype(np.float64) * along(inv_std, X)
    dscale[...] = _sum_over(dy * z, axes)
    dbias[...] = _sum_over(dy, axes)


def _moments_back(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    cut = channel_cut(specs["X"], last=channels_last(op))
    if isinstance(cut, str):
        return cut
    row = {"share": "dfirst / count", "slope": "2 * dsecond / count"}
    return RowProgram(cut, row=row, each={"dX": "share + X * slope"}, lies={"dfirst": "row", "dsecond": "row"})


def _backprop(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    del op
    cut = channel_cut(specs["X"], last=False)
    if isinstance(cut, str):
        return cut
    totals = {"scaled": Total("sum", "dY * (X - mean)"), "dbias": Total("sum", "dY")}
    return RowProgram(cut, totals, {"dscale": "scaled * inv_std"}, lies={"mean": "row", "inv_std": "row"})


row_program(BATCH_MOMENTS_GRADIENT, _moments_back)
row_program(CHANNEL_BACKPROP_STATS, _backprop)
