"""LabelCrossEntropy and its gradient."""

from __future__ import annotations

from tazza.codegen.block import BlockLaunch
from tazza.codegen.fields import Fields
from tazza.codegen.function import log
from tazza.codegen.loop import each_vector, lanes_of
from tazza.codegen.rows import ROWS, each_row, finish_status, report, with_label
from tazza.codegen.term import Lines, Term
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, Operands, OpView
from tazza.ops.loss.cross_entropy import (
    LABEL_CROSS_ENTROPY,
    LABEL_CROSS_ENTROPY_GRADIENT,
    PROBABILITY_MIN,
    check_labels,
)
from tazza.tensor import TensorSpec

BLOCK = Fields(addresses="X label Y", after=ROWS)
GRADIENT_BLOCK = Fields(addresses="X label dY dX", after=ROWS)


def _launch(op: OpView, X: TensorSpec, rows: int, address: int, block: Fields) -> Launch:
    columns = X.size // max(rows, 1)

    def check(operands: Operands) -> None:
        check_labels(op, operands["label"].array, columns)

    return BlockLaunch(address, block.words(threads=1, N=rows, D=columns), check=check)


@native(LABEL_CROSS_ENTROPY)
def prepare_label_cross_entropy(op: OpView, X: TensorSpec, Y: TensorSpec) -> Launch:
    """Compile LabelCrossEntropy."""
    address = SOURCES.compiled("label cross entropy", _gather, _negative_logarithms)
    return _launch(op, X, Y.size, address, BLOCK)


def _gather(lines: Lines) -> None:
    """Write Y[n] = X[n, label[n]] for each row with a valid label."""
    w = BLOCK.loaded(lines)

    def row(n: Term) -> None:
        def found(chosen: Term) -> None:
            w.Y[n] = w.X.at(n * w.D)[chosen]

        with_label(lines, w.label, n, found, lambda: report(lines, n))

    each_row(lines, row)


def _negative_logarithms(lines: Lines) -> None:
    v = lanes_of(lines)

    def rows() -> None:
        w = BLOCK.loaded(lines)

        def body(i: Term, mask: Term | None) -> None:
            v.store(-log(v.load(w.Y, i, mask).at_least(PROBABILITY_MIN)), w.Y, i, mask)

        each_vector(v, 0, w.N, body)

    finish_status(lines, rows)


@native(LABEL_CROSS_ENTROPY_GRADIENT)
def prepare_label_cross_entropy_gradient(op: OpView, X: TensorSpec, dY: TensorSpec) -> Launch:
    """Compile LabelCrossEntropyGradient."""
    address = SOURCES.compiled("label cross entropy gradient", _scatter, finish_status)
    return _launch(op, X, dY.size, address, GRADIENT_BLOCK)


def _scatter(lines: Lines) -> None:
    v, w = lanes_of(lines), GRADIENT_BLOCK.loaded(lines)

    def row(n: Term) -> None:
        x, dx = w.X.at(n * w.D), w.dX.at(n * w.D)
        each_vector(v, 0, w.D, lambda i, mask: v.store(v.constant(0.0), dx, i, mask))

        def found(chosen: Term) -> None:
            probability, given = v.full(x[chosen]), v.full(w.dY[n])
            dx[chosen] = (-(given / probability.at_least(PROBABILITY_MIN))).lane(0)

        with_label(lines, w.label, n, found, lambda: report(lines, n))

    each_row(lines, row)
