"""One scale and one bias a channel: AffineChannel, which stands where a batch normalization was frozen.

X, Y, dY and dX have one shape: (N, C, S...), with NHWC (N, S..., C); scale and bias have C elements of any shape.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.errors import SchemaError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Effects,
    GradientRequest,
    OpView,
    Role,
    RowProgram,
    Total,
    arg,
    blob,
    ends,
    formula,
    kernel,
    row_program,
    schema,
    show_dims,
)
from tazza.ops.nn.channel import (
    ORDER,
    align_vectors,
    along,
    beside_channels,
    channel_count,
    channel_cut,
    channels_last,
    require_channels,
)
from tazza.ops.nn.window import channels_first
from tazza.ops.shape.axis import shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

ARGS = (ORDER, arg("is_learnable", int, 0, doc="not 0: scale and bias get gradients, for which X is read again"))

AFFINE_CHANNEL = schema(
    "AffineChannel",
    "Y = scale * X + bias, for each channel.",
    inputs=[
        blob("X", FLOAT, doc="(N, C, S...), NHWC: (N, S..., C)"),
        blob("scale", "X", role=Role.PARAMETER, doc="(C)"),
        blob("bias", "X", role=Role.PARAMETER, doc="(C)"),
    ],
    outputs=[blob("Y", like="X")],
    args=ARGS,
    in_place={"Y": "X"},
    effects=Effects.PURE,
    source="Caffe2",
    example="""
    >>> run("AffineChannel", [[1.0, 2.0]], [10.0, 100.0], [3.0, 4.0])
    array([[ 13., 204.]], dtype=float32)
    """,
)
formula(AFFINE_CHANNEL, Y="scale * X + bias", align=align_vectors)


@AFFINE_CHANNEL.infer
def affine_channel_infer(op: OpView, X: TensorSpec, scale: TensorSpec, bias: TensorSpec) -> TensorSpec:
    require_channels(op, channel_count(op, "X", X.dims), scale=scale, bias=bias)
    return TensorSpec(X.dims, X.dtype)


AFFINE_CHANNEL.batched("X")


@AFFINE_CHANNEL.cost
def affine_channel_cost(op: OpView, X: TensorSpec, scale: TensorSpec, bias: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    parameters = scale.nbytes + bias.nbytes
    return Cost(2 * X.size, X.nbytes + parameters, Y.nbytes, parameters)


@AFFINE_CHANNEL.gradient
def affine_channel_gradient(g: GradientRequest) -> list[OperatorDef]:
    if g.op.is_learnable:
        return g.emit("AffineChannelGradient", [g.dY, g.X, g.scale], [g.dX, g.dscale, g.dbias])
    return g.emit("AffineChannelGradient", [g.dY, g.scale], [g.dX])


@kernel(AFFINE_CHANNEL)
def affine_channel(op: OpView, X: Array, scale: Array, bias: Array, Y: Array) -> None:
    x, y = channels_first(op.order, X), channels_first(op.order, Y)
    np.multiply(x, along(scale, x), out=y)
    np.add(y, along(bias, x), out=y)


AFFINE_CHANNEL_GRADIENT = schema(
    "AffineChannelGradient",
    """dX = scale * dY; with is_learnable dscale = sum of dY * X, dbias = sum of dY, over all but the channels.

    Inputs dY, scale, with is_learnable dY, X, scale.""",
    inputs=[blob("dY", FLOAT), blob("X", "dY", optional=True), blob("scale", "dY", role=Role.PARAMETER)],
    outputs=[blob("dX", like="dY"), blob("dscale", like="scale", optional=True), blob("dbias", "dY", optional=True)],
    args=ARGS,
    in_place={"dX": "dY"},
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("AffineChannelGradient", [[1.0, 2.0]], [[5.0, 6.0]], [10.0, 100.0], is_learnable=1, outputs=3)[:2]
    (array([[ 10., 200.]], dtype=float32), array([ 5., 12.], dtype=float32))
    """,
)


@AFFINE_CHANNEL_GRADIENT.validate
def affine_channel_gradient_validate(op: OpView) -> None:
    wanted = (3, 3) if op.is_learnable else (2, 1)
    found = len(op.input_letters), len(op.output_letters)
    if found != wanted:
        message = f"{found[0]} inputs and {found[1]} outputs with is_learnable = {op.is_learnable}"
        raise op.error(SchemaError, message, f"it takes {wanted[0]} inputs and {wanted[1]} outputs")


@AFFINE_CHANNEL_GRADIENT.infer
def affine_channel_gradient_infer(
    op: OpView, dY: TensorSpec, X: TensorSpec | None, scale: TensorSpec
) -> tuple[TensorSpec, ...]:
    require_channels(op, channel_count(op, "dY", dY.dims), scale=scale)
    if X is not None and X.dims is not None and dY.dims is not None:
        relation = f"dY has the shape {show_dims(dY.dims)}, X has {show_dims(X.dims)}"
        op.require(shapes_agree(dY.dims, X.dims), relation)
    vector = TensorSpec(scale.dims, dY.dtype)
    return (TensorSpec(dY.dims, dY.dtype), vector, vector)[: len(op.output_letters)]


@AFFINE_CHANNEL_GRADIENT.cost
def affine_channel_gradient_cost(
    op: OpView, dY: TensorSpec, X: TensorSpec | None, scale: TensorSpec, dX: TensorSpec, **vectors: TensorSpec | None
) -> Cost:
    del op
    written = dX.nbytes + sum(spec.nbytes for spec in vectors.values() if spec is not None)
    read = dY.nbytes + scale.nbytes + (0 if X is None else X.nbytes)
    return Cost((1 if X is None else 4) * dY.size, read, written, scale.nbytes)


@kernel(AFFINE_CHANNEL_GRADIENT)
def affine_channel_gradient_kernel(
    op: OpView, dY: Array, X: Array | None, scale: Array, dX: Array, dscale: Array | None, dbias: Array | None
) -> None:
    dy, dx = channels_first(op.order, dY), channels_first(op.order, dX)
    if X is not None and dscale is not None and dbias is not None:
        sums = beside_channels(dy)
        dscale[...] = (dy * channels_first(op.order, X)).sum(axis=sums, dtype=np.float64).reshape(dscale.shape)
        dbias[...] = dy.sum(axis=sums, dtype=np.float64).reshape(dbias.shape)
    np.multiply(dy, along(scale, dy), out=dx)


def _gradients(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
    cut = channel_cut(specs["dY"], last=channels_last(op))
    if isinstance(cut, str):
        return cut
    sums = {"dscale": Total("sum", "dY * X"), "dbias": Total("sum", "dY")} if op.is_learnable else {}
    return RowProgram(cut, sums, each={"dX": "dY * scale"}, lies={"scale": "row"})


row_program(AFFINE_CHANNEL_GRADIENT, _gradients)
