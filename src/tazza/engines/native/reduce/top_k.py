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
from tazza.codegen.emit import Lines
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import Values, count_loop, each_vector, lanes_of, step_loop, while_loop
from tazza.codegen.rows import ROWS, each_row, element, finish_status, report, when
from tazza.data_class import dataclass
from tazza.engines.native import SOURCES, native
from tazza.operator import Launch, Operands, OpView, Unsupported
from tazza.ops.reduce.top_k import TOP_K, TOP_K_GRADIENT, check_places, top_axis
from tazza.tensor import TensorSpec

MOST = 256
"""Larger k are left to sorting, which knows no bad order."""
MINUS_INFINITY = "0xFFF0000000000000"
HEAD = Fields("k inner", after=ROWS)
"""N rows of D elements; neighbours of a row lie `inner` elements apart."""
BLOCK, GRADIENT_BLOCK = Fields(addresses="X V P F", after=HEAD), Fields(addresses="dV P dX", after=HEAD)


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of X, its part of the outputs, and where is written how many of these there are so far."""

    lines: Lines
    x: str
    v: str
    p: str
    f: str | None
    step: str
    taken: str

    def at(self, pointer: str, i: str, kind: str) -> str:
        """Return the address of element i."""
        return element(self.lines, pointer, self.lines.let(f"mul i64 {i}, {self.step}"), kind)

    def read(self, pointer: str, i: str, kind: str) -> str:
        """Return element i."""
        return self.lines.let(f"load {kind}, ptr {self.at(pointer, i, kind)}")

    def put(self, i: str, value: str, place: str) -> None:
        """Write value and place number i."""
        self.lines.do(f"store float {value}, ptr {self.at(self.v, i, 'float')}")
        self.lines.do(f"store i64 {place}, ptr {self.at(self.p, i, 'i64')}")


def write_top_k(lines: Lines, *, flat: bool, dense: bool) -> None:
    """Write V, P and, with `flat`, F; rows are `dense` where neighbours lie side by side."""
    at = BLOCK.read(lines)
    n, k, inner, X, V, P, F = at.D, at.k, at.inner, at.X, at.V, at.P, at.F
    taken = lines.let("alloca i64")

    def row(r: str) -> None:
        outer, rest = lines.let(f"udiv i64 {r}, {inner}"), lines.let(f"urem i64 {r}, {inner}")

        def begin(count: str) -> str:
            part = lines.let(f"mul i64 {count}, {inner}")
            return lines.let(f"add i64 {lines.let(f'mul i64 {outer}, {part}')}, {rest}")

        first, start = begin(n), begin(k)
        one = _Row(
            lines,
            element(lines, X, first),
            element(lines, V, start),
            element(lines, P, start, "i64"),
            element(lines, F, start, "i64") if flat else None,
            inner,
            taken,
        )
        _select(one, n, k, dense=dense)
        if one.f is not None:
            count_loop(lines, "0", k, lambda i: _flat(one, i, first))

    with_denormals(lines, lambda: each_row(lines, row))


def _select(row: _Row, n: str, k: str, *, dense: bool) -> None:
    """Write the best of a row, NaN behind numbers, then what is missing."""
    lines = row.lines
    last = lines.let(f"sub i64 {k}, 1")
    lines.do(f"store i64 0, ptr {row.taken}")

    def room_for() -> tuple[str, str]:
        """Return how many are taken, and whether there is room for more."""
        count = lines.let(f"load i64, ptr {row.taken}")
        return count, lines.let(f"icmp slt i64 {count}, {k}")

    def take(count: str) -> None:
        lines.do(f"store i64 {lines.let(f'add i64 {count}, 1')}, ptr {row.taken}")

    def number(j: str) -> None:
        x = row.read(row.x, j, "float")
        count, room = room_for()
        worst = row.read(row.v, last, "float")  # once there is no room
        above = lines.let(f"fcmp ogt float {x}, {worst}")
        fits = lines.let(f"select i1 {room}, i1 {lines.let(f'fcmp ord float {x}, {x}')}, i1 {above}")
        place = lines.let(f"select i1 {room}, i64 {count}, i64 {last}")

        def put() -> None:
            _insert(row, place, x, j)
            when(lines, room, lambda: take(count))

        when(lines, fits, put)

    def nan(j: str) -> None:
        x = row.read(row.x, j, "float")
        count, room = room_for()

        def put() -> None:
            row.put(count, x, j)
            take(count)

        when(lines, lines.let(f"and i1 {room}, {lines.let(f'fcmp uno float {x}, {x}')}"), put)

    count_loop(lines, "0", k, lambda i: row.put(i, "0.0", "-1"))
    if dense:
        _candidates(row, n, last, room_for, number)
    else:
        count_loop(lines, "0", n, number)
    _, room = room_for()
    count_loop(lines, "0", lines.let(f"select i1 {room}, i64 {n}, i64 0"), nan)


def _candidates(
    row: _Row, n: str, last: str, room_for: Callable[[], tuple[str, str]], number: Callable[[str], None]
) -> None:
    """Run `number(j)` for the places of a row whose elements are above the last of k; for all while there is room."""
    lines, v = row.lines, lanes_of(row.lines)
    bits = f"i{v.count}"
    lines.declare(f"{bits} @llvm.cttz.{bits}({bits}, i1)")

    def some(i: str, mask: str | None) -> None:
        _, room = room_for()
        worst = v.splat(lines.let(f"select i1 {room}, float {MINUS_INFINITY}, float {row.read(row.v, last, 'float')}"))
        fits = v.compare("ogt", v.load(row.x, i, mask), worst)
        everything = lines.let(f"select i1 {room}, {v.mask} {v.all_set}, {v.mask} {fits}")
        chosen = everything if mask is None else lines.let(f"and {v.mask} {everything}, {mask}")
        found = lines.let(f"bitcast {v.mask} {chosen} to {bits}")

        def one(left: Values) -> Values:
            lane = lines.let(f"call {bits} @llvm.cttz.{bits}({bits} {left[0]}, i1 true)")
            number(lines.let(f"add i64 {i}, {lines.let(f'zext {bits} {lane} to i64')}"))
            return [lines.let(f"and {bits} {left[0]}, {lines.let(f'sub {bits} {left[0]}, 1')}")]

        while_loop(lines, [(bits, found)], lambda left: lines.let(f"icmp ne {bits} {left[0]}, 0"), one)

    each_vector(v, "0", n, some)


def _insert(row: _Row, place: str, x: str, j: str) -> None:
    """Move what is below x one place on, from `place` upwards, and put x there; equal ones stay before it."""
    lines = row.lines
    test, look, move, done = (lines.fresh(stem) for stem in ("place", "look", "move", "there"))
    at, before, start = f"%{lines.fresh('at')}", f"%{lines.fresh('before')}", lines.block
    lines.do(f"br label %{test}")
    lines.label(test)
    lines.do(f"{at} = phi i64 [ {place}, %{start} ], [ {before}, %{move} ]")
    lines.do(f"{before} = sub i64 {at}, 1")
    lines.do(f"br i1 {lines.let(f'icmp sgt i64 {at}, 0')}, label %{look}, label %{done}")
    lines.label(look)
    above = row.read(row.v, before, "float")
    lines.do(f"br i1 {lines.let(f'fcmp olt float {above}, {x}')}, label %{move}, label %{done}")
    lines.label(move)
    row.put(at, above, row.read(row.p, before, "i64"))
    lines.do(f"br label %{test}")
    lines.label(done)
    row.put(at, x, j)


def _flat(row: _Row, i: str, first: str) -> None:
    """Write place i in all of X: that of the row's first element, and so many steps; -1 where there is none."""
    lines, p = row.lines, row.read(row.p, i, "i64")
    number = lines.let(f"add i64 {first}, {lines.let(f'mul i64 {p}, {row.step}')}")
    there = lines.let(f"icmp sge i64 {p}, 0")
    assert row.f is not None, "it is wanted"
    lines.do(f"store i64 {lines.let(f'select i1 {there}, i64 {number}, i64 -1')}, ptr {row.at(row.f, i, 'i64')}")


@native(TOP_K)
def prepare_top_k(op: OpView, X: TensorSpec, V: TensorSpec) -> Launch | Unsupported:
    """Compile TopK."""
    shape = X.shape
    axis = top_axis(op, len(shape))
    n, k = shape[axis], V.shape[axis]
    if k > MOST:
        return Unsupported(f"k is {k}, up to {MOST} are kept in order")
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
    v, words = lanes_of(lines), GRADIENT_BLOCK.read(lines)
    n, k, inner, dV, places, dX = words.D, words.k, words.inner, words.dV, words.P, words.dX
    size, taken = (lines.let(f"mul i64 {one}, {inner}") for one in (n, k))

    def outer(a: str) -> None:
        dx = element(lines, dX, lines.let(f"mul i64 {a}, {size}"))
        start = lines.let(f"mul i64 {a}, {taken}")
        dv, place = element(lines, dV, start), element(lines, places, start, "i64")

        def row(b: str) -> None:
            def one(i: str, going: Values) -> Values:
                at = lines.let(f"add i64 {lines.let(f'mul i64 {i}, {inner}')}, {b}")
                p = lines.let(f"load i64, ptr {element(lines, place, at, 'i64')}")
                there = lines.let(f"icmp sge i64 {p}, 0")
                on = lines.let(f"and i1 {going[0]}, {there}")
                beyond = lines.let(f"icmp sge i64 {p}, {n}")

                def add() -> None:
                    to = element(lines, dx, lines.let(f"add i64 {lines.let(f'mul i64 {p}, {inner}')}, {b}"))
                    given = lines.let(f"load float, ptr {element(lines, dv, at)}")
                    before = lines.let(f"load float, ptr {to}")
                    lines.do(f"store float {lines.let(f'fadd float {before}, {given}')}, ptr {to}")

                when(lines, beyond, lambda: report(lines, a), lambda: when(lines, on, add))
                return [on]

            step_loop(lines, "i1", ("0", k, 1), ["true"], one, "")

        each_vector(v, "0", size, lambda i, mask: v.store(v.constant(0.0), dx, i, mask))
        count_loop(lines, "0", inner, row)

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
