"""Softmax and its gradient, row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tazza.codegen.block import BlockLaunch
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import each_vector, lanes_of, sweep
from tazza.codegen.rows import EXP_FLOPS, ROWS, each_row, softmax_row
from tazza.codegen.term import Lines, Term
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, OpView
from tazza.ops.nn.softmax import SOFTMAX, SOFTMAX_GRADIENT
from tazza.tensor import TensorSpec

BLOCK = Fields(addresses="X Y", after=ROWS)
GRADIENT_BLOCK = Fields(addresses="Y dY dX", after=ROWS)


def matrix_words(op: OpView, X: TensorSpec, flops: float = EXP_FLOPS) -> dict[str, int]:
    """Return what ROWS are for X cut at `axis`."""
    rows, columns = math.prod(X.shape[: op.axis]), math.prod(X.shape[op.axis :])
    return {"threads": threads_of(X.size, flops, 8, rows), "N": rows, "D": columns}


@native(SOFTMAX, batch_invariant=True, float32=True)
def prepare_softmax(op: OpView, X: TensorSpec) -> Launch:
    """Compile Softmax."""
    return BlockLaunch(SOURCES.compiled("softmax", _softmax), BLOCK.words(**matrix_words(op, X)))


def _softmax(lines: Lines) -> None:
    v, w = lanes_of(lines), BLOCK.loaded(lines)

    def row(n: Term) -> None:
        softmax_row(v, w.X.at(n * w.D), w.Y.at(n * w.D), w.D)

    each_row(lines, row)


@native(SOFTMAX_GRADIENT, float32=True)
def prepare_softmax_gradient(op: OpView, Y: TensorSpec) -> Launch:
    """Compile SoftmaxGradient."""
    words = GRADIENT_BLOCK.words(**matrix_words(op, Y, 4))
    return BlockLaunch(SOURCES.compiled("softmax gradient", _softmax_gradient), words)


def _softmax_gradient(lines: Lines) -> None:
    v, at = lanes_of(lines), GRADIENT_BLOCK.lazily(lines)
    pointers, width = (at.Y, at.dY, at.dX), at.D

    def row(n: Term) -> None:
        y, dy, dx = (one.at(n * width) for one in pointers)

        def products(i: Term, mask: Term | None, carried: Sequence[Term]) -> Sequence[Term]:
            return (v.load(y, i, mask).fma(v.load(dy, i, mask), carried[0]),)

        dot = v.full(sweep(v, 0, width, products, (v.constant(0.0),))[0].sum())

        def differences(i: Term, mask: Term | None) -> None:
            v.store(v.load(y, i, mask) * (v.load(dy, i, mask) - dot), dx, i, mask)

        each_vector(v, 0, width, differences)

    each_row(lines, row)
