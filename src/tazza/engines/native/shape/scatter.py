"""Scatter, ScatterAssign: elements and rows in the order of indices, each target written by one thread."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tazza.codegen.block import BlockLaunch, accepts_rows, accepts_rows_but
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import lane_count, threads_of
from tazza.codegen.loop import count_loop, share, sweep, when
from tazza.codegen.rows import ROWS, ask_ahead, each_row, finish_status, rows_check, stop_if
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.vector import Vector
from tazza.engines.native import SOURCES, native
from tazza.engines.native.move import copies
from tazza.operator import Launch, OpView, Unsupported
from tazza.operator.in_place import overwritten
from tazza.ops.shape.scatter import SCATTER, SCATTER_ASSIGN
from tazza.tensor import DataType, TensorSpec

BLOCK = Fields("places some along behind", addresses="indices X updates Y", after=ROWS)
"""N = A, D = B, places = V; then the extents before, along and behind the axis that indices have."""
ASSIGN_BLOCK = Fields("places", addresses="indices rows Y", after=ROWS)
AHEAD = 8
"""How many indices before its turn a row is asked for."""


def write_scatter(lines: Lines, bits: int, itemsize: int, *, last: bool) -> None:
    """Write Y = X, but Y[a, index of (a, v, b), b] = updates[a, v, b] for the a, v and b of indices; `last`: b is 0.

    In place all indices are looked at first, so that nothing is written where one is wrong; else those of each a.
    """
    w, copy, none, kind = BLOCK.loaded(lines), copies(lines, itemsize), lines.number(0), f"i{8 * itemsize}"
    X, Y, indices = w.X.of(kind), w.Y.of(kind), w.indices.of(f"i{bits}")
    whole, part, apart = w.places * w.D, w.along * w.behind, X.differs(Y)

    def outer(a: Term) -> None:
        start = a * whole
        x, y = X.at(start), Y.at(start)
        when(apart, lambda: copy(y, x, none, whole))

        def scattered() -> None:
            first = a * part
            own, updates = indices.at(first), w.updates.of(kind).at(first)
            when(apart, lambda: look(lines, own, part, w.places, bits))

            def place(v: Term) -> None:
                row = v if last else v * w.behind

                def one(b: Number) -> None:
                    i = row + b
                    to = own[i].to("i64") * w.D
                    y[to + b] = updates[i]

                if last:
                    one(0)
                else:
                    count_loop(lines, 0, w.behind, one)

            count_loop(lines, 0, w.along, place)

        when(a < w.some, scattered)

    when(apart, lambda: None, lambda: look(lines, indices, w.some * part, w.places, bits))
    each_row(lines, outer)


def look(lines: Lines, indices: Term, count: Term, places: Term, bits: int) -> None:
    """Leave the work with a status where an index is that of no place; whole vectors are looked at."""
    v = Vector(lines, lane_count(bits), DataType.INT64 if bits == 64 else DataType.INT32)
    if bits == 32:  # an axis can be longer than an index can say
        places = places.compare("ule", 1 << 31).choose(places, 1 << 31)
    most, none = v.full(places), v.constant(0)

    def some(i: Term, mask: Term | None, carried: Sequence[Term]) -> Sequence[Term]:
        index = v.load(indices, i, mask)
        # -1 is too large; what is masked is 0, too large for no places
        wrong = index.outside(most).within(mask)
        return [carried[0] | wrong.to(v.scalar)]

    (found,) = sweep(v, 0, count, some, [none])
    stop_if(found.differs(0).any())


def write_assign(lines: Lines, bits: int, itemsize: int) -> None:
    """Write Y[index k] = rows[k] in the order of k; each thread has a part of the rows of Y, so that the last stays."""
    w, copy, kind = ASSIGN_BLOCK.loaded(lines), copies(lines, itemsize), f"i{8 * itemsize}"
    Y, rows, indices = w.Y.of(kind), w.rows.of(kind), w.indices.of(f"i{bits}")
    look(lines, indices, w.N, w.places, bits)
    first, behind = share(lines, w.places)

    def one(k: Term) -> None:
        ask_ahead((k, AHEAD, w.N), lambda later: [Y.at(indices[later].to("i64") * w.D)], write=True)
        place = indices[k].to("i64")
        own = (place - first).below(behind - first)
        when(own, lambda: copy(Y.at(place * w.D), rows.at(k * w.D), lines.number(0), w.D))

    count_loop(lines, 0, w.N, one)


@native(SCATTER)
def prepare_scatter(op: OpView, X: TensorSpec, indices: TensorSpec) -> Launch:
    """Compile the copy and what is put into it."""
    axis = op.axis % len(X.shape)
    (A, V, B), (a, v, b) = (_parted(shape, axis) for shape in (X.shape, indices.shape))
    bits, itemsize = 8 * indices.dtype.itemsize, X.dtype.itemsize
    address = SOURCES.compiled(
        f"scatter {bits} {itemsize} {b == 1}",
        lambda lines: write_scatter(lines, bits, itemsize, last=b == 1),
        finish_status,
    )
    threads = threads_of(A * V * B, 4, 4.0 * itemsize, A)
    words = BLOCK.words(threads=threads, N=A, D=B, places=V, some=a, along=v, behind=b)
    return BlockLaunch(address, words, check=rows_check(op, "indices", V))


@native(SCATTER_ASSIGN, accepts=accepts_rows_but(overwritten(SCATTER_ASSIGN)))
def prepare_scatter_assign(op: OpView, X: TensorSpec, indices: TensorSpec) -> Launch:
    """Compile the rows that are put into X."""
    if not accepts_rows("X", X):
        raise Unsupported("the rows of X do not lie one behind the other")
    bits, itemsize, width = 8 * indices.dtype.itemsize, X.dtype.itemsize, math.prod(X.shape[1:])
    address = SOURCES.compiled(
        f"scatter assign {bits} {itemsize}", lambda lines: write_assign(lines, bits, itemsize), finish_status
    )
    threads = threads_of(indices.size * width, 0, 2 * itemsize, X.shape[0])
    words = ASSIGN_BLOCK.words(threads=threads, N=indices.size, D=width, places=X.shape[0])
    return BlockLaunch(address, words, check=rows_check(op, "indices", X.shape[0]))


def _parted(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return how many elements stand before, along and behind an axis."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
