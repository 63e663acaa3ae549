"""Bucketize: vectors of numbers beside one boundary after the other, or where there are many, by halving.

Boundaries are filled up with infinity, which lies below nothing, so that halving has one turn for each bit. Features of
BatchBucketize have boundaries of their own: each number is halved by itself, feature after feature.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from tazza.codegen.block import BlockLaunch, Constant
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import lane_count, threads_of
from tazza.codegen.loop import count_loop, each_vector, fold_loop, share, step_loop
from tazza.codegen.rows import ROWS, element, finish_status, index_at, row_at, stop_if
from tazza.engines.native import SOURCES, native
from tazza.engines.native.sparse_product import halved
from tazza.operator import Launch, Operands, OpView
from tazza.ops.math.bucketize import BATCH_BUCKETIZE, BUCKETIZE
from tazza.ops.sparse.segment import check_rows, starts_of
from tazza.tensor import DataType, TensorSpec

BLOCK = Fields("threads size count", addresses="X Y boundaries")
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
    w = BLOCK.load(lines)

    def some(i: str, mask: str | None) -> None:
        x = given.load(w.X, i, mask)

        def more(k: str, found: str) -> str:
            boundary = given.load_one(lines.let(f"getelementptr float, ptr {w.boundaries}, i64 {k}"))
            below = given.compare("olt", boundary, x)
            return whole.select(below, lines.let(f"add {whole.type} {found}, {whole.constant(1)}"), found)

        whole.store(fold_loop(whole, "0", w.count, whole.constant(0), more), w.Y, i, mask)

    each_vector(given, *share(lines, w.size, UNIT), some)


def _halve(lines: Lines, *, turns: int) -> None:
    """Find the number of boundaries below each number bit by bit, from the highest on."""
    given, whole = _vectors(lines, 1)
    w = BLOCK.load(lines)

    def some(i: str, mask: str | None) -> None:
        x, found = given.load(w.X, i, mask), whole.constant(0)
        for turn in reversed(range(turns)):
            more = lines.let(f"or {whole.type} {found}, {whole.constant(2**turn)}")
            last = lines.let(f"sub {whole.type} {more}, {whole.constant(1)}")
            places = lines.let(f"getelementptr float, ptr {w.boundaries}, {whole.type} {last}")
            boundary = lines.gather_lanes(given.type, places, 4, given.all_set)
            found = whole.select(given.compare("olt", boundary, x), more, found)
        whole.store(found, w.Y, i, mask)

    each_vector(given, *share(lines, w.size, UNIT), some)


# -- features ----------------------------------------------------------------------------------------------------------

FEATURES_BLOCK = Fields("K B", addresses="indices lengths boundaries X Y", after=ROWS)
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
    w = FEATURES_BLOCK.load(lines)

    def look(k: str, carried: Sequence[str]) -> list[str]:
        length = index_at(lines, w.lengths, k, 32)
        stop_if(lines, lines.let(f"icmp uge i64 {index_at(lines, w.indices, k, 32)}, {w.D}"))  # -1 is too large
        stop_if(lines, lines.let(f"icmp ugt i64 {length}, {lines.let(f'sub i64 {w.B}, {carried[0]}')}"))
        return [lines.let(f"add i64 {carried[0]}, {length}")]

    _, (end,) = step_loop(lines, "i64", ("0", w.K, 1), ["0"], look)
    stop_if(lines, lines.let(f"icmp ne i64 {end}, {w.B}"))
    first, last = share(lines, w.N)

    def feature(k: str, carried: Sequence[str]) -> list[str]:
        length, column = index_at(lines, w.lengths, k, 32), index_at(lines, w.indices, k, 32)
        own = element(lines, w.boundaries, carried[0])

        def row(n: str) -> None:
            x = lines.let(f"load float, ptr {element(lines, row_at(lines, w.X, n, w.D), column)}")

            def reached(i: str) -> str:
                bound = lines.let(f"load float, ptr {element(lines, own, i)}")
                return lines.let(f"zext i1 {lines.let(f'fcmp uge float {bound}, {x}')} to i64")

            found = halved(lines, length, "1", reached)
            number = lines.let(f"fcmp ord float {x}, {x}")
            below = lines.let(f"select i1 {number}, i64 {found}, i64 {length}")
            at = element(lines, element(lines, w.Y, lines.let(f"mul i64 {n}, {w.K}"), "i32"), k, "i32")
            lines.do(f"store i32 {lines.let(f'trunc i64 {below} to i32')}, ptr {at}")

        count_loop(lines, first, last, row)
        return [lines.let(f"add i64 {carried[0]}, {length}")]

    step_loop(lines, "i64", ("0", w.K, 1), ["0"], feature)
