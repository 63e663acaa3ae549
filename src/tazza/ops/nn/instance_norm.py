"""Instance normalization: InstanceNorm.

Letters: N images, C channels, `S...` spatial sizes. X, Y, dY and dX are (N, C, S...), with NHWC (N, S..., C); scale and
bias have C elements, mean and inv_std are (N, C).
"""

from __future__ import annotations

import math
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
    show_dims,
)
from tazza.ops.nn.channel import ORDER, along, beside_channels, channel_count, channels_last, require_channels
from tazza.ops.nn.group_norm import SAVED
from tazza.ops.nn.window import channels_first
from tazza.ops.reduce.moment import MOMENT_TOTALS, moments, normalization_gradient
from tazza.ops.shape.axis import agree, product, shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

ARGS = (arg("epsilon", float, 1e-5, minimum=0, doc="added to the variance"), ORDER)

INSTANCE_NORM = schema(
    "InstanceNorm",
    """Y = scale * (X - mean) * inv_std + bias, mean and inv_std over each channel of each image.

    inv_std = 1 / sqrt(variance + epsilon), with the biased variance.""",
    inputs=[
        blob("X", FLOAT, doc="(N, C, S...), NHWC: (N, S..., C)"),
        blob("scale", "X", role=Role.PARAMETER, doc="(C)"),
        blob("bias", "X", role=Role.PARAMETER, doc="(C)"),
    ],
    outputs=[
        blob("Y", like="X"),
        blob("mean", "X", optional=True, doc="(N, C)"),
        blob("inv_std", "X", optional=True, doc="(N, C)"),
    ],
    args=ARGS,
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Ulyanov, Vedaldi, Lempitsky 2016, arXiv 1607.08022",
    example="""
    >>> run("InstanceNorm", [[[1.0, 5.0], [2.0, 2.0]]], [10.0, 10.0], [1.0, 3.0], epsilon=1e-9)
    array([[[-9., 11.],
            [ 3.,  3.]]], dtype=float32)
    """,
)


@INSTANCE_NORM.infer
def instance_norm_infer(op: OpView, X: TensorSpec, scale: TensorSpec, bias: TensorSpec) -> tuple[TensorSpec, ...]:
    statistics = _check(op, X, scale, bias)
    return (TensorSpec(X.dims, X.dtype), statistics, statistics)[: len(op.output_letters)]


INSTANCE_NORM.batched("X")


@INSTANCE_NORM.cost
def instance_norm_cost(
    op: OpView,
    X: TensorSpec,
    scale: TensorSpec,
    bias: TensorSpec,
    Y: TensorSpec,
    mean: TensorSpec | None,
    inv_std: TensorSpec | None,
) -> Cost:
    del op
    statistics = sum(spec.nbytes for spec in (mean, inv_std) if spec is not None)
    parameters = scale.nbytes + bias.nbytes
    return Cost(9 * X.size, X.nbytes + parameters, Y.nbytes + statistics, parameters)


@INSTANCE_NORM.gradient
def instance_norm_gradient(g: GradientRequest) -> list[OperatorDef]:
    statistics = [g.O(i) for i in range(1, len(g.definition.output))]
    return g.emit("InstanceNormGradient", [g.X, g.scale, g.bias, g.dY, *statistics], [g.dX, g.dscale, g.dbias])


@kernel(INSTANCE_NORM)
def instance_norm(
    op: OpView, X: Array, scale: Array, bias: Array, Y: Array, mean: Array | None, inv_std: Array | None
) -> None:
    x, y = channels_first(op.order, X), channels_first(op.order, Y)
    mu, inverse = _statistics(op, x, None, None)
    y[...] = (x - mu) * inverse * along(scale, x) + along(bias, x)
    if mean is not None:
        mean[...] = mu.reshape(mean.shape)
    if inv_std is not None:
        inv_std[...] = inverse.reshape(inv_std.shape)


INSTANCE_NORM_GRADIENT = schema(
    "InstanceNormGradient",
    """dX = inv_std * (dZ - mean of dZ - Z * mean of dZ * Z), dscale = sum of dY * Z, dbias = sum of dY.

    Z is (X - mean) * inv_std, dZ is dY * scale; means over each channel of each image, sums over all but the
    channels. mean and inv_std are computed again where they are not given. bias is not read.""",
    inputs=[
        blob("X", FLOAT),
        blob("scale", "X", role=Role.PARAMETER),
        blob("bias", role=Role.PARAMETER, doc="of any type: only its shape counts"),
        blob("dY", "X"),
        blob("mean", "X", optional=True, doc="(N, C)"),
        blob("inv_std", "X", optional=True, doc="(N, C)"),
    ],
    outputs=[blob("dX", like="X"), blob("dscale", like="scale"), blob("dbias", like="scale")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> X = np.array([[[1.0, 5.0]]], "f")
    >>> dX, dscale, dbias = run("InstanceNormGradient", X, [1.0], [0.0], X + 1, epsilon=1e-9)
    >>> dscale, dbias
    (array([4.], dtype=float32), array([8.], dtype=float32))
    """,
)


@INSTANCE_NORM_GRADIENT.infer
def instance_norm_gradient_infer(
    op: OpView,
    X: TensorSpec,
    scale: TensorSpec,
    bias: TensorSpec,
    dY: TensorSpec,
    mean: TensorSpec | None,
    inv_std: TensorSpec | None,
) -> tuple[TensorSpec, ...]:
    statistics = _check(op, X, scale, bias)
    if X.dims is not None and dY.dims is not None:
        relation = f"dY has the shape {show_dims(dY.dims)}, X has {show_dims(X.dims)}"
        op.require(shapes_agree(dY.dims, X.dims), relation)
    for letter, spec in (("mean", mean), ("inv_std", inv_std)):
        if spec is not None and spec.dims is not None and statistics.dims is not None:
            count, wanted = product(spec.dims), product(statistics.dims)
            op.require(agree(count, wanted), f"{letter} has {count} elements, X has {wanted} channels of images")
    return tuple(TensorSpec(spec.dims, X.dtype) for spec in (X, scale, bias))


@INSTANCE_NORM_GRADIENT.cost
def instance_norm_gradient_cost(
    op: OpView,
    X: TensorSpec,
    scale: TensorSpec,
    dY: TensorSpec,
    mean: TensorSpec | None,
    inv_std: TensorSpec | None,
    dX: TensorSpec,
    **vectors: TensorSpec,
) -> Cost:
    del op, vectors
    statistics = sum(spec.nbytes for spec in (mean, inv_std) if spec is not None)
    read = X.nbytes + dY.nbytes + scale.nbytes + statistics
    return Cost((13 if inv_std is not None else 18) * X.size, read, dX.nbytes + 2 * scale.nbytes, scale.nbytes)


@kernel(INSTANCE_NORM_GRADIENT)
def instance_norm_gradient_kernel(
    op: OpView,
    X: Array,
    scale: Array,
    dY: Array,
    mean: Array | None,
    inv_std: Array | None,
    dX: Array,
    dscale: Array,
    dbias: Array,
) -> None:
    x, dy, dx = (channels_first(op.order, array) for array in (X, dY, dX))
    mu, inverse = _statistics(op, x, mean, inv_std)
    z = (x - mu) * inverse
    dscale[...] = (dy * z).sum(axis=beside_channels(x)).reshape(dscale.shape)
    dbias[...] = dy.sum(axis=beside_channels(x), dtype=np.float64).reshape(dbias.shape)
    dx[...] = normalization_gradient(dy * along(scale, x), z, inverse, tuple(range(2, x.ndim)))


def _statistics(op: OpView, x: Array, mean: Array | None, inv_std: Array | None) -> tuple[Array, Array]:
    """Return mean and inv_std of x (N, C, S...) as (N, C, 1...), those that are given or else computed ones."""
    axes = tuple(range(2, x.ndim))
    shape = (*x.shape[:2], *[1] * len(axes))
    if mean is not None and inv_std is not None:
        return mean.reshape(shape), inv_std.reshape(shape)
    mu, variance = moments(x, axes)
    inverse = 1 / np.sqrt(variance + op.epsilon)
    return mu if mean is None else mean.reshape(shape), inverse


def _check(op: OpView, X: TensorSpec, scale: TensorSpec, bias: TensorSpec) -> TensorSpec:
    """Check channels and vectors, and return the spec of mean and inv_std."""
    C = channel_count(op, "X", X.dims)
    require_channels(op, C, scale=scale, bias=bias)
    return TensorSpec((None if X.dims is None else X.dims[0], C), X.dtype)


def _channels(op: OpView, X: TensorSpec) -> tuple[int, int, int] | str:
    """Return N, C and S of images whose channels lie one behind the other."""
    if channels_last(op) and len(X.shape) > 2:
        return "the elements of a channel do not lie side by side"
    return X.shape[0], X.shape[1], math.prod(X.shape[2:])


def _normalized(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    found = _channels(op, specs["X"])
    if isinstance(found, str):
        return found
    N, C, S = found
    each = {"Y": "(X - mean) * (inv_std * scale) + bias"}
    return RowProgram(Cut(N * C, S), MOMENT_TOTALS, SAVED, each, picks={"scale": 1, "bias": 1})


def _gradients(op: OpView, specs: Mapping[str, TensorSpec]) -> tuple[RowProgram, ...] | str:
    """Elements, and sums over each channel of each image; then sums of these over images."""
    found = _channels(op, specs["X"])
    if isinstance(found, str):
        return found
    N, C, S = found
    given = [letter for letter in SAVED if letter in specs]
    again = {letter: text for letter, text in SAVED.items() if letter not in given}
    totals = {**(MOMENT_TOTALS if again else {}), "dots": Total("sum", "dY * (X - mean)"), "sums": Total("sum", "dY")}
    row = {**again, "of_z": "dots * inv_std", "slope": "inv_std * of_z / count"}
    each = {"dX": "inv_std * scale * (dY - sums / count - (X - mean) * slope)"}
    return (
        RowProgram(
            Cut(N * C, S), totals, row, each, dict.fromkeys(given, "row"), picks={"scale": 1}, keeps=("of_z", "sums")
        ),
        RowProgram(Cut(1, N, C), {"dscale": Total("sum", "of_z"), "dbias": Total("sum", "sums")}),
    )


row_program(INSTANCE_NORM, _normalized)
row_program(INSTANCE_NORM_GRADIENT, _gradients)
