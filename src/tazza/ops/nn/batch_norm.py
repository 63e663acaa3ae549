"""Batch normalization: SpatialBN.

Letters: N images, C channels, `S...` spatial sizes, n = N * size of S. With order NCHW X and Y are (N, C, S...), with
NHWC (N, S..., C); everything else has C elements.

Training takes mean and variance from the batch and moves the running pair towards them; test mode takes the running
pair. The variance that normalizes is biased (divided by n), the one that the running variance takes is unbiased
(divided by n - 1).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.errors import ArgumentError, SchemaError
from tazza.operator import (
    FLOAT,
    HALVES,
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
    together,
)
from tazza.ops.nn.window import channels_first
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

ARGS = (
    arg("epsilon", float, 1e-5, doc="added to the variance; above 0"),
    arg("momentum", float, 0.9, minimum=0, maximum=1, doc="weight of the old running value"),
    arg("order", str, "NCHW", choices=("NCHW", "NHWC"), doc="where the channels stand"),
    arg("num_batches", int, 1, minimum=0, doc="above 1: statistics of so many batches together come in as sums"),
)

SPATIAL_BN = schema(
    "SpatialBN",
    """Y = scale * (X - mean) / sqrt(var + epsilon) + bias, for each channel.

    With `is_test` the inputs mean and var are used, and Y is the only output. Else the batch's own are used, and the
    running pair becomes momentum * old + (1 - momentum) * batch, with the unbiased variance; with one value a channel
    that is NaN. With num_batches above 1, sums and sumsq are the sums of X and of X * X over that many batches of the
    size of this one, and give the statistics. An empty batch leaves the running pair as it is and gives zeros as saved
    pair.""",
    inputs=[
        blob("X", FLOAT, elsewhere=HALVES, doc="(N, C, S...), NHWC: (N, S..., C)"),
        blob("scale", FLOAT, role=Role.PARAMETER, doc="(C)"),
        blob("bias", FLOAT, role=Role.PARAMETER, doc="(C)"),
        blob("mean", FLOAT, role=Role.STATE, doc="(C), running"),
        blob("var", FLOAT, role=Role.STATE, doc="(C), running"),
        blob("sums", FLOAT, optional=True, role=Role.DATA, doc="(C), of X over all batches"),
        blob("sumsq", FLOAT, optional=True, role=Role.DATA, doc="(C), of X * X over all batches"),
    ],
    outputs=[
        blob("Y", like="X"),
        blob("running_mean", like="mean", optional=True),
        blob("running_var", like="var", optional=True),
        blob("saved_mean", FLOAT, optional=True, doc="(C), of the batch"),
        blob("saved_inv_std", FLOAT, optional=True, doc="(C), 1 / sqrt(batch variance + epsilon)"),
    ],
    args=[arg("is_test", int, doc="0: train, with five outputs; else test, with one"), *ARGS],
    in_place={"Y": "X", "saved_mean": "sums", "saved_inv_std": "sumsq"},
    must_in_place={"running_mean": "mean", "running_var": "var"},
    effects=Effects.PURE,
    relations=[
        together("sums", "sumsq"),
        together("running_mean", "running_var", "saved_mean", "saved_inv_std"),
    ],
    source="Ioffe, Szegedy 2015, arXiv 1502.03167; Caffe2",
    example="""
    >>> X, one, zero = np.array([[1.0], [5.0]], "f"), np.ones(1, "f"), np.zeros(1, "f")
    >>> run("SpatialBN", X, 3 * one, one, 2 * one, zero + 4, is_test=1, epsilon=1e-9, outputs=1)
    array([[-0.5],
           [ 5.5]], dtype=float32)
    """,
)


SPATIAL_BN.batched("X", when=lambda op: bool(op.is_test))
SPATIAL_BN.trains_unless("is_test", "running_mean", "running_var", "saved_mean", "saved_inv_std")


@SPATIAL_BN.validate
def spatial_bn_validate(op: OpView) -> None:
    wanted = 1 if op.is_test else 5
    if len(op.output_letters) != wanted:
        raise op.error(
            SchemaError,
            f"{len(op.output_letters)} outputs with is_test = {op.is_test}, it takes {wanted}",
            "test: Y; training: Y, running mean and variance in place, saved mean and inverse deviation",
        )
    _check_numbers(op)


@SPATIAL_BN.infer
def spatial_bn_infer(op: OpView, X: TensorSpec, **vectors: TensorSpec | None) -> tuple[TensorSpec, ...]:
    C = _channels(op, X)
    _check_vectors(op, C, vectors)
    spec = TensorSpec((C,), DataType.FLOAT)
    specs = {"Y": X, "running_mean": vectors["mean"], "running_var": vectors["var"]}
    return tuple(specs.get(letter) or spec for letter in op.output_letters)


@SPATIAL_BN.cost
def spatial_bn_cost(op: OpView, X: TensorSpec, scale: TensorSpec, Y: TensorSpec, **vectors: TensorSpec | None) -> Cost:
    del vectors
    return Cost((2 if op.is_test else 6) * X.size, X.nbytes + 4 * scale.nbytes, Y.nbytes, 2 * scale.nbytes)


@SPATIAL_BN.gradient
def spatial_bn_gradient(g: GradientRequest) -> list[OperatorDef]:
    statistics = [g.mean, g.var] if g.op.is_test else [g.saved_mean, g.saved_inv_std]
    # With several batches the gradients of scale and bias, summed over all of them, come in and leave under one name.
    sums = [g.dscale, g.dbias] if g.op.num_batches > 1 else []
    if g.op.is_test and g.in_place("X"):  # X matters for dscale only
        inputs, dscale = [g.like("X"), g.scale, g.dY, *statistics, *sums], g.lose("scale", needed="X")
    else:
        inputs, dscale = [g.X, g.scale, g.dY, *statistics, *sums], g.dscale
    return g.emit("SpatialBNGradient", inputs, [g.dX, dscale, g.dbias])


@kernel(SPATIAL_BN)
def spatial_bn(
    op: OpView,
    X: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    var: Array,
    sums: Array | None,
    sumsq: Array | None,
    Y: Array,
    running_mean: Array | None,
    running_var: Array | None,
    saved_mean: Array | None,
    saved_inv_std: Array | None,
) -> None:
    x, y = channels_first(op.order, X), channels_first(op.order, Y)
    mu, variance = mean.reshape(-1), var.reshape(-1)
    if running_mean is not None and running_var is not None and saved_mean is not None and saved_inv_std is not None:
        if X.size == 0:
            saved_mean[...] = saved_inv_std[...] = 0
            return
        mu, variance, n = _statistics(op, x, sums, sumsq)
        for running, old, new in ((running_mean, mean, mu), (running_var, var, variance * np.divide(n, n - 1))):
            running[...] = op.momentum * old + (1 - op.momentum) * new.reshape(old.shape)
        saved_mean[...] = mu
        saved_inv_std[...] = 1 / np.sqrt(variance + op.epsilon)
    slope = scale.reshape(-1) / np.sqrt(variance + op.epsilon)
    np.subtract(x, _along(mu, x), out=y)
    y *= _along(slope, x)
    y += _along(bias, x)


SPATIAL_BN_GRADIENT = schema(
    "SpatialBNGradient",
    """dbias = sum of dY, dscale = sum of dY * Z, dX = scale * inv_std * (dY - (dbias + Z * dscale) / n).

    Z is (X - mean) * inv_std. With `is_test` the fifth input is the running variance, and dX = scale * dY / sqrt(var +
    epsilon). With num_batches above 1, dscale_sum and dbias_sum are sums over that many batches; what leaves, and what
    dX takes, is their mean.""",
    inputs=[
        blob("X", FLOAT, elsewhere=HALVES),
        blob("scale", FLOAT, role=Role.PARAMETER),
        blob("dY", "X"),
        blob("mean", FLOAT, role=Role.STATE, doc="(C), saved or running"),
        blob("inv_std", FLOAT, role=Role.STATE, doc="(C), saved; with is_test the running variance"),
        blob("dscale_sum", FLOAT, optional=True),
        blob("dbias_sum", FLOAT, optional=True),
    ],
    outputs=[blob("dX", like="X"), blob("dscale", like="scale"), blob("dbias", like="scale")],
    args=[arg("is_test", int, 0, doc="the forward operator took the running pair"), *ARGS],
    # The gradient of SpatialBN in place, in test mode, needs the first: both gradients have the name of its blob.
    in_place={"dX": "dY", "dscale": "dscale_sum", "dbias": "dbias_sum"},
    effects=Effects.PURE,
    relations=[together("dscale_sum", "dbias_sum")],
    no_gradient=ends("second derivatives are not built"),
    # In test mode Caffe2 takes the variance for an inverse deviation, which is wrong.
    source="Ioffe, Szegedy 2015, section 3",
    example="""
    >>> X, one = np.array([[1.0], [3.0]], "f"), np.ones(1, "f")
    >>> run("SpatialBNGradient", X, one, np.array([[1.0], [0.0]], "f"), 2 * one, one)[0]
    array([[0.],
           [0.]], dtype=float32)
    """,
)


@SPATIAL_BN_GRADIENT.validate
def spatial_bn_gradient_validate(op: OpView) -> None:
    _check_numbers(op)


@SPATIAL_BN_GRADIENT.infer
def spatial_bn_gradient_infer(
    op: OpView, X: TensorSpec, dY: TensorSpec, **vectors: TensorSpec | None
) -> tuple[TensorSpec, ...]:
    op.require(
        X.dims is None or dY.dims is None or X.dims == dY.dims or None in (*X.dims, *dY.dims),
        f"dY has the shape {dY.dims}, X has {X.dims}",
    )
    C = _channels(op, X)
    _check_vectors(op, C, vectors)
    vector = TensorSpec((C,), DataType.FLOAT)  # what is learned and kept of a channel stays in float32
    return X, vector, vector


@SPATIAL_BN_GRADIENT.cost
def spatial_bn_gradient_cost(
    op: OpView, X: TensorSpec, scale: TensorSpec, dY: TensorSpec, dX: TensorSpec, **vectors: TensorSpec | None
) -> Cost:
    del vectors
    return Cost(
        (4 if op.is_test else 9) * X.size,
        X.nbytes + dY.nbytes + 3 * scale.nbytes,
        dX.nbytes + 2 * scale.nbytes,
        scale.nbytes,
    )


@kernel(SPATIAL_BN_GRADIENT)
def spatial_bn_gradients(
    op: OpView,
    X: Array,
    scale: Array,
    dY: Array,
    mean: Array,
    inv_std: Array,
    dscale_sum: Array | None,
    dbias_sum: Array | None,
    dX: Array,
    dscale: Array,
    dbias: Array,
) -> None:
    x, dy, dx = (channels_first(op.order, array) for array in (X, dY, dX))
    inverse = (1 / np.sqrt(inv_std + op.epsilon) if op.is_test else inv_std).reshape(-1)
    z = (x - _along(mean, x)) * _along(inverse, x)
    if dscale_sum is not None and dbias_sum is not None and op.num_batches > 1:
        for total, share in ((dscale_sum, dscale), (dbias_sum, dbias)):
            share[...] = total.reshape(-1) / op.num_batches if x.size else 0  # no image has no share
    else:
        dscale[...] = (dy * z).sum(axis=_others(x), dtype=np.float64)
        dbias[...] = dy.sum(axis=_others(x), dtype=np.float64)
    slope = _along(scale.reshape(-1) * inverse, x)
    if op.is_test:
        np.multiply(dy, slope, out=dx)
        return
    n = max(x.size // max(x.shape[1], 1), 1)
    dx[...] = slope * (dy - (_along(dbias, x) + z * _along(dscale, x)) / n)


def _statistics(op: OpView, x: Array, sums: Array | None, sumsq: Array | None) -> tuple[Array, Array, int]:
    """Return mean and biased variance of each channel, and the number of values behind them."""
    n = x.size // x.shape[1]
    if sums is None or sumsq is None or op.num_batches <= 1:
        return x.mean(axis=_others(x), dtype=np.float64), x.var(axis=_others(x), dtype=np.float64), n
    n *= op.num_batches
    mu = sums.reshape(-1).astype(np.float64) / n
    return mu, sumsq.reshape(-1) / n - mu * mu, n


def _others(x: Array) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def _along(vector: Array, x: Array) -> Array:
    """Return (C) in a form that broadcasts over (N, C, S...), in the dtype of X."""
    return vector.reshape(-1, *[1] * (x.ndim - 2)).astype(x.dtype)


def _channels(op: OpView, X: TensorSpec) -> int | None:
    if X.dims is None:
        return None
    op.require(len(X.dims) >= 2, f"X has {len(X.dims)} dimensions, it needs at least 2: (N, C, S...)")
    return X.dims[-1 if op.order == "NHWC" else 1]


def _check_vectors(op: OpView, C: int | None, vectors: dict[str, TensorSpec | None]) -> None:
    for letter, spec in vectors.items():
        if C is not None and spec is not None and spec.dims is not None and None not in spec.dims:
            op.require(
                spec.size == C, f"{letter} has {spec.size} elements, X has {C} channels", f"{letter} must be (C,)"
            )


def _check_numbers(op: OpView) -> None:
    if not op.epsilon > 0:
        raise op.error(ArgumentError, f"argument 'epsilon' = {op.epsilon} is not above 0")
    if op.num_batches > 1 and len(op.input_letters) != 7:
        raise op.error(
            SchemaError,
            f"{len(op.input_letters)} inputs with num_batches = {op.num_batches}, it takes 7",
            "add the sums over all batches",
        )


CENTRED = {
    "total": Total("sum", "X"),
    "rest": Total("sum", "X - mu"),
    "squares": Total("sum", "square(X - mu)"),
}
STATED = {"mu": "mean", "inverse": "1 / sqrt(var + epsilon)"}
SEEN = {
    "mu": "total / count",
    "variance": "(squares - rest * rest / count) / count",
    "inverse": "1 / sqrt(variance + epsilon)",
    "running_mean": "momentum * mean + (1 - momentum) * mu",
    "running_var": "momentum * var + (1 - momentum) * variance * (count / (count - 1))",
    "saved_mean": "mu",
    "saved_inv_std": "inverse",
}
"""Numbers of a channel: those that are stated, and those of a batch."""


def _channel_cut(op: OpView, X: TensorSpec) -> Cut | str:
    if op.num_batches > 1:
        return "it takes the statistics of one batch"
    channels = len(X.shape) - 1 if op.order == "NHWC" else 1
    return Cut.of(X.shape, [axis for axis in range(len(X.shape)) if axis != channels])


def _normalized(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    cut = _channel_cut(op, specs["X"])
    if isinstance(cut, str):
        return cut
    if specs["X"].size == 0:
        return "there is no image"
    row = {**(STATED if op.is_test else SEEN), "slope": "scale * inverse"}
    each = {"Y": "(X - mu) * slope + bias"}
    return RowProgram(
        cut, {} if op.is_test else CENTRED, row, each, dict.fromkeys(("scale", "bias", "mean", "var"), "row")
    )


def _gradients(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    cut = _channel_cut(op, specs["X"])
    if isinstance(cut, str):
        return cut
    totals = {"dots": Total("sum", "dY * (X - mean)"), "dbias": Total("sum", "dY")}
    row = {"inverse": "1 / sqrt(inv_std + epsilon)" if op.is_test else "inv_std", "dscale": "dots * inverse"}
    row |= {"slope": "scale * inverse", "share": "dbias / count", "along": "dscale * inverse / count"}
    each = {"dX": "dY * slope" if op.is_test else "slope * (dY - share - (X - mean) * along)"}
    return RowProgram(cut, totals, row, each, dict.fromkeys(("scale", "mean", "inv_std"), "row"))


row_program(SPATIAL_BN, _normalized, as_it_lies=True)
row_program(SPATIAL_BN_GRADIENT, _gradients, as_it_lies=True)
