"""Cross entropy of logits with labels, a mean over the last axis: SigmoidCrossEntropyWithLogits, and with weights.

x are the logits, t the labels, w weights, all (*S, D); p(x) = log(1 + exp(x)), s(x) is the sigmoid:

    Y = -mean over D of w (x t - p(x));                        its derivative by x is -w (t - s(x)) / D
    log_D_trick         -mean of (2 t - 1) (x - p(x));         -(2 t - 1) s(-x) / D
    unjoined_lr_loss    -mean of x t - (1 - t) p(x);           -(t - (1 - t) s(x)) / D

The trick makes a discriminator's feature of -log(1 - s) into log s, so that a generator's gradient does not vanish.
Unjoined labels come as a positive row for what was a negative one before: the second takes the first one back.

Sources: Goodfellow et al. 2014, section 3, for the trick; Caffe2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tazza.data_class import dataclass
from tazza.errors import ArgumentError
from tazza.operator import (
    FLOAT,
    ArgSpec,
    Array,
    BlobSpec,
    Cost,
    Cut,
    Effects,
    GradientRequest,
    OpSchema,
    OpView,
    Role,
    RowProgram,
    Total,
    arg,
    blob,
    ends,
    family,
    gradients_of,
    kernel,
    row_program,
    schema,
    show_dims,
    streamed,
)
from tazza.ops.shape.axis import agree, product, shapes_agree
from tazza.proto import OperatorDef
from tazza.tensor import TensorSpec

ARGS = (
    arg("log_D_trick", bool, False, doc="(2 t - 1) times the logarithm of s(x)"),
    arg("unjoined_lr_loss", bool, False, doc="labels of 1 take back a label of 0"),
)
X = blob("X", FLOAT, role=Role.DATA, doc="(*S, D): logits")
T = blob("T", FLOAT, role=Role.DATA, doc="(*S, D): labels, in [0, 1]")
W = blob("W", FLOAT, role=Role.DATA, doc="(*S, D): weights")


def softplus_parts(x: Array) -> tuple[Array, Array]:
    """Return 1 where x >= 0, and log(1 + exp(-|x|)), of an infinite x NaN, as Caffe2 has it.

    log(1 + exp(x)) is x * the first + the second. The two are kept apart: what is taken from x, a label times x, would
    leave of the second only what is above the rounding of x.
    """
    positive = (x >= 0).astype(x.dtype)
    return positive, np.log1p(np.exp(x - 2 * x * positive))


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _terms(op: OpView, x: Array, t: Array) -> Array:
    """Return what is averaged, with the other sign."""
    kind, (positive, rest) = op.arguments, softplus_parts(x)
    if kind.get("log_D_trick"):
        return (2 * t - 1) * (x * (1 - positive) - rest)
    if kind.get("unjoined_lr_loss"):
        return x * t - (x * positive + rest) * (1 - t)
    return x * (t - positive) - rest


def _slopes(op: OpView, x: Array, t: Array) -> Array:
    """Return the derivatives of these terms."""
    kind = op.arguments
    if kind.get("unjoined_lr_loss"):
        return t - (1 - t) * _sigmoid(x)
    return (2 * t - 1) * _sigmoid(-x) if kind.get("log_D_trick") else t - _sigmoid(x)


POSITIVE, REST = "where(X >= 0, 1, 0)", "(log1p(exp(-abs(X))) + X * 0)"
"""As `softplus_parts`: the second is NaN where X is infinite."""


def _term_text(op: OpView) -> str:
    kind = op.arguments
    if kind.get("log_D_trick"):
        return f"(2 * T - 1) * (X * (1 - {POSITIVE}) - {REST})"
    if kind.get("unjoined_lr_loss"):
        return f"X * T - (X * {POSITIVE} + {REST}) * (1 - T)"
    return f"X * (T - {POSITIVE}) - {REST}"


def _slope_text(op: OpView) -> str:
    kind = op.arguments
    if kind.get("unjoined_lr_loss"):
        return "T - (1 - T) * sigmoid(X)"
    return "(2 * T - 1) * sigmoid(-X)" if kind.get("log_D_trick") else "T - sigmoid(X)"


def _cut(specs: Mapping[str, TensorSpec]) -> Cut:
    shape = specs["X"].shape
    return Cut(math.prod(shape[:-1]), shape[-1])


def _put_mean(terms: Array, Y: Array) -> None:
    Y[...] = -terms.sum(axis=-1, dtype=Y.dtype) / Y.dtype.type(max(terms.shape[-1], 1))


def _put_shares(dY: Array, slopes: Array, dX: Array) -> None:
    each = -dY.reshape(*dX.shape[:-1], 1) / dX.dtype.type(max(dX.shape[-1], 1))
    np.multiply(each, slopes, out=dX)


def _check(op: OpView, X: TensorSpec, **others: TensorSpec) -> None:
    if X.dims is None:
        return
    op.require(len(X.dims) > 0, "X has rank 0, it must have a last axis")
    some = X.dims[-1] != 0 or 0 in X.dims[:-1]
    op.require(some, f"X has the shape {show_dims(X.dims)}", "there is no mean of nothing")
    for letter, spec in others.items():
        if spec.dims is not None:
            relation = f"{letter} has the shape {show_dims(spec.dims)}, X has {show_dims(X.dims)}"
            op.require(shapes_agree(spec.dims, X.dims), relation)


@dataclass(frozen=True, slots=True)
class Weighing:
    """Whether there are weights; without them there are the two tricks."""

    weights: bool

    @property
    def inputs(self) -> list[BlobSpec]:
        """The inputs that both directions have."""
        return [X, T, W] if self.weights else [X, T]

    @property
    def args(self) -> Sequence[ArgSpec]:
        """The arguments of both."""
        return () if self.weights else ARGS

    @property
    def ones(self) -> str:
        """Text of weights for examples."""
        return ", [[1.0, 1.0]]" if self.weights else ""


@family(
    {
        "SigmoidCrossEntropyWithLogits": Weighing(weights=False),
        "WeightedSigmoidCrossEntropyWithLogits": Weighing(weights=True),
    }
)
def sigmoid_cross_entropies(type: str, row: Weighing) -> OpSchema:
    """Cross entropy of logits."""
    made = schema(
        type,
        f"Y = -mean over the last axis of {'W * ' if row.weights else ''}(X T - log(1 + exp(X))).",
        inputs=row.inputs,
        outputs=[blob("Y", "X", doc="S")],
        args=row.args,
        effects=Effects.PURE,
        source="Goodfellow, Bengio, Courville 2016, section 6.2.2.2; Caffe2",
        example=f'>>> run("{type}", [[0.0, 0.0]], [[1.0, 0.0]]{row.ones})\narray([0.6931472], dtype=float32)',
    )

    @made.validate
    def validate(op: OpView) -> None:
        if op.arguments.get("log_D_trick") and op.arguments.get("unjoined_lr_loss"):
            raise op.error(ArgumentError, "log_D_trick and unjoined_lr_loss are both set", "choose one of them")

    @made.infer
    def infer(op: OpView, X: TensorSpec, **others: TensorSpec) -> TensorSpec:
        _check(op, X, **others)
        return TensorSpec(None if X.dims is None else X.dims[:-1], X.dtype)

    @made.cost
    def cost(op: OpView, Y: TensorSpec, **given: TensorSpec) -> Cost:
        del op
        return streamed(tuple(given.values()), (Y,), flops=8 * given["X"].size)

    @made.gradient
    def gradient(g: GradientRequest) -> list[OperatorDef]:
        return g.emit(f"{type}Gradient", [g.dY, *(g.I(i) for i in range(len(row.inputs)))], [g.dX])

    if row.weights:

        @kernel(made)
        def weighted_cross_entropy(op: OpView, X: Array, T: Array, W: Array, Y: Array) -> None:
            _put_mean(W * _terms(op, X, T), Y)

    else:

        @kernel(made)
        def cross_entropy(op: OpView, X: Array, T: Array, Y: Array) -> None:
            _put_mean(_terms(op, X, T), Y)

    def rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
        term = f"W * ({_term_text(op)})" if row.weights else _term_text(op)
        return RowProgram(_cut(specs), {"total": Total("sum", term)}, {"Y": "-total / count"})

    row_program(made, rows)
    return made


@family(gradients_of(sigmoid_cross_entropies))
def sigmoid_cross_entropy_gradients(type: str, row: Weighing) -> OpSchema:
    """The gradient operators."""
    made = schema(
        type,
        "dX = dY times the derivative of the forward operator.",
        inputs=[blob("dY", FLOAT, doc="as many elements as S"), *row.inputs],
        outputs=[blob("dX", like="X")],
        args=row.args,
        effects=Effects.PURE,
        no_gradient=ends("second derivatives are not built"),
        source="derivative of the forward operator",
        example=f'>>> run("{type}", [1.0], [[0.0, 0.0]], [[1.0, 0.0]]{row.ones})\n'
        "array([[-0.25,  0.25]], dtype=float32)",
    )

    @made.infer
    def infer(op: OpView, dY: TensorSpec, X: TensorSpec, **others: TensorSpec) -> TensorSpec:
        _check(op, X, **others)
        if X.dims is not None and dY.dims is not None:
            rows, found = product(X.dims[:-1]), product(dY.dims)
            op.require(agree(rows, found), f"dY has {found} elements, Y has {rows}")
        return X

    @made.cost
    def cost(op: OpView, dX: TensorSpec, **given: TensorSpec) -> Cost:
        del op
        return streamed(tuple(given.values()), (dX,), flops=8 * dX.size)

    if row.weights:

        @kernel(made)
        def weighted_gradient(op: OpView, dY: Array, X: Array, T: Array, W: Array, dX: Array) -> None:
            _put_shares(dY, W * _slopes(op, X, T), dX)

    else:

        @kernel(made)
        def gradient(op: OpView, dY: Array, X: Array, T: Array, dX: Array) -> None:
            _put_shares(dY, _slopes(op, X, T), dX)

    def rows(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
        slope = f"W * ({_slope_text(op)})" if row.weights else f"({_slope_text(op)})"
        return RowProgram(
            _cut(specs), row={"share": "-dY / count"}, each={"dX": f"share * {slope}"}, lies={"dY": "row"}
        )

    row_program(made, rows)
    return made
