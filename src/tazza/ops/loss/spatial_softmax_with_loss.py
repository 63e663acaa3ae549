"""Cross entropy of the softmax of each place of an image: SpatialSoftmaxWithLoss.

X is (N, C, H, W) with C classes; labels and weights have an element for each of N * H * W places. A place whose label
is -1 is left out. Source: Goodfellow, Bengio, Courville 2016, section 6.2.2.3; Caffe2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tazza.errors import NumericError
from tazza.operator import (
    FLOAT,
    Array,
    Cost,
    Cut,
    Effects,
    GradientRequest,
    Operands,
    OpView,
    Role,
    RowProgram,
    Total,
    arg,
    blob,
    ends,
    kernel,
    operator_def,
    row_program,
    schema,
    streamed,
)
from tazza.ops.loss.cross_entropy import NO_CLASS, PROBABILITY_MIN
from tazza.ops.loss.normalizer import IGNORED
from tazza.ops.nn.channel import CHANNELS_FIRST
from tazza.ops.shape.axis import require_as_many, require_one_element
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

ARGS = (
    arg("scale", float, 1.0, minimum=0.0, doc="factor of the gradient"),
    CHANNELS_FIRST,
)
LABEL = blob("label", DataType.INT32, "N H W", role=Role.INDEX, doc="each in [0, C), or -1")

SPATIAL_SOFTMAX_WITH_LOSS = schema(
    "SpatialSoftmaxWithLoss",
    """P = softmax(X) over C; loss = sum over places of weights * -log(max(P[label], 1e-20)) / sum of weights.

    `scale` is not for the loss but for its gradient, as in Caffe2. Without weights each place counts 1. The loss is 0
    where the weights of the places that count sum up to 0. The gradient is that of the loss alone.""",
    inputs=[
        blob("X", FLOAT, "N C H W"),
        LABEL,
        blob("weights", "X", optional=True, role=Role.DATA, doc="N * H * W elements"),
    ],
    outputs=[blob("P", "X", "N C H W"), blob("loss", "X", "")],
    args=ARGS,
    effects=Effects.PURE,
    source="Goodfellow, Bengio, Courville 2016, section 6.2.2.3; Caffe2",
    example="""
    >>> run("SpatialSoftmaxWithLoss", [[[[0.0, 9.0]], [[0.0, 5.0]]]], [[[1, -1]]])[1]
    array(0.6931472, dtype=float32)
    """,
)
SPATIAL_SOFTMAX_WITH_LOSS_GRADIENT = schema(
    "SpatialSoftmaxWithLossGradient",
    """dX = dloss * scale * weights / sum of weights * (P - 1 at the label), 0 at places that are left out.

    Where the weights do not sum up to more than 0, nothing is divided by them, as in Caffe2.""",
    inputs=[
        blob("X", None, "N C H W", role=Role.SHAPE, doc="of any type"),
        LABEL,
        blob("weights", "P", optional=True, role=Role.DATA, doc="N * H * W elements"),
        blob("P", FLOAT, "N C H W", role=Role.DATA),
        blob("dloss", "P", role=Role.DATA, doc="one element, of any rank"),
    ],
    outputs=[blob("dX", "P", "N C H W")],
    args=ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> X, P = [[[[0.0]], [[0.0]]]], [[[[0.5]], [[0.5]]]]
    >>> run("SpatialSoftmaxWithLossGradient", X, [[[1]]], P, np.float32(2)).ravel()
    array([ 1., -1.], dtype=float32)
    """,
)


def check_labels(op: OpView, label: Array, C: int) -> None:
    """Check that each label is a class, or -1.

    Raises:
        NumericError: one is not.
    """
    wrong = (label != IGNORED) & ((label < 0) | (label >= C))
    if wrong.any():
        n, h, w = (int(i[0]) for i in np.nonzero(wrong))
        message = f"label {label[n, h, w]} at ({n}, {h}, {w}) is not in [0, {C})"
        raise op.error(NumericError, message, "labels count from 0; -1 leaves a place out")


def place_weights(label: Array, weights: Array | None, dtype: np.dtype[np.floating]) -> tuple[Array, float]:
    """Return what each place counts, (N, H, W), and the sum of that."""
    each = np.ones(label.shape, dtype) if weights is None else weights.reshape(label.shape)
    each = np.where(label == IGNORED, 0, each)
    return each, float(each.sum(dtype=np.float64))


def of_label(label: Array, P: Array) -> tuple[Array, Array]:
    """Return P at the labels, (N, H, W), and places to index its classes with, (N, 1, H, W)."""
    places = np.maximum(label, 0)[:, None]
    return np.take_along_axis(P, places, axis=1)[:, 0], places


@SPATIAL_SOFTMAX_WITH_LOSS.infer
def spatial_softmax_with_loss_infer(
    op: OpView, X: TensorSpec, label: TensorSpec, weights: TensorSpec | None
) -> tuple[TensorSpec, TensorSpec]:
    if weights is not None:
        require_as_many(op, "label", label.dims, weights=weights.dims)
    return X, TensorSpec((), X.dtype)


@SPATIAL_SOFTMAX_WITH_LOSS.cost
def spatial_softmax_with_loss_cost(
    op: OpView, X: TensorSpec, label: TensorSpec, weights: TensorSpec | None, P: TensorSpec, loss: TensorSpec
) -> Cost:
    del op
    inputs = (X, label) if weights is None else (X, label, weights)
    return streamed(inputs, (P, loss), flops=6 * P.size)


@SPATIAL_SOFTMAX_WITH_LOSS.predicts("P")
def spatial_softmax_with_loss_prediction(op: OpView) -> list[OperatorDef]:
    made = op.definition.output[0]
    last, shares = f"{made}_classes_last", f"{made}_shares_last"
    return [
        operator_def("NCHW2NHWC", [op.input_name("X")], [last]),
        operator_def("Softmax", [last], [shares], axis=3),
        operator_def("NHWC2NCHW", [shares], [made]),
    ]


@SPATIAL_SOFTMAX_WITH_LOSS.gradient
def spatial_softmax_with_loss_gradient(g: GradientRequest) -> list[OperatorDef]:
    weights = [g.weights] if g.op.has_input("weights") else []
    return g.emit("SpatialSoftmaxWithLossGradient", [g.X, g.label, *weights, g.P, g.dloss], [g.dX])


@kernel(SPATIAL_SOFTMAX_WITH_LOSS)
def spatial_softmax_with_loss(op: OpView, X: Array, label: Array, weights: Array | None, P: Array, loss: Array) -> None:
    check_labels(op, label, X.shape[1])
    np.exp(X - X.max(axis=1, keepdims=True, initial=-np.inf), out=P)
    np.divide(P, P.sum(axis=1, keepdims=True), out=P)
    each, total = place_weights(label, weights, X.dtype)
    loss[...] = 0
    if total != 0:
        losses = -np.log(np.maximum(of_label(label, P)[0], PROBABILITY_MIN))
        loss[...] = (each * losses).sum(dtype=np.float64) / total


@SPATIAL_SOFTMAX_WITH_LOSS_GRADIENT.infer
def spatial_softmax_with_loss_gradient_infer(
    op: OpView, X: TensorSpec, label: TensorSpec, weights: TensorSpec | None, P: TensorSpec, dloss: TensorSpec
) -> TensorSpec:
    if weights is not None:
        require_as_many(op, "label", label.dims, weights=weights.dims)
    require_one_element(op, "dloss", dloss.dims)
    return TensorSpec(X.dims, P.dtype)


@kernel(SPATIAL_SOFTMAX_WITH_LOSS_GRADIENT)
def spatial_softmax_with_loss_gradient_kernel(
    op: OpView, label: Array, weights: Array | None, P: Array, dloss: Array, dX: Array
) -> None:
    check_labels(op, label, P.shape[1])
    each, total = place_weights(label, weights, P.dtype)
    factor = op.scale * float(dloss.reshape(())) / (total if total > 0 else 1)
    np.copyto(dX, P)
    if dX.size:
        own, places = of_label(label, P)
        np.put_along_axis(dX, places, own[:, None] - 1, axis=1)
    dX *= (each * factor)[:, None]


BAD = f"logical_and(label != {IGNORED}, logical_or(label < 0, label >= count))"


def _weight(op: OpView) -> str:
    """Return the text of what a place counts."""
    return f"where(label == {IGNORED}, 0, {'weights' if op.has_input('weights') else '1'})"


def _rows(op: OpView, X: TensorSpec) -> tuple[Cut, Callable[[Operands], None]]:
    """Return the cut of X into classes, and what looks for a wrong label."""
    N, C, H, W = X.shape

    def check(operands: Operands) -> None:
        check_labels(op, operands["label"].array.reshape(N, H, W), C)

    return Cut(N, C, H * W), check


def _softmax_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> tuple[RowProgram, ...]:
    """Shares of classes, and how far the label's is from the largest; then the sum of all losses."""
    cut, check = _rows(op, specs["X"])
    totals = {
        "most": Total("max", "X"),
        "powers": Total("sum", "exp(X - most)"),
        "own": Total("sum", "where(index == label, X, 0)"),
    }
    row = {"gap": "own - most", "share": "1 / powers", "bad": BAD}
    each = {"P": "exp(X - most) / powers"}
    places = {
        "lost": Total("sum", f"{_weight(op)} * -log(max(exp(gap) * share, {PROBABILITY_MIN}))"),
        "counted": Total("sum", _weight(op)),
    }
    return (
        RowProgram(
            cut,
            totals,
            row,
            each,
            {"label": "row"},
            wrong="bad",
            check=check,
            complaint=NO_CLASS,
            keeps=("gap", "share"),
        ),
        RowProgram(Cut(1, cut.before * cut.behind), places, {"loss": "where(counted == 0, 0, lost / counted)"}),
    )


def _gradient_rows(op: OpView, specs: Mapping[str, TensorSpec]) -> tuple[RowProgram, ...]:
    """What all places count; then elements."""
    cut, check = _rows(op, specs["P"])
    counted = {"counted": Total("sum", _weight(op))}
    factor = {"factor": "scale * dloss / where(counted > 0, counted, 1)"}
    row = {"each": f"{_weight(op)} * factor", "bad": BAD}
    each = {"dX": "where(index == label, P - 1, P) * each"}
    return (
        RowProgram(Cut(1, cut.before * cut.behind), counted, factor, lies={"dloss": "one"}, keeps=("factor",)),
        RowProgram(
            cut,
            row=row,
            each=each,
            lies={"label": "row", "weights": "row", "factor": "one"},
            wrong="bad",
            check=check,
            complaint=NO_CLASS,
        ),
    )


row_program(SPATIAL_SOFTMAX_WITH_LOSS, _softmax_rows)
row_program(SPATIAL_SOFTMAX_WITH_LOSS_GRADIENT, _gradient_rows)
