"""SoftmaxWithLoss and its gradient, for labels that are numbers; losses of rows are added up in float64, in order."""

from __future__ import annotations

from collections.abc import Sequence

from tazza.codegen.block import BlockLaunch, Scratch, Slot, Word, float_word
from tazza.codegen.emit import Lines
from tazza.codegen.loop import each_vector, lanes_of
from tazza.codegen.rows import (
    FIRST,
    D,
    N,
    each_row,
    element,
    finish_status,
    first_lane,
    report,
    row_at,
    row_total,
    softmax_row,
    sum_float64,
    with_label,
)
from tazza.codegen.vector import log
from tazza.engines.native import SOURCES, native
from tazza.engines.native.nn.softmax import matrix_words
from tazza.operator import Launch, Operands, OpView, Unsupported
from tazza.ops.loss.cross_entropy import check_labels
from tazza.ops.loss.softmax_with_loss import SOFTMAX_WITH_LOSS, SOFTMAX_WITH_LOSS_GRADIENT
from tazza.tensor import TensorSpec


def _launch(op: OpView, X: TensorSpec, address: int, operands: Sequence[Word], *, scratch_bytes: int = 0) -> Launch:
    head = matrix_words(op, X)

    def check(operands: Operands) -> None:
        check_labels(op, operands["label"].array, head[D])

    return BlockLaunch(address, (*head, *operands), scratch_bytes, check)


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
    words: list[Word] = [Slot("X"), Slot("label"), Slot("P"), Scratch(), Slot("loss"), float_word(op.scale)]
    rows = matrix_words(op, X)[N]
    return _launch(op, X, address, [*words, *([Slot("weights")] if weighted else [])], scratch_bytes=4 * max(rows, 1))


def _forward(lines: Lines) -> None:
    v, width = lanes_of(lines), lines.load_word("%block", D)
    X, label, P, losses = (lines.load_pointer("%block", FIRST + i) for i in range(4))

    def row(n: str) -> None:
        x = row_at(lines, X, n, width)
        top, total = softmax_row(v, x, row_at(lines, P, n, width), width)

        def lose(chosen: str) -> None:
            score = lines.let(f"load float, ptr {element(lines, x, chosen)}")
            loss = v.sub(log(v, total), v.sub(v.splat(score), top))
            lines.do(f"store float {first_lane(v, loss)}, ptr {element(lines, losses, n)}")

        with_label(lines, label, n, lose, lambda: report(lines, n))

    each_row(lines, row)


def _loss(lines: Lines, *, weighted: bool, averaged: bool) -> None:
    def add_up() -> None:
        losses, loss = (lines.load_pointer("%block", FIRST + i) for i in (3, 4))
        scale = lines.let(f"bitcast i64 {lines.load_word('%block', FIRST + 5)} to double")
        weights = lines.load_pointer("%block", FIRST + 6) if weighted else None
        total = row_total(lines, None if averaged else weights)
        summed = sum_float64(lines, losses, lines.load_word("%block", N), weights)
        mean = lines.let(f"fdiv double {lines.let(f'fmul double {summed}, {scale}')}, {total}")
        nothing = lines.let(f"fcmp oeq double {total}, 0.0")
        value = lines.let(f"select i1 {nothing}, double 0.0, double {mean}")
        lines.do(f"store float {lines.let(f'fptrunc double {value} to float')}, ptr {loss}")

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
    words: list[Word] = [Slot("label"), Slot("P"), Slot("dloss"), Slot("dX"), float_word(op.scale)]
    return _launch(op, X, address, [*words, *([Slot("weights")] if weighted else [])])


def _backward(lines: Lines, *, weighted: bool, averaged: bool) -> None:
    v, width = lanes_of(lines), lines.load_word("%block", D)
    label, P, dloss, dX = (lines.load_pointer("%block", FIRST + i) for i in range(4))
    scale = lines.let(f"bitcast i64 {lines.load_word('%block', FIRST + 4)} to double")
    weights = lines.load_pointer("%block", FIRST + 5) if weighted else None
    total = row_total(lines, None if averaged else weights)
    given = lines.let(f"fpext float {lines.let(f'load float, ptr {dloss}')} to double")
    part = lines.let(f"fdiv double {lines.let(f'fmul double {given}, {scale}')}, {total}")
    nothing = lines.let(f"fcmp oeq double {total}, 0.0")
    part = lines.let(f"fptrunc double {lines.let(f'select i1 {nothing}, double 0.0, double {part}')} to float")

    def row(n: str) -> None:
        p, dx, factor = row_at(lines, P, n, width), row_at(lines, dX, n, width), part
        if weights is not None:
            weight = lines.let(f"load float, ptr {element(lines, weights, n)}")
            factor = lines.let(f"fmul float {part}, {weight}")
        factors = v.splat(factor)

        def scaled(i: str, mask: str | None) -> None:
            v.store(v.mul(v.load(p, i, mask), factors), dx, i, mask)

        each_vector(v, "0", width, scaled)

        def less_one(chosen: str) -> None:
            probability = lines.let(f"load float, ptr {element(lines, p, chosen)}")
            value = lines.let(f"fmul float {lines.let(f'fsub float {probability}, 1.0')}, {factor}")
            lines.do(f"store float {value}, ptr {element(lines, dx, chosen)}")

        with_label(lines, label, n, less_one, lambda: report(lines, n))

    each_row(lines, row)
