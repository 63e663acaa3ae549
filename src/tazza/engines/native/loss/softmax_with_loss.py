"""SoftmaxWithLoss and its gradient, for labels that are numbers; losses of rows are added up in float64, in order."""

from __future__ import annotations

from tazza.codegen.block import BlockLaunch
from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.loop import each_vector, lanes_of
from tazza.codegen.rows import (
    ROWS,
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
    v, w = lanes_of(lines), BLOCK.load(lines)

    def row(n: str) -> None:
        x = row_at(lines, w.X, n, w.D)
        top, total = softmax_row(v, x, row_at(lines, w.P, n, w.D), w.D)

        def lose(chosen: str) -> None:
            score = lines.let(f"load float, ptr {element(lines, x, chosen)}")
            loss = v.sub(log(v, total), v.sub(v.splat(score), top))
            lines.do(f"store float {first_lane(v, loss)}, ptr {element(lines, w.scratch, n)}")

        with_label(lines, w.label, n, lose, lambda: report(lines, n))

    each_row(lines, row)


def _loss(lines: Lines, *, weighted: bool, averaged: bool) -> None:
    def add_up() -> None:
        at = BLOCK.read(lines)
        weights = at.weights if weighted else None
        total = row_total(lines, None if averaged else weights)
        summed = sum_float64(lines, at.scratch, at.N, weights)
        mean = lines.let(f"fdiv double {lines.let(f'fmul double {summed}, {at.scale}')}, {total}")
        nothing = lines.let(f"fcmp oeq double {total}, 0.0")
        value = lines.let(f"select i1 {nothing}, double 0.0, double {mean}")
        lines.do(f"store float {lines.let(f'fptrunc double {value} to float')}, ptr {at.loss}")

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
    v, w = lanes_of(lines), GRADIENT_BLOCK.load(lines)
    weights = w.weights if weighted else None
    total = row_total(lines, None if averaged else weights)
    given = lines.let(f"fpext float {lines.let(f'load float, ptr {w.dloss}')} to double")
    part = lines.let(f"fdiv double {lines.let(f'fmul double {given}, {w.scale}')}, {total}")
    nothing = lines.let(f"fcmp oeq double {total}, 0.0")
    part = lines.let(f"fptrunc double {lines.let(f'select i1 {nothing}, double 0.0, double {part}')} to float")

    def row(n: str) -> None:
        p, dx, factor = row_at(lines, w.P, n, w.D), row_at(lines, w.dX, n, w.D), part
        if weights is not None:
            weight = lines.let(f"load float, ptr {element(lines, weights, n)}")
            factor = lines.let(f"fmul float {part}, {weight}")
        factors = v.splat(factor)

        def scaled(i: str, mask: str | None) -> None:
            v.store(v.mul(v.load(p, i, mask), factors), dx, i, mask)

        each_vector(v, "0", w.D, scaled)

        def less_one(chosen: str) -> None:
            probability = lines.let(f"load float, ptr {element(lines, p, chosen)}")
            value = lines.let(f"fmul float {lines.let(f'fsub float {probability}, 1.0')}, {factor}")
            lines.do(f"store float {value}, ptr {element(lines, dx, chosen)}")

        with_label(lines, w.label, n, less_one, lambda: report(lines, n))

    each_row(lines, row)
