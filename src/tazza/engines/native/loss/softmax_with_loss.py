"""SoftmaxWithLoss, for labels that are numbers; losses of rows are added up in float64, in order."""

from __future__ import annotations

from tazza.codegen.block import BlockLaunch
from tazza.codegen.fields import Fields
from tazza.codegen.function import log
from tazza.codegen.loop import lanes_of
from tazza.codegen.rows import ROWS, each_row, finish_status, report, row_total, softmax_row, sum_float64, with_label
from tazza.codegen.term import Lines, Term
from tazza.engines.native import SOURCES, native
from tazza.engines.native.nn.softmax import matrix_words
from tazza.operator import Launch, Operands, OpView, Unsupported
from tazza.ops.loss.cross_entropy import check_labels
from tazza.ops.loss.softmax_with_loss import SOFTMAX_WITH_LOSS
from tazza.tensor import TensorSpec

BLOCK = Fields(doubles="scale", addresses="X label P scratch loss weights", after=ROWS)
"""The losses of rows lie in scratch memory."""


@native(SOFTMAX_WITH_LOSS, float32=True)
def prepare_softmax_with_loss(op: OpView, X: TensorSpec) -> Launch:
    """Compile SoftmaxWithLoss."""
    if op.label_prob:
        raise Unsupported("labels that are probabilities are not compiled")
    head, weighted = matrix_words(op, X), op.has_input("weights")
    averaged = bool(op.average_by_batch_size) or not weighted

    def check(operands: Operands) -> None:
        check_labels(op, operands["label"].array, head["D"])

    address = SOURCES.compiled(
        f"softmax with loss, {weighted=}, {averaged=}",
        _forward,
        lambda lines: _loss(lines, weighted=weighted, averaged=averaged),
    )
    absent = {} if weighted else {"weights": 0}
    return BlockLaunch(address, BLOCK.words(**head, **absent, scale=op.scale), 4 * max(head["N"], 1), check)


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
