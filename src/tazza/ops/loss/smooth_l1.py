"""Losses of boxes, quadratic near 0 and linear beyond: SmoothL1Loss, SelectSmoothL1Loss of Detectron's module.

    f(v) = v^2 / (2 beta) where |v| < beta, else |v| - beta / 2        f'(v) = v / beta, else the sign of v

Letters: N rows; K boxes among N images of C channels and H * W places, of four numbers each.

    SmoothL1Loss          loss = scale / N * sum of alpha_out * f(alpha_in * (Y_hat - Y))
    SelectSmoothL1Loss    loss = scale / max(normalizer, 1) * sum over k, j of f(Y_hat[n, c + j, y, x] - Y[k, j])
                          for (n, c, y, x) = locations[k] and j = 0 ... 3

Of several boxes at one location the last one counts. Without rows the loss of the first is no number, without boxes
that of the second is 0.

Source: Girshick 2015, Fast R-CNN, section 2.3; Caffe2, modules/detectron.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.errors import ArgumentError, NumericError
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
    streamed,
)
from tazza.ops.loss.normalizer import D_LOSS, NORMALIZER, divisor
from tazza.ops.shape.axis import agree, require_as_many, require_one_element
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

BOX = 4
"""Numbers of a box."""

ARGS = (
    arg("beta", float, 1.0, doc="where the loss turns from quadratic to linear, above 0"),
    arg("scale", float, 1.0, minimum=0.0, doc="factor on the loss"),
)
ROWS = [
    blob("Y_hat", FLOAT, doc="(N, ...): predictions"),
    blob("Y", FLOAT, role=Role.DATA, doc="(N, ...): targets"),
    blob("alpha_in", FLOAT, role=Role.DATA, doc="weights of the differences"),
    blob("alpha_out", FLOAT, role=Role.DATA, doc="weights of the losses"),
]
BOXES = [
    blob("Y_hat", FLOAT, "N C H W", doc="predictions, four channels for each class or anchor"),
    blob("Y", FLOAT, "K 4", role=Role.DATA, doc="targets"),
    blob("locations", FLOAT, "K 4", role=Role.INDEX, doc="(n, c, y, x), whole numbers: where in Y_hat a box begins"),
    NORMALIZER,
]


def smooth_l1_validate(op: OpView) -> None:
    """Refuse a beta that is not above 0."""
    if not op.beta > 0:
        raise op.error(ArgumentError, f"beta = {op.beta}, it must be above 0")


def smooth(op: OpView, v: Array) -> Array:
    """Return f(v)."""
    size: Array = np.abs(v)
    beta: np.floating = v.dtype.type(op.beta)
    return np.where(size < beta, v * v / (2 * beta), size - beta / 2)


def smooth_slope(op: OpView, v: Array) -> Array:
    """Return f'(v), of what is no number 0."""
    sign = (v > 0).astype(v.dtype) - (v < 0)
    return np.where(np.abs(v) < op.beta, v / v.dtype.type(op.beta), sign)


def require_rows(op: OpView, Y_hat: TensorSpec, Y: TensorSpec, **others: TensorSpec) -> None:
    """Check that all have as many elements, and the first two as many rows."""
    require_as_many(op, "Y_hat", Y_hat.dims, Y=Y.dims, **{letter: spec.dims for letter, spec in others.items()})
    if Y_hat.dims is not None and Y.dims is not None:
        relation = f"Y_hat has the shape {show_dims(Y_hat.dims)}, Y has {show_dims(Y.dims)}"
        both = len(Y_hat.dims) > 0 and len(Y.dims) > 0
        op.require(both and agree(Y_hat.dims[0], Y.dims[0]), relation, "both must have the same number of rows")


SMOOTH_L1_LOSS = schema(
    "SmoothL1Loss",
    "loss = scale / N * sum of alpha_out * f(alpha_in * (Y_hat - Y)); f is quadratic up to beta, linear beyond.",
    inputs=ROWS,
    outputs=[blob("loss", "Y_hat", doc="rank 0")],
    args=ARGS,
    effects=Effects.PURE,
    source="Girshick 2015, Fast R-CNN, section 2.3; Caffe2, modules/detectron",
    example="""
    >>> run("SmoothL1Loss", [[1.0, 5.0]], [[0.5, 2.0]], [[1.0, 1.0]], [[1.0, 1.0]])
    array(2.625, dtype=float32)
    """,
)
SMOOTH_L1_LOSS_GRADIENT = schema(
    "SmoothL1LossGradient",
    "dY_hat = dloss * scale / N * alpha_in * alpha_out * f'(alpha_in * (Y_hat - Y)).",
    inputs=[*ROWS, D_LOSS],
    outputs=[blob("dY_hat", like="Y_hat")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("SmoothL1LossGradient", [[1.0, 5.0]], [[0.5, 2.0]], [[1.0, 1.0]], [[1.0, 1.0]], 3.0)
    array([[1.5, 3. ]], dtype=float32)
    """,
)
SELECT_SMOOTH_L1_LOSS = schema(
    "SelectSmoothL1Loss",
    "loss = scale / max(normalizer, 1) * sum over boxes of f(Y_hat at their locations - Y).",
    inputs=BOXES,
    outputs=[blob("loss", "Y_hat", doc="rank 0")],
    args=ARGS,
    effects=Effects.PURE,
    source="Lin and others 2017, Focal loss, section 4.1; Caffe2, modules/detectron",
    example="""
    >>> Y_hat = np.arange(8, dtype="f").reshape(1, 4, 1, 2)
    >>> run("SelectSmoothL1Loss", Y_hat, [[1.0, 2.0, 5.0, 7.0]], [[0.0, 0.0, 0.0, 1.0]], 2.0)
    array(0.25, dtype=float32)
    """,
)
SELECT_SMOOTH_L1_LOSS_GRADIENT = schema(
    "SelectSmoothL1LossGradient",
    "dY_hat = dloss * scale / max(normalizer, 1) * f'(Y_hat - Y) at the locations of boxes, else 0.",
    inputs=[*BOXES, D_LOSS],
    outputs=[blob("dY_hat", like="Y_hat")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> Y_hat, Y = np.arange(8, dtype="f").reshape(1, 4, 1, 2), [[1.0, 2.0, 5.0, 7.0]]
    >>> run("SelectSmoothL1LossGradient", Y_hat, Y, [[0.0, 0.0, 0.0, 1.0]], 2.0, 4.0).reshape(4, 2)
    array([[0., 0.],
           [0., 2.],
           [0., 0.],
           [0., 0.]], dtype=float32)
    """,
)
for _schema in (SMOOTH_L1_LOSS, SMOOTH_L1_LOSS_GRADIENT, SELECT_SMOOTH_L1_LOSS, SELECT_SMOOTH_L1_LOSS_GRADIENT):
    _schema.validate(smooth_l1_validate)


@SMOOTH_L1_LOSS.infer
def smooth_l1_infer(
    op: OpView, Y_hat: TensorSpec, Y: TensorSpec, alpha_in: TensorSpec, alpha_out: TensorSpec
) -> TensorSpec:
    require_rows(op, Y_hat, Y, alpha_in=alpha_in, alpha_out=alpha_out)
    return TensorSpec((), Y_hat.dtype)


@SMOOTH_L1_LOSS.cost
def smooth_l1_cost(op: OpView, loss: TensorSpec, **given: TensorSpec) -> Cost:
    del op
    return streamed(tuple(given.values()), (loss,), flops=8 * given["Y_hat"].size)


@SMOOTH_L1_LOSS.gradient
@SELECT_SMOOTH_L1_LOSS.gradient
def smooth_l1_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit(f"{g.op.type}Gradient", [*(g.I(i) for i in range(4)), g.dloss], [g.dY_hat])


@kernel(SMOOTH_L1_LOSS)
def smooth_l1(op: OpView, Y_hat: Array, Y: Array, alpha_in: Array, alpha_out: Array, loss: Array) -> None:
    lost = alpha_out.reshape(-1) * smooth(op, _differences(Y_hat, Y, alpha_in))
    loss[...] = lost.sum(dtype=loss.dtype) * (loss.dtype.type(op.scale) / loss.dtype.type(len(Y)))


@SMOOTH_L1_LOSS_GRADIENT.infer
def smooth_l1_gradient_infer(
    op: OpView, Y_hat: TensorSpec, Y: TensorSpec, alpha_in: TensorSpec, alpha_out: TensorSpec, dloss: TensorSpec
) -> TensorSpec:
    require_rows(op, Y_hat, Y, alpha_in=alpha_in, alpha_out=alpha_out)
    require_one_element(op, "dloss", dloss.dims)
    return Y_hat


@SMOOTH_L1_LOSS_GRADIENT.cost
def smooth_l1_gradient_cost(op: OpView, dY_hat: TensorSpec, **given: TensorSpec) -> Cost:
    del op
    return streamed(tuple(given.values()), (dY_hat,), flops=8 * dY_hat.size)


@kernel(SMOOTH_L1_LOSS_GRADIENT)
def smooth_l1_gradient_kernel(
    op: OpView, Y_hat: Array, Y: Array, alpha_in: Array, alpha_out: Array, dloss: Array, dY_hat: Array
) -> None:
    each = dloss.reshape(()) * (dloss.dtype.type(op.scale) / dloss.dtype.type(len(Y)))
    slopes = each * smooth_slope(op, _differences(Y_hat, Y, alpha_in))
    dY_hat[...] = (slopes * alpha_in.reshape(-1) * alpha_out.reshape(-1)).reshape(dY_hat.shape)


def _differences(Y_hat: Array, Y: Array, alpha_in: Array) -> Array:
    """Return alpha_in * (Y_hat - Y) as a list."""
    return alpha_in.reshape(-1) * (Y_hat.reshape(-1) - Y.reshape(-1))


@SELECT_SMOOTH_L1_LOSS.infer
def select_smooth_l1_infer(
    op: OpView, Y_hat: TensorSpec, Y: TensorSpec, locations: TensorSpec, normalizer: TensorSpec
) -> TensorSpec:
    del Y, locations
    require_one_element(op, "normalizer", normalizer.dims)
    return TensorSpec((), Y_hat.dtype)


@SELECT_SMOOTH_L1_LOSS.cost
def select_smooth_l1_cost(op: OpView, loss: TensorSpec, **given: TensorSpec) -> Cost:
    del op
    boxes = given["Y"]
    return streamed((boxes, boxes, given["locations"]), (loss,), flops=8 * boxes.size)  # of Y_hat what boxes meet


@kernel(SELECT_SMOOTH_L1_LOSS)
def select_smooth_l1(op: OpView, Y_hat: Array, Y: Array, locations: Array, normalizer: Array, loss: Array) -> None:
    places, lost = _places(op, Y_hat, locations), np.zeros(Y_hat.shape, Y_hat.dtype)
    lost[places] = smooth(op, Y_hat[places] - Y)
    loss[...] = lost.sum(dtype=loss.dtype) / divisor(normalizer) * loss.dtype.type(op.scale)


@SELECT_SMOOTH_L1_LOSS_GRADIENT.infer
def select_smooth_l1_gradient_infer(
    op: OpView, Y_hat: TensorSpec, Y: TensorSpec, locations: TensorSpec, normalizer: TensorSpec, dloss: TensorSpec
) -> TensorSpec:
    del Y, locations
    require_one_element(op, "normalizer", normalizer.dims)
    require_one_element(op, "dloss", dloss.dims)
    return Y_hat


@SELECT_SMOOTH_L1_LOSS_GRADIENT.cost
def select_smooth_l1_gradient_cost(op: OpView, dY_hat: TensorSpec, **given: TensorSpec) -> Cost:
    del op
    boxes = given["Y"]
    return streamed((boxes, boxes, given["locations"]), (dY_hat,), flops=8 * boxes.size)


@kernel(SELECT_SMOOTH_L1_LOSS_GRADIENT)
def select_smooth_l1_gradient_kernel(
    op: OpView, Y_hat: Array, Y: Array, locations: Array, normalizer: Array, dloss: Array, dY_hat: Array
) -> None:
    places, each = _places(op, Y_hat, locations), dloss.reshape(()) * dloss.dtype.type(op.scale)
    dY_hat[...] = 0
    dY_hat[places] = each * smooth_slope(op, Y_hat[places] - Y) / divisor(normalizer)


def _places(op: OpView, Y_hat: Array, locations: Array) -> tuple[Array, ...]:
    """Return where the numbers of each box lie, for each axis (K, 4) or (K, 1).

    Raises:
        NumericError: a box does not lie in Y_hat.
    """
    N, C, H, W = Y_hat.shape
    found = np.trunc(locations)
    within = ((found >= 0) & (found <= np.array([N - 1, C - BOX, H - 1, W - 1]))).all(axis=1)
    if not within.all():
        k = int(np.argmin(within))
        message = f"locations[{k}] is {locations[k].tolist()}, Y_hat has the shape {show_dims(Y_hat.shape)}"
        raise op.error(NumericError, message, "(n, c, y, x) count from 0, and a box has four channels from c on")
    n, c, y, x = found.astype(np.int64).T[..., np.newaxis]
    return n, c + np.arange(BOX), y, x


V = "(alpha_in * (Y_hat - Y))"
SMOOTH = f"where(abs({V}) < beta, {V} * {V} / (2 * beta), abs({V}) - beta / 2)"
SLOPE = f"where(abs({V}) < beta, {V} / beta, ({V} > 0) - ({V} < 0))"


def _lost(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    del op
    Y = specs["Y"]
    lost = {"lost": Total("sum", f"alpha_out * {SMOOTH}")}
    return RowProgram(Cut(1, Y.size), lost, {"loss": "lost * scale / N"}, given={"N": Y.shape[0]})


def _slopes(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    del op
    Y, each = specs["Y"], {"dY_hat": f"share * {SLOPE} * alpha_in * alpha_out"}
    return RowProgram(
        Cut(1, Y.size), row={"share": "dloss * scale / N"}, each=each, lies={"dloss": "one"}, given={"N": Y.shape[0]}
    )


row_program(SMOOTH_L1_LOSS, _lost)
row_program(SMOOTH_L1_LOSS_GRADIENT, _slopes)
