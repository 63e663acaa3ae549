"""TopK and its gradient. One pass over each row keeps the best so far in order, where they will stand in the outputs.

An element that is not above the last of k costs one comparison; where rows lie along the lanes, a whole vector of them
does. Rows that rise from end to end cost k moves an element, so that many of them are left to sorting.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

from tazza.codegen.block import BlockLaunch, Slot
from tazza.codegen.denormal import with_denormals
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import Terms, count_loop, each_vector, lanes_of, step_loop, when, while_loop
from tazza.codegen.rows import ROWS, each_row, finish_status, report
from tazza.codegen.term import Lines, Number, Term
from tazza.data_class import dataclass
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, Operands, OpView, Unsupported
from tazza.ops.reduce.top_k import TOP_K, TOP_K_GRADIENT, check_places, top_axis
from tazza.tensor import TensorSpec

MOST = 256
"""Larger k are left to sorting, which knows no bad order."""
HEAD = Fields("k inner", after=ROWS)
"""N rows of D elements; neighbours of a row lie `inner` elements apart."""
BLOCK = Fields(addresses="X V P:i64 F:i64", after=HEAD)
GRADIENT_BLOCK = Fields(addresses="dV P:i64 dX", after=HEAD)


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of X, its part of the outputs, and where is written how many of these there are so far."""

    lines: Lines
    x: Term
    v: Term
    p: Term
    f: Term | None
    step: Term
    taken: Term

    def at(self, pointer: Term, i: Term) -> Term:
        """Return the address of element i."""
        return pointer.at(i * self.step)

    def put(self, i: Term, value: Number, place: Number) -> None:
        """Write value and place number i."""
        self.at(self.v, i).store(value)
        self.at(self.p, i).store(place)


def write_top_k(lines: Lines, *, flat: bool, dense: bool) -> None:
    """Write V, P and, with `flat`, F; rows are `dense` where neighbours lie side by side."""
    at = BLOCK.lazily(lines)
    n, k, inner, X, V, P, F = at.D, at.k, at.inner, at.X, at.V, at.P, at.F
    taken = lines.room("i64")

    def row(r: Term) -> None:
        outer, rest = r // inner, r % inner
        first, start = (outer * (count * inner) + rest for count in (n, k))
        one = _Row(lines, X.at(first), V.at(start), P.at(start), F.at(start) if flat else None, inner, taken)
        _select(one, n, k, dense=dense)
        if one.f is not None:
            count_loop(lines, 0, k, lambda i: _flat(one, i, first))

    with_denormals(lines, lambda: each_row(lines, row))


def _select(row: _Row, n: Term, k: Term, *, dense: bool) -> None:
    """Write the best of a row, NaN behind numbers, then what is missing."""
    lines = row.lines
    last = k - 1
    row.taken.store(0)

    def room_for() -> tuple[Term, Term]:
        """Return how many are taken, and whether there is room for more."""
        count = row.taken.load()
        return count, count < k

    def take(count: Term) -> None:
        row.taken.store(count + 1)

    def number(j: Term) -> None:
        x = row.at(row.x, j).load()
        count, room = room_for()
        above = x > row.at(row.v, last).load()  # once there is no room
        fits = room.choose(x.is_number(), above)
        place = room.choose(count, last)

        def put() -> None:
            _insert(row, place, x, j)
            when(room, lambda: take(count))

        when(fits, put)

    def nan(j: Term) -> None:
        x = row.at(row.x, j).load()
        count, room = room_for()

        def put() -> None:
            row.put(count, x, j)
            take(count)

        when(room & x.is_nan(), put)

    count_loop(lines, 0, k, lambda i: row.put(i, 0.0, -1))
    if dense:
        _candidates(row, n, last, room_for, number)
    else:
        count_loop(lines, 0, n, number)
    _, room = room_for()
    count_loop(lines, 0, room.choose(n, 0), nan)


def _candidates(
    row: _Row, n: Term, last: Term, room_for: Callable[[], tuple[Term, Term]], number: Callable[[Term], None]
) -> None:
    """Run `number(j)` for the places of a row whose elements are above the last of k; for all while there is room."""
    v = lanes_of(row.lines)

    def some(i: Term, mask: Term | None) -> None:
        _, room = room_for()
        worst = v.full(room.choose(-math.inf, row.at(row.v, last).load()))
        fits = v.load(row.x, i, mask) > worst
        found = room.choose(v.all_set, fits).within(mask).bitcast(f"i{v.count}")

        def one(left: Terms) -> Terms:
            number(i + left[0].trailing_zeros().to_unsigned("i64"))
            return [left[0] & (left[0] - 1)]

        while_loop(row.lines, [found], lambda left: left[0].differs(0), one)

    each_vector(v, 0, n, some)


def _insert(row: _Row, place: Term, x: Term, j: Term) -> None:
    """Move what is below x one place on, from `place` upwards, and put x there; equal ones stay before it."""
    lines = row.lines
    test, look, move, done = (lines.fresh(stem) for stem in ("place", "look", "move", "there"))
    at, before = (Term(lines, "i64", f"%{lines.fresh(stem)}") for stem in ("at", "before"))
    start = lines.block
    lines.do(f"br label %{test}")
    lines.label(test)
    lines.do(f"{at} = phi i64 [ {place}, %{start} ], [ {before}, %{move} ]")
    lines.do(f"{before} = sub i64 {at}, 1")
    lines.do(f"br i1 {at > 0}, label %{look}, label %{done}")
    lines.label(look)
    above = row.at(row.v, before).load()
    lines.do(f"br i1 {above < x}, label %{move}, label %{done}")
    lines.label(move)
    row.put(at, above, row.at(row.p, before).load())
    lines.do(f"br label %{test}")
    lines.label(done)
    row.put(at, x, j)


def _flat(row: _Row, i: Term, first: Term) -> None:
    """Write place i in all of X: that of the row's first element, and so many steps; -1 where there is none."""
    assert row.f is not None, "it is wanted"
    p = row.at(row.p, i).load()
    number = first + p * row.step
    number = (p >= 0).choose(number, -1)
    row.at(row.f, i).store(number)


@native(TOP_K)
def prepare_top_k(op: OpView, X: TensorSpec, V: TensorSpec) -> Launch:
    """Compile TopK."""
    shape = X.shape
    axis = top_axis(op, len(shape))
    n, k = shape[axis], V.shape[axis]
    if k > MOST:
        raise Unsupported(f"k is {k}, up to {MOST} are kept in order")
    inner, flat = math.prod(shape[axis + 1 :]), op.has_output("F")
    rows = math.prod(shape[:axis]) * inner
    write = partial(write_top_k, flat=flat, dense=inner == 1)
    address = SOURCES.compiled(f"top k{', flat' if flat else ''}{', dense' if inner == 1 else ''}", write)
    threads = min(threads_of(rows * n, 10, 4), max(rows, 1))
    F = Slot("F") if flat else 0
    return BlockLaunch(address, BLOCK.words(threads=threads, N=rows, D=n, k=k, inner=inner, F=F))


# -- the gradient ------------------------------------------------------------------------------------------------------


def write_top_k_gradient(lines: Lines) -> None:
    """Write zeros, then add what belongs to the places of each row, up to one of -1; threads share what is outside."""
    v, words = lanes_of(lines), GRADIENT_BLOCK.lazily(lines)
    n, k, inner, dV, places, dX = words.D, words.k, words.inner, words.dV, words.P, words.dX
    size, taken = (one * inner for one in (n, k))

    def outer(a: Term) -> None:
        dx, start = dX.at(a * size), a * taken
        dv, place = dV.at(start), places.at(start)

        def row(b: Term) -> None:
            def one(i: Term, going: Terms) -> Terms:
                at = i * inner + b
                p = place[at]
                on = going[0] & (p >= 0)

                def add() -> None:
                    dx[p * inner + b] += dv[at]

                when(p >= n, lambda: report(lines, a), lambda: when(on, add))
                return [on]

            step_loop(lines, (0, k, 1), [lines.number(True, "i1")], one, "")

        each_vector(v, 0, size, lambda i, mask: v.store(v.constant(0.0), dx, i, mask))
        count_loop(lines, 0, inner, row)

    each_row(lines, outer)


@native(TOP_K_GRADIENT)
def prepare_top_k_gradient(op: OpView, dV: TensorSpec, dX: TensorSpec) -> Launch:
    """Compile the zeros, and the sums."""
    axis = top_axis(op, len(dX.shape))
    before, n, inner = math.prod(dX.shape[:axis]), dX.shape[axis], math.prod(dX.shape[axis + 1 :])
    threads = threads_of(dX.size, 1, 4, before)

    def check(operands: Operands) -> None:
        check_places(op, operands["P"].array, n, axis)

    words = GRADIENT_BLOCK.words(threads=threads, N=before, D=n, k=dV.shape[axis], inner=inner)
    address = SOURCES.compiled("top k gradient", write_top_k_gradient, finish_status)
    return BlockLaunch(address, words, check=check)
