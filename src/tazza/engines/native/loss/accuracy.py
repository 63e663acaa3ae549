"""Accuracy: for each row, how many scores rank before that of the label."""

from __future__ import annotations

from tazza.codegen.block import BlockLaunch, Scratch
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import lane_sums, lanes_of
from tazza.codegen.rows import ROWS, each_row, finish_status, sum_float64, with_label
from tazza.codegen.term import Lines, Number, Term
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
    v, w = lanes_of(lines), BLOCK.loaded(lines)
    top = w.top.to("float")

    def row(n: Term) -> None:
        x, hit = w.X.at(n * w.D), w.hits.at(n)

        def rank(chosen: Term) -> None:
            score = x[chosen]
            scores = v.full(score)

            def ahead(predicate: str, begin: Number, end: Term) -> Term:
                """Count scores that are above; of equal ones those before the label count too."""

                def counted(i: Term, mask: Term | None) -> Term:
                    found = v.load(x, i, mask).compare(predicate, scores).within(mask)
                    return found.choose(v.constant(1.0), 0.0)

                return lane_sums(v, begin, end, counted).sum()

            before = ahead("oge", 0, chosen)
            after = ahead("ogt", chosen + 1, w.D)
            near = before + after < top
            hit.store((near & score.is_number()).to_unsigned("float"))

        with_label(lines, w.label, n, rank, lambda: hit.store(0.0))

    each_row(lines, row)


def _mean(lines: Lines) -> None:
    def divide() -> None:
        at = BLOCK.lazily(lines)
        total = at.N.to_unsigned("double")
        mean = (sum_float64(lines, at.hits, at.N) / total).to("float")
        at.accuracy.store(mean)

    finish_status(lines, divide)
