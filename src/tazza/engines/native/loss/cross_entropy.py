"""LabelCrossEntropy and its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tazza.codegen.block import BlockLaunch, Slot
from tazza.codegen.emit import Lines
from tazza.codegen.loop import each_vector, lanes_of
from tazza.codegen.rows import FIRST, D, N, each_row, element, finish_status, report, row_at, with_label
from tazza.codegen.vector import log
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, Operands, OpView
from tazza.ops.loss.cross_entropy import (
    LABEL_CROSS_ENTROPY,
    LABEL_CROSS_ENTROPY_GRADIENT,
    PROBABILITY_MIN,
    check_labels,
)
from tazza.tensor import TensorSpec


def _launch(op: OpView, X: TensorSpec, rows: int, address: int, operands: Sequence[Slot]) -> Launch:
    columns = X.size // max(rows, 1)

    def check(operands: Operands) -> None:
        check_labels(op, operands["label"].array, columns)

    return BlockLaunch(address, (1, rows, columns, 0, *operands), check=check)


@native(LABEL_CROSS_ENTROPY)
def prepare_label_cross_entropy(op: OpView, X: TensorSpec, Y: TensorSpec) -> Launch:
    """Compile LabelCrossEntropy."""
    address = SOURCES.compiled("label cross entropy", _gather, _negative_logarithms)
    rows = Y.size
    return _launch(op, X, rows, address, (Slot("X"), Slot("label"), Slot("Y")))


def _gather(lines: Lines) -> None:
    _at_labels(lines, lambda n, x, at: lines.do(f"store float {x}, ptr {at}"))


def _at_labels(lines: Lines, body: Callable[[str, str, str], None]) -> None:
    """Run `body(n, X[n, label[n]], address of element n of the third operand)` for each row with a valid label."""
    width = lines.load_word("%block", D)
    X, label, third = (lines.load_pointer("%block", FIRST + i) for i in range(3))

    def row(n: str) -> None:
        def found(chosen: str) -> None:
            at = element(lines, row_at(lines, X, n, width), chosen)
            body(n, lines.let(f"load float, ptr {at}"), element(lines, third, n))

        with_label(lines, label, n, found, lambda: report(lines, n))

    each_row(lines, row)


def _negative_logarithms(lines: Lines) -> None:
    v = lanes_of(lines)

    def rows() -> None:
        Y = lines.load_pointer("%block", FIRST + 2)

        def body(i: str, mask: str | None) -> None:
            v.store(v.neg(log(v, v.floor_at(v.load(Y, i, mask), PROBABILITY_MIN))), Y, i, mask)

        each_vector(v, "0", lines.load_word("%block", N), body)

    finish_status(lines, rows)


@native(LABEL_CROSS_ENTROPY_GRADIENT)
def prepare_label_cross_entropy_gradient(op: OpView, X: TensorSpec, dY: TensorSpec) -> Launch:
    """Compile LabelCrossEntropyGradient."""
    address = SOURCES.compiled("label cross entropy gradient", _scatter, finish_status)
    rows = dY.size
    slots = (Slot("X"), Slot("label"), Slot("dY"), Slot("dX"))
    return _launch(op, X, rows, address, slots)


def _scatter(lines: Lines) -> None:
    v, width = lanes_of(lines), lines.load_word("%block", D)
    X, label, dY, dX = (lines.load_pointer("%block", FIRST + i) for i in range(4))

    def row(n: str) -> None:
        x, dx = row_at(lines, X, n, width), row_at(lines, dX, n, width)

        each_vector(v, "0", width, lambda i, mask: v.store(v.constant(0.0), dx, i, mask))

        def found(chosen: str) -> None:
            probability = v.splat(lines.let(f"load float, ptr {element(lines, x, chosen)}"))
            given = v.splat(lines.let(f"load float, ptr {element(lines, dY, n)}"))
            value = v.neg(v.div(given, v.floor_at(probability, PROBABILITY_MIN)))
            first = lines.let(f"extractelement {v.type} {value}, i32 0")
            lines.do(f"store float {first}, ptr {element(lines, dx, chosen)}")

        with_label(lines, label, n, found, lambda: report(lines, n))

    each_row(lines, row)
