"""Softmax and cross entropy in one: SoftmaxWithLoss.

Letters: X is cut at `axis` into N rows and D classes. Labels are numbers in [0, D), one a row, or probabilities of all
classes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tazza.errors import DTypeError, NumericError
from tazza.operator import (
    FLOAT,
    HALVES,
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
    show_dims,
)
from tazza.operator.row_program import Lies
from tazza.ops.loss.cross_entropy import NO_CLASS, OUTSIDE, PROBABILITY_MIN, check_labels
from tazza.ops.nn.channel import CHANNELS_FIRST
from tazza.ops.shape.axis import agree, cut, matrix, matrix_cut, product, require_one_element, shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

SUM_TOLERANCE = 1e-5
"""How far from 1 the probabilities of a label may sum up to."""

LOSS_ARGS = (
    arg("label_prob", int, 0, doc="labels are probabilities (float32, shape of X), not numbers (int32)"),
    arg("axis", int, 1, doc="X is cut here: rows before it, classes from it on"),
    arg("scale", float, 1.0, minimum=0.0, doc="factor of the loss"),
    CHANNELS_FIRST,
    arg("average_by_batch_size", int, 0, doc="with weights: divide by N, not by their sum"),
    arg("only_loss", int, 0, doc="how Caffe2 saved memory of GPUs; no effect"),
)

SOFTMAX_WITH_LOSS = schema(
    "SoftmaxWithLoss",
    """P = softmax(X) over the classes; loss = scale * sum over n of weights[n] * l[n] / sum of the weights.

    l[n] = -log P[n, label[n]], computed from X so that it stays finite; with `label_prob`, l[n] = -sum over d of
    label[n, d] * log(max(P[n, d], 1e-20)). Without weights each row counts 1. The loss is 0 where the weights sum up to
    0 and where there are no rows. The gradient is that of the loss alone; what else depends on P adds nothing.""",
    inputs=[
        blob("X", FLOAT, "*S", elsewhere=HALVES, doc="(lead..., D...)"),
        blob(
            "label", role=Role.INDEX, doc="int32, (lead...) or (lead..., 1); with label_prob float32, (lead..., D...)"
        ),
        blob("weights", FLOAT, optional=True, role=Role.DATA, doc="N elements"),
    ],
    outputs=[
        blob("P", "X", "*S"),
        blob("loss", FLOAT, ""),
        blob("unused", FLOAT, "0", optional=True, doc="left empty; old nets name it"),
    ],
    args=LOSS_ARGS,
    effects=Effects.PURE,
    source="Goodfellow, Bengio, Courville 2016, section 6.2.2.3; Caffe2",
    example="""
    >>> run("SoftmaxWithLoss", [[0.0, 0.0], [1000.0, 0.0]], [1, 0])[1]
    array(0.3465736, dtype=float32)
    """,
)


def check_inputs(op: OpView, X: TensorSpec, label: TensorSpec, weights: TensorSpec | None) -> None:
    """Check dtypes and shapes of X, label and weights against each other."""
    wanted = DataType.FLOAT if op.label_prob else DataType.INT32
    if label.dtype is not wanted:
        raise op.error(
            DTypeError,
            f"label is {label.dtype.label}, with label_prob = {op.label_prob} it must be {wanted.label}",
            "insert a Cast",
        )
    if X.dims is None:
        return
    lead, classes = cut(op, "axis", "X", X.dims)
    if label.dims is not None:
        rank = len(lead)
        columns = product(label.dims[rank:])
        D = product(classes) if op.label_prob else 1
        same = (
            shapes_agree(label.dims[:rank], lead)
            and agree(columns, D)
            and (len(label.dims) > rank or not op.label_prob)
        )
        shape = show_dims((*lead, *classes)) if op.label_prob else f"{show_dims(lead)} or {show_dims((*lead, 1))}"
        op.require(
            same,
            f"label has the shape {show_dims(label.dims)}, X {show_dims(X.dims)} with axis {op.axis} needs {shape}",
        )
    if weights is not None and weights.dims is not None:
        op.require(
            agree(product(weights.dims), product(lead)),
            f"weights {show_dims(weights.dims)} are not one for each of {product(lead)} rows of X",
        )


@SOFTMAX_WITH_LOSS.infer
def softmax_with_loss_infer(
    op: OpView, X: TensorSpec, label: TensorSpec, weights: TensorSpec | None
) -> tuple[TensorSpec, ...]:
    check_inputs(op, X, label, weights)
    specs = (TensorSpec(X.dims, X.dtype), TensorSpec((), DataType.FLOAT), TensorSpec((0,), DataType.FLOAT))
    return specs[: len(op.output_letters)]


@SOFTMAX_WITH_LOSS.cost
def softmax_with_loss_cost(
    op: OpView,
    X: TensorSpec,
    label: TensorSpec,
    weights: TensorSpec | None,
    P: TensorSpec,
    loss: TensorSpec,
    unused: TensorSpec | None,
) -> Cost:
    del op, unused
    read = X.nbytes + label.nbytes + (0 if weights is None else weights.nbytes)
    return Cost(6 * P.size, read, P.nbytes + loss.nbytes)


@SOFTMAX_WITH_LOSS.predicts("P")
def softmax_with_loss_prediction(op: OpView) -> list[OperatorDef]:
    return [operator_def("Softmax", [op.input_name("X")], [op.definition.output[0]], axis=op.axis)]


@SOFTMAX_WITH_LOSS.gradient
def softmax_with_loss_gradient(g: GradientRequest) -> list[OperatorDef]:
    weights = [g.weights] if g.op.has_input("weights") else []
    return g.emit("SoftmaxWithLossGradient", [g.X, g.label, *weights, g.P, g.dloss], [g.dX])


@kernel(SOFTMAX_WITH_LOSS)
def softmax_with_loss(op: OpView, X: Array, label: Array, weights: Array | None, P: Array, loss: Array) -> None:
    x, p = matrix(op, "axis", X), matrix(op, "axis", P)
    shifted = x - x.max(axis=1, keepdims=True, initial=-np.inf)
    np.exp(shifted, out=p)
    total = p.sum(axis=1, keepdims=True)
    p /= total
    if op.label_prob:
        t = check_probabilities(op, label.reshape(x.shape))
        losses = -(t * np.log(np.maximum(p, PROBABILITY_MIN))).sum(axis=1)
    else:
        losses = np.log(total[:, 0]) - shifted[np.arange(len(x)), check_labels(op, label, x.shape[1])]
    loss[...] = op.scale * (losses * row_factors(op, weights, len(x))).sum()


def check_probabilities(op: OpView, t: Array) -> Array:
    """Return t (N, D).

    Raises:
        NumericError: a label is no distribution of probabilities.
    """
    sums = t.astype(np.float64).sum(axis=1)
    negative = np.any(t < 0, axis=1)
    wrong = negative | ~(np.abs(sums - 1) < SUM_TOLERANCE)
    if wrong.any():
        row = int(wrong.argmax())
        what = f"has the probability {t[row].min()} < 0" if negative[row] else f"sums up to {sums[row]:.7g}, not 1"
        raise op.error(NumericError, f"label of row {row} {what}", "divide each row by its sum")
    return t


def row_factors(op: OpView, weights: Array | None, N: int) -> Array:
    """Return the part of each row in the loss, (N): its weight over the sum of weights, 0 where that is 0."""
    w = np.ones(N) if weights is None else weights.reshape(N).astype(np.float64)
    total = N if weights is None or op.average_by_batch_size else w.sum()
    return w / total if total != 0 else np.zeros_like(w)


SOFTMAX_WITH_LOSS_GRADIENT = schema(
    "SoftmaxWithLossGradient",
    """dX[n, d] = dloss * scale * weights[n] / sum of the weights * (P[n, d] - t[n, d]).

    t[n, d] is 1 where d is the label and else 0, or with `label_prob` the label itself; see SoftmaxWithLoss for the
    rest. dX is 0 where the weights sum up to 0, as the loss is.""",
    inputs=[
        blob("X", None, "*S", role=Role.SHAPE, doc="of any type"),
        blob("label", role=Role.INDEX),
        blob("weights", FLOAT, optional=True, role=Role.DATA),
        blob("P", FLOAT, "*S", role=Role.DATA, elsewhere=HALVES),
        blob("dloss", FLOAT, role=Role.DATA, doc="one element, of any rank"),
    ],
    outputs=[blob("dX", "P", "*S")],
    args=LOSS_ARGS,
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("SoftmaxWithLossGradient", [[0.0, 0.0]], [1], [[0.5, 0.5]], np.float32(2))
    array([[ 1., -1.]], dtype=float32)
    """,
)


@SOFTMAX_WITH_LOSS_GRADIENT.infer
def softmax_with_loss_gradient_infer(
    op: OpView, X: TensorSpec, label: TensorSpec, weights: TensorSpec | None, P: TensorSpec, dloss: TensorSpec
) -> TensorSpec:
    check_inputs(op, X, label, weights)
    require_one_element(op, "dloss", dloss.dims)
    return TensorSpec(X.dims, P.dtype)


@kernel(SOFTMAX_WITH_LOSS_GRADIENT)
def softmax_with_loss_gradient_kernel(
    op: OpView, label: Array, weights: Array | None, P: Array, dloss: Array, dX: Array
) -> None:
    p, dx = matrix(op, "axis", P), matrix(op, "axis", dX)
    N, D = p.shape
    if op.label_prob:
        np.subtract(p, label.reshape(N, D), out=dx)
    else:
        np.copyto(dx, p)
        dx[np.arange(N), check_labels(op, label, D)] -= 1
    factors = row_factors(op, weights, N) * (op.scale * dloss.reshape(()))
    dx *= factors[:, np.newaxis]


def weight_of(op: OpView) -> str:
    """Return the text of what a row counts."""
    return "weights" if op.has_input("weights") else "1"


def counted(op: OpView) -> dict[str, Total]:
    """Return the sum of what rows count, which their losses are divided by."""
    return {"counted": Total("sum", "1" if op.average_by_batch_size else weight_of(op))}


def _slopes(op: OpView, specs: Mapping[str, TensorSpec]) -> tuple[RowProgram, ...] | str:
    """What all rows count; then elements."""
    found = matrix_cut(op, specs["P"].shape)
    if found.along == 0:
        return "there is no class"

    def check(operands: Operands) -> None:
        check_labels(op, operands["label"].array, found.along)

    factor = {"factor": "where(counted == 0, 0, scale * dloss / counted)"}
    first = RowProgram(Cut(1, found.before), counted(op), factor, lies={"dloss": "one"}, keeps=("factor",))
    row, lies = {"part": f"{weight_of(op)} * factor"}, dict[str, Lies](weights="row", factor="one")
    if op.label_prob:
        return first, RowProgram(found, row=row, each={"dX": "(P - label) * part"}, lies=lies)
    row |= {"bad": OUTSIDE}
    lies |= {"label": "row"}
    each = {"dX": "where(index == label, P - 1, P) * part"}
    return first, RowProgram(found, row=row, each=each, lies=lies, wrong="bad", complaint=NO_CLASS, check=check)


row_program(SOFTMAX_WITH_LOSS_GRADIENT, _slopes)
