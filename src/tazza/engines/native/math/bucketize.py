"""Bucketize: vectors of numbers beside one boundary after the other, or where there are many, by halving.

Boundaries are filled up with infinity, which lies below nothing, so that halving has one turn for each bit. Features of
BatchBucketize have boundaries of their own: each number is halved by itself, feature after feature.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tazza.codegen.block import BlockLaunch, Constant
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import lane_count, threads_of
from tazza.codegen.loop import count_loop, each_vector, fold_loop, share
from tazza.codegen.rows import ROWS, finish_status, stop_if
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import Vector
from tazza.engines.native import SOURCES, native
from tazza.engines.native.sparse_product import halved
from tazza.operator import Launch, Operands, OpView
from tazza.ops.math.bucketize import BATCH_BUCKETIZE, BUCKETIZE
from tazza.ops.sparse.segment import check_rows, starts_of
from tazza.tensor import DataType, TensorSpec

BLOCK = Fields("threads size count", addresses="X Y:i32 boundaries")
FEW, WIDE, UNIT = 256, 4, 64
"""Boundaries that are looked at one by one, and registers of numbers side by side."""
LOOK_FLOPS, HALVE_FLOPS = 0.3, 5
"""Of a number, for each boundary, and for each turn."""


@native(BUCKETIZE, batch_invariant=True)
def prepare_bucketize(op: OpView, X: TensorSpec) -> Launch:
    """Compile the search for so many boundaries."""
    boundaries = np.array(op.boundaries, np.float32)
    few = len(boundaries) <= FEW
    turns = len(boundaries).bit_length()
    if not few:
        boundaries = np.pad(boundaries, (0, 2**turns - len(boundaries)), constant_values=np.inf)
    flops = LOOK_FLOPS * len(boundaries) if few else HALVE_FLOPS * turns
    words = BLOCK.words(
        **{"threads": threads_of(X.size, flops, 8), "size": X.size},
        **{"count": len(boundaries), "boundaries": Constant(boundaries.tobytes())},
    )
    told = "few boundaries" if few else f"boundaries of {turns} bits"
    write = _look if few else partial(_halve, turns=turns)
    return BlockLaunch(SOURCES.compiled(told, write), words)


def _vectors(lines: Lines, registers: int) -> tuple[Vector, Vector]:
    count = registers * lane_count()
    return Vector(lines, count, DataType.FLOAT), Vector(lines, count, DataType.INT32)


def _look(lines: Lines) -> None:
    """Count the boundaries below each number."""
    given, whole = _vectors(lines, WIDE)
    w = BLOCK.loaded(lines)

    def some(i: Term, mask: Term | None) -> None:
        x = given.load(w.X, i, mask)

        def more(k: Term, found: Term) -> Term:
            return (given.load_one(w.boundaries.at(k)) < x).choose(found + 1, found)

        whole.store(fold_loop(0, w.count, whole.constant(0), more), w.Y, i, mask)

    each_vector(given, *share(lines, w.size, UNIT), some)


def _halve(lines: Lines, *, turns: int) -> None:
    """Find the number of boundaries below each number bit by bit, from the highest on."""
    given, whole = _vectors(lines, 1)
    w = BLOCK.loaded(lines)

    def some(i: Term, mask: Term | None) -> None:
        x, found = given.load(w.X, i, mask), whole.constant(0)
        for turn in reversed(range(turns)):
            more = found | 2**turn
            boundary = w.boundaries.at(more - 1).gather_lanes(given.type, 4, given.all_set)
            found = (boundary < x).choose(more, found)
        whole.store(found, w.Y, i, mask)

    each_vector(given, *share(lines, w.size, UNIT), some)


# -- features ----------------------------------------------------------------------------------------------------------

FEATURES_BLOCK = Fields("K B", addresses="indices:i32 lengths:i32 boundaries X Y:i32", after=ROWS)
"""K features of X have columns of Y, and B boundaries in all."""


@native(BATCH_BUCKETIZE)
def prepare_batch_bucketize(op: OpView, X: TensorSpec, indices: TensorSpec, boundaries: TensorSpec) -> Launch:
    """Compile the search of each feature."""
    rows, columns = X.shape
    features, bounds = indices.size, boundaries.size

    def check(operands: Operands) -> None:
        check_rows(op, operands["indices"].array, columns, "indices")
        starts_of(op, "lengths", operands["lengths"].array, bounds, "boundaries")

    turns = (bounds // max(features, 1)).bit_length()
    threads = threads_of(rows * features, HALVE_FLOPS * turns, 8, rows)
    words = FEATURES_BLOCK.words(threads=threads, N=rows, D=columns, K=features, B=bounds)
    return BlockLaunch(SOURCES.compiled("buckets of features", _features, finish_status), words, check=check)


def _features(lines: Lines) -> None:
    """Look at indices and lengths first, then write the columns of Y for the rows of this thread."""
    w, none = FEATURES_BLOCK.loaded(lines), lines.number(0)

    def look(k: Term, before: Term) -> Term:
        length = w.lengths[k].to("i64")
        stop_if(w.indices[k].to("i64").outside(w.D))  # -1 is too large
        stop_if(length.compare("ugt", w.B - before))
        return before + length

    stop_if(fold_loop(0, w.K, none, look).differs(w.B))
    first, last = share(lines, w.N)

    def feature(k: Term, before: Term) -> Term:
        length, column = w.lengths[k].to("i64"), w.indices[k].to("i64")
        own = w.boundaries.at(before)

        def row(n: Term) -> None:
            x = w.X.at(n * w.D)[column]
            found = halved(lines, length, 1, lambda i: own[i].compare("uge", x).to_unsigned("i64"))
            below = x.is_number().choose(found, length)
            w.Y.at(n * w.K).at(k).store(below.to("i32"))

        count_loop(lines, first, last, row)
        return before + length

    fold_loop(0, w.K, none, feature)
