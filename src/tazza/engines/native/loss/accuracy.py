"""Accuracy: for each row, how many scores rank before that of the label."""

from __future__ import annotations

from tazza.codegen.block import BlockLaunch, Scratch
from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import lane_sums, lanes_of
from tazza.codegen.rows import ROWS, each_row, element, finish_status, row_at, sum_float64, with_label
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, OpView
from tazza.ops.loss.accuracy import ACCURACY
from tazza.tensor import TensorSpec

BLOCK = Fields("top", addresses="X label hits accuracy", after=ROWS)


@native(ACCURACY)
def prepare_accuracy(op: OpView, X: TensorSpec) -> Launch:
    """Compile Accuracy."""
    rows, columns = X.shape
    words = BLOCK.words(threads=threads_of(X.size, 4, 4, rows), N=rows, D=columns, top=op.top_k, hits=Scratch())
    return BlockLaunch(SOURCES.compiled("accuracy", _hits, _mean), words, 4 * max(rows, 1))


def _hits(lines: Lines) -> None:
    v, w = lanes_of(lines), BLOCK.load(lines)
    top = lines.let(f"sitofp i64 {w.top} to float")

    def row(n: str) -> None:
        x, hit = row_at(lines, w.X, n, w.D), element(lines, w.hits, n)

        def rank(chosen: str) -> None:
            score = lines.let(f"load float, ptr {element(lines, x, chosen)}")
            scores = v.splat(score)

            def ahead(predicate: str, begin: str, end: str) -> str:
                """Count scores that are above; of equal ones those before the label count too."""

                def counted(i: str, mask: str | None) -> str:
                    found = v.both(v.compare(predicate, v.load(x, i, mask), scores), mask)
                    return v.select(found, v.constant(1.0), v.constant(0.0))

                return v.sum(lane_sums(v, begin, end, counted))

            before = ahead("oge", "0", chosen)
            after = ahead("ogt", lines.let(f"add i64 {chosen}, 1"), w.D)
            near = lines.let(f"fcmp olt float {lines.let(f'fadd float {before}, {after}')}, {top}")
            number = lines.let(f"fcmp ord float {score}, {score}")
            found = lines.let(f"uitofp i1 {lines.let(f'and i1 {near}, {number}')} to float")
            lines.do(f"store float {found}, ptr {hit}")

        with_label(lines, w.label, n, rank, lambda: lines.do(f"store float 0.0, ptr {hit}"))

    each_row(lines, row)


def _mean(lines: Lines) -> None:
    def divide() -> None:
        at = BLOCK.read(lines)
        total = lines.let(f"uitofp i64 {at.N} to double")
        mean = lines.let(f"fdiv double {sum_float64(lines, at.hits, at.N)}, {total}")
        lines.do(f"store float {lines.let(f'fptrunc double {mean} to float')}, ptr {at.accuracy}")

    finish_status(lines, divide)
