"""Group normalization: GroupNorm.

Letters: N images, C channels, G groups of C/G channels each, `S...` spatial sizes. X, Y, dY and dX are (N, C, S...),
with NHWC (N, S..., C); gamma and beta have C elements, mean and inv_std are (N, G).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from tazza.errors import SchemaError
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
    show_dims,
    together,
)
from tazza.ops.nn.channel import ORDER, channel_count, channels_last, require_channels
from tazza.ops.nn.window import channels_first
from tazza.ops.reduce.moment import MOMENT_TOTALS, moments, normalization_gradient
from tazza.ops.shape.axis import agree, product, shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

ARGS = (
    arg("group", int, 32, minimum=1, doc="G: the channels fall into so many groups"),
    arg("epsilon", float, 1e-5, minimum=0, doc="added to the variance"),
    ORDER,
    arg("is_test", int, 1, doc="0: mean and inv_std must be among the outputs; no effect otherwise"),
)
GROUP = (2, 3)

GROUP_NORM = schema(
    "GroupNorm",
    """Y = gamma * (X - mean) * inv_std + beta, mean and inv_std over each group of channels of each image.

    inv_std = 1 / sqrt(variance + epsilon), with the biased variance. The group is as large as its channels times S.""",
    inputs=[
        blob("X", FLOAT, doc="(N, C, S...), NHWC: (N, S..., C)"),
        blob("gamma", "X", role=Role.PARAMETER, doc="(C)"),
        blob("beta", "X", role=Role.PARAMETER, doc="(C)"),
    ],
    outputs=[
        blob("Y", like="X"),
        blob("mean", "X", optional=True, doc="(N, G)"),
        blob("inv_std", "X", optional=True, doc="(N, G)"),
    ],
    args=ARGS,
    effects=Effects.PURE,
    relations=[together("mean", "inv_std")],
    source="Wu, He 2018, arXiv 1803.08494",
    example="""
    >>> run("GroupNorm", [[1.0, 5.0, 4.0, 2.0]], [1.0] * 4, [0.0] * 4, group=2, epsilon=0.0)
    array([[-1.,  1.,  1., -1.]], dtype=float32)
    """,
)


GROUP_NORM.trains_unless("is_test", "mean", "inv_std")


@GROUP_NORM.validate
def group_norm_validate(op: OpView) -> None:
    if not op.is_test and not op.has_output("inv_std"):
        raise op.error(SchemaError, "1 output with is_test = 0, it takes 3", "add mean and inv_std")


@GROUP_NORM.infer
def group_norm_infer(op: OpView, X: TensorSpec, gamma: TensorSpec, beta: TensorSpec) -> tuple[TensorSpec, ...]:
    statistics = _check(op, X, gamma, beta)
    return (TensorSpec(X.dims, X.dtype), statistics, statistics)[: len(op.output_letters)]


GROUP_NORM.batched("X")


@GROUP_NORM.cost
def group_norm_cost(
    op: OpView,
    X: TensorSpec,
    gamma: TensorSpec,
    beta: TensorSpec,
    Y: TensorSpec,
    mean: TensorSpec | None,
    inv_std: TensorSpec | None,
) -> Cost:
    del op
    statistics = sum(spec.nbytes for spec in (mean, inv_std) if spec is not None)
    parameters = gamma.nbytes + beta.nbytes
    return Cost(9 * X.size, X.nbytes + parameters, Y.nbytes + statistics, parameters)


@GROUP_NORM.gradient
def group_norm_gradient(g: GradientRequest) -> list[OperatorDef]:
    if not g.op.has_output("inv_std"):
        message = "1 output, its gradient needs mean and inv_std too"
        raise g.op.error(SchemaError, message, "give GroupNorm three outputs")
    inputs = [g.dY, g.X, g.gamma, g.beta, g.mean, g.inv_std]
    return g.emit("GroupNormGradient", inputs, [g.dX, g.dgamma, g.dbeta])


@kernel(GROUP_NORM)
def group_norm(
    op: OpView, X: Array, gamma: Array, beta: Array, Y: Array, mean: Array | None, inv_std: Array | None
) -> None:
    x = _grouped(op, X)  # (N, G, C/G, S)
    mu, variance = moments(x, GROUP)
    inverse = 1 / np.sqrt(variance + op.epsilon)
    y = (x - mu) * inverse * _by_group(op, gamma) + _by_group(op, beta)
    target = channels_first(op.order, Y)
    target[...] = y.reshape(target.shape)
    if mean is not None and inv_std is not None:
        mean[...] = mu.reshape(mean.shape)
        inv_std[...] = inverse.reshape(inv_std.shape)


GROUP_NORM_GRADIENT = schema(
    "GroupNormGradient",
    """dX = inv_std * (dZ - mean of dZ - Z * mean of dZ * Z), dgamma = sum of dY * Z, dbeta = sum of dY.

    Z is (X - mean) * inv_std, dZ is dY * gamma; means over each group, sums over all but the channels. beta is not
    read; it is there as Caffe2 hands it over.""",
    inputs=[
        blob("dY", FLOAT),
        blob("X", "dY"),
        blob("gamma", "dY", role=Role.PARAMETER),
        blob("beta", role=Role.PARAMETER, doc="of any type: only its shape counts"),
        blob("mean", "dY", doc="(N, G)"),
        blob("inv_std", "dY", doc="(N, G)"),
    ],
    outputs=[blob("dX", like="X"), blob("dgamma", like="gamma"), blob("dbeta", like="gamma")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> X, one = np.array([[1.0, 5.0]], "f"), np.ones((1, 1), "f")
    >>> dX, dgamma, dbeta = run("GroupNormGradient", X + 1, X, [1.0, 1.0], [0.0, 0.0], 3 * one, one / 2, group=1)
    >>> dX, dgamma
    (array([[0., 0.]], dtype=float32), array([-2.,  6.], dtype=float32))
    """,
)


@GROUP_NORM_GRADIENT.infer
def group_norm_gradient_infer(
    op: OpView,
    dY: TensorSpec,
    X: TensorSpec,
    gamma: TensorSpec,
    beta: TensorSpec,
    mean: TensorSpec,
    inv_std: TensorSpec,
) -> tuple[TensorSpec, ...]:
    statistics = _check(op, X, gamma, beta)
    if X.dims is not None and dY.dims is not None:
        relation = f"dY has the shape {show_dims(dY.dims)}, X has {show_dims(X.dims)}"
        op.require(shapes_agree(dY.dims, X.dims), relation)
    for letter, spec in (("mean", mean), ("inv_std", inv_std)):
        if spec.dims is not None and statistics.dims is not None:
            count, wanted = product(spec.dims), product(statistics.dims)
            op.require(agree(count, wanted), f"{letter} has {count} elements, there are {wanted} groups")
    vector = TensorSpec(gamma.dims, X.dtype)
    return TensorSpec(X.dims, X.dtype), vector, vector


@GROUP_NORM_GRADIENT.cost
def group_norm_gradient_cost(
    op: OpView, dY: TensorSpec, X: TensorSpec, gamma: TensorSpec, mean: TensorSpec, dX: TensorSpec, **others: TensorSpec
) -> Cost:
    del op, others
    read = dY.nbytes + X.nbytes + gamma.nbytes + 2 * mean.nbytes
    return Cost(13 * X.size, read, dX.nbytes + 2 * gamma.nbytes, gamma.nbytes)


@kernel(GROUP_NORM_GRADIENT)
def group_norm_gradient_kernel(
    op: OpView,
    dY: Array,
    X: Array,
    gamma: Array,
    mean: Array,
    inv_std: Array,
    dX: Array,
    dgamma: Array,
    dbeta: Array,
) -> None:
    x, dy = _grouped(op, X), _grouped(op, dY).astype(np.float64)
    statistics = (*x.shape[:2], 1, 1)
    inverse = inv_std.reshape(statistics)
    z = (x - mean.reshape(statistics)) * inverse
    dgamma[...] = (dy * z).sum(axis=(0, 3)).reshape(dgamma.shape)
    dbeta[...] = dy.sum(axis=(0, 3)).reshape(dbeta.shape)
    target = channels_first(op.order, dX)
    target[...] = normalization_gradient(dy * _by_group(op, gamma), z, inverse, GROUP).reshape(target.shape)


def _grouped(op: OpView, X: Array) -> Array:
    """Return (N, G, C/G, S) of X in either order."""
    x = channels_first(op.order, X)
    N, C = x.shape[:2]
    return x.reshape(N, op.group, C // op.group, x[0, 0].size if x.size else 0)


def _by_group(op: OpView, vector: Array) -> Array:
    """Return (C) as (G, C/G, 1)."""
    return vector.reshape(op.group, vector.size // op.group, 1)


def _check(op: OpView, X: TensorSpec, gamma: TensorSpec, beta: TensorSpec) -> TensorSpec:
    """Check channels, groups and vectors, and return the spec of mean and inv_std."""
    C = channel_count(op, "X", X.dims)
    relation = f"{C} channels do not divide into {op.group} groups"
    op.require(C is None or C % op.group == 0, relation, "set group to a divisor of C")
    require_channels(op, C, gamma=gamma, beta=beta)
    return TensorSpec((None if X.dims is None else X.dims[0], op.group), X.dtype)


SAVED = {"mean": "total / count", "inv_std": "1 / sqrt((squares - rest * rest / count) / count + epsilon)"}
"""What is kept of a row X, from the totals of `MOMENT_TOTALS`."""


def _refused(op: OpView, X: TensorSpec) -> str | None:
    if channels_last(op) and len(X.shape) > 2:
        return "the elements of a group do not lie side by side"
    return None


def _normalized(op: OpView, specs: Mapping[str, TensorSpec]) -> tuple[RowProgram, ...] | str:
    X, reason = specs["X"], _refused(op, specs["X"])
    if reason is not None:
        return reason
    N, C, S = X.shape[0], X.shape[1], math.prod(X.shape[2:])
    share: int = C // op.group
    keeps = () if op.has_output("inv_std") else ("mean", "inv_std")
    each = {"Y": "(X - mean) * (inv_std * gamma) + beta"}
    return (
        RowProgram(Cut(N * op.group, share * S), MOMENT_TOTALS, SAVED, keeps=keeps),
        RowProgram(Cut(N * C, S), each=each, picks={"mean": share, "inv_std": share, "gamma": 1, "beta": 1}),
    )


def _gradients(op: OpView, specs: Mapping[str, TensorSpec]) -> tuple[RowProgram, ...] | str:
    """Sums over each channel of each image; of these over images, and over channels of a group; then elements."""
    X, reason = specs["X"], _refused(op, specs["X"])
    if reason is not None:
        return reason
    N, C, S = X.shape[0], X.shape[1], math.prod(X.shape[2:])
    share: int = C // op.group
    groups = {"mean": share, "inv_std": share}
    sums = {"dots": Total("sum", "dY * (X - mean)"), "sums": Total("sum", "dY")}
    along = {"dot_mean": Total("sum", "gamma * of_z"), "sum_mean": Total("sum", "gamma * sums")}
    row = {"slope": "inv_std * dot_mean / n", "share": "sum_mean / n"}
    each = {"dX": "inv_std * (dY * gamma - share - (X - mean) * slope)"}
    return (
        RowProgram(Cut(N * C, S), sums, {"of_z": "dots * inv_std"}, picks=groups, keeps=("of_z", "sums")),
        RowProgram(Cut(1, N, C), {"dgamma": Total("sum", "of_z"), "dbeta": Total("sum", "sums")}),
        RowProgram(Cut(N * op.group, share), along, lies={"gamma": "repeated"}, keeps=("dot_mean", "sum_mean")),
        RowProgram(
            Cut(N * C, S),
            row=row,
            each=each,
            picks={**groups, "dot_mean": share, "sum_mean": share, "gamma": 1},
            given={"n": float(share * S)},
        ),
    )


row_program(GROUP_NORM, _normalized)
row_program(GROUP_NORM_GRADIENT, _gradients)
