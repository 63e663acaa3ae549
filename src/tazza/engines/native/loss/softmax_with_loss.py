"""SoftmaxWithLoss and its gradient, for labels that are numbers; losses of rows are added up in float64, in order."""

from __future__ import annotations

from tazza.codegen.block import BlockLaunch
from tazza.codegen.fields import Fields
from tazza.codegen.function import log
from tazza.codegen.loop import each_vector, lanes_of
from tazza.codegen.rows import ROWS, each_row, finish_status, report, row_total, softmax_row, sum_float64, with_label
from tazza.codegen.term import Lines, Term
from tazza.engines.native import SOURCES, native
from tazza.engines.native.nn.softmax import matrix_words
from tazza.operator import Launch, Operands, OpView, Unsupported
from tazza.ops.loss.cross_entropy import check_labels
from tazza.ops.loss.softmax_with_loss import SOFTMAX_WITH_LOSS, SOFTMAX_WITH_LOSS_GRADIENT
from tazza.tensor import TensorSpec

BLOCK = Fields(doubles="scale", addresses="X label P scratch loss weights", after=ROWS)
"""The losses of rows lie in scratch memory."""
GRADIENT_BLOCK = Fields(doubles="scale", addresses="label P dloss dX weights", after=ROWS)


def _launch(op: OpView, X: TensorSpec, address: int, block: Fields, *, scratch_bytes: int = 0) -> Launch:
    head = matrix_words(op, X)

    def check(operands: Operands) -> None:
        check_labels(op, operands["label"].array, head["D"])

    absent = {} if op.has_input("weights") else {"weights": 0}
    return BlockLaunch(address, block.words(**head, **absent, scale=op.scale), scratch_bytes, check)


LABELS = "labels that are probabilities are not compiled"


@native(SOFTMAX_WITH_LOSS, float32=True)
def prepare_softmax_with_loss(op: OpView, X: TensorSpec) -> Launch | Unsupported:
    """Compile SoftmaxWithLoss."""
    if op.label_prob:
        return Unsupported(LABELS)
    weighted = op.has_input("weights")
    averaged = bool(op.average_by_batch_size) or not weighted
    address = SOURCES.compiled(
        f"softmax with loss, {weighted=}, {averaged=}",
        _forward,
        lambda lines: _loss(lines, weighted=weighted, averaged=averaged),
    )
    return _launch(op, X, address, BLOCK, scratch_bytes=4 * max(matrix_words(op, X)["N"], 1))


def _forward(lines: Lines) -> None:
    v, w = lanes_of(lines), BLOCK.loaded(lines)

    def row(n: Term) -> None:
        x = w.X.at(n * w.D)
        top, total = softmax_row(v, x, w.P.at(n * w.D), w.D)

        def lose(chosen: Term) -> None:
            score = x[chosen]
            w.scratch[n] = (log(total) - (v.full(score) - top)).lane(0)

        with_label(lines, w.label, n, lose, lambda: report(lines, n))

    each_row(lines, row)


def _loss(lines: Lines, *, weighted: bool, averaged: bool) -> None:
    def add_up() -> None:
        at = BLOCK.lazily(lines)
        weights = at.weights if weighted else None
        total = row_total(lines, None if averaged else weights)
        mean = sum_float64(lines, at.scratch, at.N, weights) * at.scale / total
        loss = total.equals(0.0).choose(0.0, mean).to("float")
        at.loss.store(loss)

    finish_status(lines, add_up)


@native(SOFTMAX_WITH_LOSS_GRADIENT, float32=True)
def prepare_softmax_with_loss_gradient(op: OpView, X: TensorSpec) -> Launch | Unsupported:
    """Compile SoftmaxWithLossGradient."""
    if op.label_prob:
        return Unsupported(LABELS)
    weighted = op.has_input("weights")
    averaged = bool(op.average_by_batch_size) or not weighted
    address = SOURCES.compiled(
        f"softmax with loss gradient, {weighted=}, {averaged=}",
        lambda lines: _backward(lines, weighted=weighted, averaged=averaged),
        finish_status,
    )
    return _launch(op, X, address, GRADIENT_BLOCK)


def _backward(lines: Lines, *, weighted: bool, averaged: bool) -> None:
    v, w = lanes_of(lines), GRADIENT_BLOCK.loaded(lines)
    weights = w.weights if weighted else None
    total = row_total(lines, None if averaged else weights)
    part = w.dloss.load().to("double") * w.scale / total
    part = total.equals(0.0).choose(0.0, part).to("float")

    def row(n: Term) -> None:
        p, dx = w.P.at(n * w.D), w.dX.at(n * w.D)
        factor = part if weights is None else part * weights[n]
        factors = v.full(factor)

        def scaled(i: Term, mask: Term | None) -> None:
            v.store(v.load(p, i, mask) * factors, dx, i, mask)

        each_vector(v, 0, w.D, scaled)

        def less_one(chosen: Term) -> None:
            dx[chosen] = (p[chosen] - 1.0) * factor

        with_label(lines, w.label, n, less_one, lambda: report(lines, n))

    each_row(lines, row)
