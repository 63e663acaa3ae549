"""Cross entropy of probabilities with labels: LabelCrossEntropy, CrossEntropy.

Letters: N rows, D classes. X (N, D...) is taken as a matrix (N, D); X of rank 1 is a single row. Labels count from 0,
or are probabilities themselves.
"""

from __future__ import annotations

from collections.abc import Mapping

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
    blob,
    ends,
    kernel,
    row_program,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import agree, product, shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import DataType, TensorSpec

PROBABILITY_MIN = 1e-20
"""Probabilities below count as this much, so that the logarithm stays finite."""
NO_CLASS, NO_SHARES = "a label that is no class", "labels of a row that are no probabilities"
"""What losses find wrong, in words."""
OUTSIDE = "logical_or(label < 0, label >= count)"
"""Whether the label of a row is none of its places."""

LABEL_CROSS_ENTROPY = schema(
    "LabelCrossEntropy",
    "Y[n] = -log(max(X[n, label[n]], 1e-20)).",
    inputs=[
        blob("X", FLOAT, doc="(N, D...): probabilities"),
        blob("label", DataType.INT32, role=Role.INDEX, doc="(N) or (N, 1), each in [0, D)"),
    ],
    outputs=[blob("Y", "X", doc="(N)")],
    effects=Effects.PURE,
    source="Goodfellow, Bengio, Courville 2016, section 6.2.2.3; Caffe2",
    example="""
    >>> run("LabelCrossEntropy", [[0.5, 0.5], [1.0, 0.0]], [1, 0])
    array([ 0.6931472, -0.       ], dtype=float32)
    """,
)


def row_count(op: OpView, X: TensorSpec, label: TensorSpec) -> int | None:
    """Return N, as far as known; checks X and label against each other."""
    if X.dims is not None:
        op.require(len(X.dims) > 0, "X has rank 0, it must have at least 1 dimension")
    rows = None if X.dims is None else X.dims[0] if len(X.dims) > 1 else 1
    if label.dims is None:
        return rows
    flat = len(label.dims) == 1 or (len(label.dims) == 2 and agree(label.dims[1], 1))
    op.require(flat, f"label has the shape {show_dims(label.dims)}, it must be (N) or (N, 1)")
    op.require(agree(label.dims[0], rows), f"{label.dims[0]} labels for {rows} rows of X", "one label for each row")
    return label.dims[0] if rows is None else rows


def check_labels(op: OpView, label: Array, classes: int) -> Array:
    """Return labels as a vector.

    Raises:
        NumericError: one of them is not in [0, classes).
    """
    flat = label.reshape(-1)
    wrong = (flat < 0) | (flat >= classes)
    if wrong.any():
        row = int(wrong.argmax())
        raise op.error(
            NumericError,
            f"label {flat[row]} of row {row} is not in [0, {classes})",
            "labels count from 0; there are as many as classes",
        )
    return flat


@LABEL_CROSS_ENTROPY.infer
def label_cross_entropy_infer(op: OpView, X: TensorSpec, label: TensorSpec) -> TensorSpec:
    return TensorSpec((row_count(op, X, label),), X.dtype)


@LABEL_CROSS_ENTROPY.gradient
def label_cross_entropy_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("LabelCrossEntropyGradient", [g.X, g.label, g.dY], [g.dX])


@kernel(LABEL_CROSS_ENTROPY)
def label_cross_entropy(op: OpView, X: Array, label: Array, Y: Array) -> None:
    rows = np.arange(Y.size)
    x = X.reshape(Y.size, X.size // max(Y.size, 1))
    np.maximum(x[rows, check_labels(op, label, x.shape[1])], PROBABILITY_MIN, out=Y)
    np.negative(np.log(Y, out=Y), out=Y)


LABEL_CROSS_ENTROPY_GRADIENT = schema(
    "LabelCrossEntropyGradient",
    """dX[n, label[n]] = -dY[n] / max(X[n, label[n]], 1e-20), all else 0.

    Below 1e-20 the forward operator is constant; the gradient there is that at 1e-20, as in Caffe2: it leads out.""",
    inputs=[blob("X", FLOAT), blob("label", DataType.INT32, role=Role.INDEX), blob("dY", "X", "N")],
    outputs=[blob("dX", "X")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("LabelCrossEntropyGradient", [[0.5, 0.5], [0.25, 0.75]], [1, 0], [1.0, 1.0])
    array([[ 0., -2.],
           [-4.,  0.]], dtype=float32)
    """,
)


@LABEL_CROSS_ENTROPY_GRADIENT.infer
def label_cross_entropy_gradient_infer(op: OpView, X: TensorSpec, label: TensorSpec, dY: TensorSpec) -> TensorSpec:
    rows = row_count(op, X, label)
    if dY.dims is not None:
        op.require(agree(dY.dims[0], rows), f"dY has {dY.dims[0]} elements, X has {rows} rows")
    return TensorSpec(X.dims, X.dtype)


@kernel(LABEL_CROSS_ENTROPY_GRADIENT)
def label_cross_entropy_gradient_kernel(op: OpView, X: Array, label: Array, dY: Array, dX: Array) -> None:
    rows = np.arange(dY.size)
    shape = dY.size, X.size // max(dY.size, 1)
    x, dx = X.reshape(shape), dX.reshape(shape)
    columns = check_labels(op, label, shape[1])
    dx[...] = 0
    dx[rows, columns] = -dY / np.maximum(x[rows, columns], PROBABILITY_MIN)


CROSS_ENTROPY = schema(
    "CrossEntropy",
    "Y[n] = -sum over d of label[n, d] * log(max(X[n, d], 1e-20)).",
    inputs=[
        blob("X", FLOAT, doc="(N, D...): probabilities"),
        blob("label", FLOAT, role=Role.DATA, doc="(N, D), or (N) for D = 1: probabilities"),
    ],
    outputs=[blob("Y", "X", doc="(N)")],
    effects=Effects.PURE,
    source="Goodfellow, Bengio, Courville 2016, section 3.13; Caffe2",
    example="""
    >>> run("CrossEntropy", [[0.5, 0.5], [1.0, 0.0]], [[0.5, 0.5], [1.0, 0.0]])
    array([ 0.6931472, -0.       ], dtype=float32)
    """,
)
CROSS_ENTROPY_GRADIENT = schema(
    "CrossEntropyGradient",
    "dX[n, d] = -dY[n] * label[n, d] / max(X[n, d], 1e-20); below 1e-20 the gradient is that at 1e-20.",
    inputs=[
        blob("X", FLOAT, doc="(N, D...)"),
        blob("label", FLOAT, role=Role.DATA, doc="(N, D), or (N) for D = 1"),
        blob("dY", "X", "N"),
    ],
    outputs=[blob("dX", "X")],
    effects=Effects.PURE,
    no_gradient=ends("second derivatives are not built"),
    source="derivative of the forward operator",
    example="""
    >>> run("CrossEntropyGradient", [[0.5, 0.5]], [[1.0, 0.0]], [1.0])
    array([[-2., -0.]], dtype=float32)
    """,
)


def _matrix_rows(op: OpView, X: TensorSpec, label: TensorSpec) -> int | None:
    """Return N, as far as known; checks that X and label are matrices of one shape."""
    if label.dims is not None:
        op.require(len(label.dims) in (1, 2), f"label has the shape {show_dims(label.dims)}, it must be a matrix")
    if X.dims is None:
        return None if label.dims is None else label.dims[0]
    op.require(len(X.dims) > 0, "X has rank 0, it must have at least 1 dimension")
    N, D = (X.dims[0], product(X.dims[1:])) if len(X.dims) > 1 else (1, X.dims[0])
    if label.dims is not None:
        relation = f"label has the shape {show_dims(label.dims)}, X has {N} rows of {D} elements"
        of_one = len(label.dims) == 1 and agree(D, 1) and agree(label.dims[0], N)
        op.require(of_one or shapes_agree(label.dims, (N, D)), relation, "one probability for each")
    return N


@CROSS_ENTROPY.infer
def cross_entropy_infer(op: OpView, X: TensorSpec, label: TensorSpec) -> TensorSpec:
    return TensorSpec((_matrix_rows(op, X, label),), X.dtype)


@CROSS_ENTROPY.cost
def cross_entropy_cost(op: OpView, X: TensorSpec, label: TensorSpec, Y: TensorSpec) -> Cost:
    del op
    return streamed((X, label), (Y,), flops=4 * X.size)


@CROSS_ENTROPY.gradient
def cross_entropy_gradient(g: GradientRequest) -> list[OperatorDef]:
    return g.emit("CrossEntropyGradient", [g.X, g.label, g.dY], [g.dX])


def check_shares(op: OpView, label: Array, rows: int) -> None:
    """Check that labels are shares.

    Raises:
        NumericError: one is not in [0, 1].
    """
    wrong = ~((label >= 0) & (label <= 1))
    if wrong.any():
        row = int(wrong.reshape(rows, -1).any(axis=1).argmax())
        relation = f"a label of row {row} is {label[wrong][0]}, not in [0, 1]"
        raise op.error(NumericError, relation, "LabelCrossEntropy takes numbers of classes")


@kernel(CROSS_ENTROPY)
def cross_entropy(op: OpView, X: Array, label: Array, Y: Array) -> None:
    check_shares(op, label, Y.size)
    shape = Y.size, X.size // max(Y.size, 1)
    logarithms = np.log(np.maximum(X.reshape(shape), PROBABILITY_MIN, dtype=X.dtype))
    Y[...] = -(label.reshape(shape) * logarithms).sum(axis=1, dtype=X.dtype)


@CROSS_ENTROPY_GRADIENT.infer
def cross_entropy_gradient_infer(op: OpView, X: TensorSpec, label: TensorSpec, dY: TensorSpec) -> TensorSpec:
    rows = _matrix_rows(op, X, label)
    if dY.dims is not None:
        op.require(agree(dY.dims[0], rows), f"dY has {dY.dims[0]} elements, X has {rows} rows")
    return TensorSpec(X.dims, X.dtype)


@CROSS_ENTROPY_GRADIENT.cost
def cross_entropy_gradient_cost(op: OpView, X: TensorSpec, label: TensorSpec, dY: TensorSpec, dX: TensorSpec) -> Cost:
    del op
    return streamed((X, label, dY), (dX,), flops=4 * X.size)


@kernel(CROSS_ENTROPY_GRADIENT)
def cross_entropy_gradient_kernel(X: Array, label: Array, dY: Array, dX: Array) -> None:
    shape = dY.size, X.size // max(dY.size, 1)
    above = np.maximum(X.reshape(shape), PROBABILITY_MIN, dtype=X.dtype)
    dX[...] = (-dY[:, None] * label.reshape(shape) / above).reshape(dX.shape)


def _matrix(X: TensorSpec, Y: TensorSpec) -> Cut:
    return Cut(Y.size, X.size // max(Y.size, 1))


def _entropies(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    totals = {
        "total": Total("sum", f"label * log(max(X, {PROBABILITY_MIN}))"),
        "wrong": Total("max", "1 - logical_and(label >= 0, label <= 1)"),
    }

    def check(operands: Operands) -> None:
        check_shares(op, operands["label"].array, len(operands["Y"].array))

    return RowProgram(
        _matrix(specs["X"], specs["Y"]), totals, {"Y": "-total"}, wrong="wrong", check=check, complaint=NO_SHARES
    )


def _entropy_slopes(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    del op
    each = {"dX": f"-dY * label / max(X, {PROBABILITY_MIN})"}
    return RowProgram(_matrix(specs["X"], specs["dY"]), each=each, lies={"dY": "row"})


row_program(CROSS_ENTROPY, _entropies)
row_program(CROSS_ENTROPY_GRADIENT, _entropy_slopes)
