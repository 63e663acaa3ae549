"""Scatter, ScatterAssign: elements and rows in the order of indices, each target written by one thread."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tazza.codegen.block import BlockLaunch, accepts_rows, accepts_rows_but
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import lane_count, threads_of
from tazza.codegen.loop import count_loop, share, sweep
from tazza.codegen.rows import (
    ROWS,
    ask_ahead,
    each_row,
    element,
    finish_status,
    index_at,
    rows_check,
    stop_if,
    when,
)
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
    w = BLOCK.load(lines)
    kind, copy = f"i{8 * itemsize}", copies(lines, itemsize)
    whole = lines.let(f"mul i64 {w.places}, {w.D}")
    part = lines.let(f"mul i64 {w.along}, {w.behind}")
    apart = lines.let(f"icmp ne ptr {w.X}, {w.Y}")

    def outer(a: str) -> None:
        start = lines.let(f"mul i64 {a}, {whole}")
        x, y = (element(lines, pointer, start, kind) for pointer in (w.X, w.Y))
        when(lines, apart, lambda: copy(y, x, "0", whole))

        def scattered() -> None:
            first = lines.let(f"mul i64 {a}, {part}")
            own = element(lines, w.indices, first, f"i{bits}")
            updates = element(lines, w.updates, first, kind)
            when(lines, apart, lambda: look(lines, own, part, w.places, bits))

            def place(v: str) -> None:
                row = v if last else lines.let(f"mul i64 {v}, {w.behind}")

                def one(b: str) -> None:
                    i = lines.let(f"add i64 {row}, {b}")
                    to = lines.let(f"mul i64 {index_at(lines, own, i, bits)}, {w.D}")
                    value = lines.let(f"load {kind}, ptr {element(lines, updates, i, kind)}")
                    lines.do(f"store {kind} {value}, ptr {element(lines, y, lines.let(f'add i64 {to}, {b}'), kind)}")

                if last:
                    one("0")
                else:
                    count_loop(lines, "0", w.behind, one)

            count_loop(lines, "0", w.along, place)

        when(lines, lines.let(f"icmp slt i64 {a}, {w.some}"), scattered)

    def look_at_all() -> None:
        look(lines, w.indices, lines.let(f"mul i64 {w.some}, {part}"), w.places, bits)

    when(lines, apart, lambda: None, look_at_all)
    each_row(lines, outer)


def look(lines: Lines, indices: str, count: str, places: str, bits: int) -> None:
    """Leave the work with a status where an index is that of no place; whole vectors are looked at."""
    v = Vector(lines, lane_count(bits), DataType.INT64 if bits == 64 else DataType.INT32)
    if bits == 32:  # an axis can be longer than an index can say
        fits = lines.let(f"icmp ule i64 {places}, {1 << 31}")
        places = lines.let(f"select i1 {fits}, i64 {places}, i64 {1 << 31}")
    most, none = v.full(places), "zeroinitializer"

    def some(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
        index = v.load(indices, i, mask)
        # -1 is too large; what is masked is 0, too large for no places
        wrong = v.both(v.compare("uge", index, most), mask)
        wide = lines.let(f"sext {v.mask} {wrong} to {v.type}")
        return (lines.let(f"or {v.type} {carried[0]}, {wide}"),)

    (found,) = sweep(v, "0", count, some, (none,))
    seen = lines.let(f"icmp ne {v.type} {found}, zeroinitializer")
    stop_if(lines, lines.any_set(v.count, seen))


def write_assign(lines: Lines, bits: int, itemsize: int) -> None:
    """Write Y[index k] = rows[k] in the order of k; each thread has a part of the rows of Y, so that the last stays."""
    w = ASSIGN_BLOCK.load(lines)
    copy, kind = copies(lines, itemsize), f"i{8 * itemsize}"
    look(lines, w.indices, w.N, w.places, bits)
    first, behind = share(lines, w.places)

    def start(pointer: str, row: str) -> str:
        return element(lines, pointer, lines.let(f"mul i64 {row}, {w.D}"), kind)

    def one(k: str) -> None:
        ask_ahead(
            lines, (k, AHEAD, w.N), lambda later: [start(w.Y, index_at(lines, w.indices, later, bits))], write=True
        )
        place = index_at(lines, w.indices, k, bits)
        near = lines.let(f"sub i64 {place}, {first}")
        own = lines.let(f"icmp ult i64 {near}, {lines.let(f'sub i64 {behind}, {first}')}")
        when(lines, own, lambda: copy(start(w.Y, place), start(w.rows, k), "0", w.D))

    count_loop(lines, "0", w.N, one)


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
def prepare_scatter_assign(op: OpView, X: TensorSpec, indices: TensorSpec) -> Launch | Unsupported:
    """Compile the rows that are put into X."""
    if not accepts_rows("X", X):
        return Unsupported("the rows of X do not lie one behind the other")
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
