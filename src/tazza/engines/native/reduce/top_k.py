"""TopK: one pass over each row, which keeps the best so far in order, where they will stand in the outputs.

An element that is not above the last of k costs one comparison. Rows that rise from end to end cost k moves an element,
so that many of them are left to sorting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from tazza.codegen.block import BlockLaunch, Slot, accepts_rows
from tazza.codegen.emit import Lines
from tazza.codegen.kernel import threads_for
from tazza.codegen.loop import count_loop
from tazza.codegen.rows import FIRST, D, each_row, element, when
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.engines.native.sparse_product import carry_loop
from tazza.operator import Launch, OpView, Spec, Unsupported, launcher
from tazza.ops.reduce.top_k import TOP_K, top_axis
from tazza.runtime.threads import thread_count
from tazza.tensor import TensorSpec

MOST = 256
"""Larger k are left to sorting, which knows no bad order."""
K, INNER, X, V, P, F = range(FIRST, FIRST + 6)
"""Words behind N rows, their D elements and the status; neighbours of a row lie INNER elements apart."""


@dataclass(frozen=True, slots=True)
class _Row:
    """One row of X, and its part of the outputs."""

    lines: Lines
    x: str
    v: str
    p: str
    f: str | None
    step: str

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


def write_top_k(lines: Lines, *, flat: bool) -> None:
    """Write V, P and, with `flat`, F."""
    n, k, inner = (lines.load_word("%block", word) for word in (D, K, INNER))
    pointers = {word: lines.load_pointer("%block", word) for word in (X, V, P, *([F] if flat else []))}

    def row(r: str) -> None:
        outer, rest = lines.let(f"udiv i64 {r}, {inner}"), lines.let(f"urem i64 {r}, {inner}")

        def begin(count: str) -> str:
            part = lines.let(f"mul i64 {count}, {inner}")
            return lines.let(f"add i64 {lines.let(f'mul i64 {outer}, {part}')}, {rest}")

        first, start = begin(n), begin(k)
        one = _Row(
            lines,
            element(lines, pointers[X], first),
            element(lines, pointers[V], start),
            element(lines, pointers[P], start, "i64"),
            element(lines, pointers[F], start, "i64") if flat else None,
            inner,
        )
        _select(one, n, k)
        if one.f is not None:
            count_loop(lines, "0", k, lambda i: _flat(one, i, first))

    each_row(lines, row)


def _select(row: _Row, n: str, k: str) -> None:
    """Write the best of a row, NaN behind numbers, then what is missing."""
    lines = row.lines
    last = lines.let(f"sub i64 {k}, 1")

    def number(j: str, carried: Sequence[str]) -> Sequence[str]:
        (count,) = carried
        x = row.read(row.x, j, "float")
        room = lines.let(f"icmp slt i64 {count}, {k}")
        worst = row.read(row.v, last, "float")  # once there is no room
        above = lines.let(f"fcmp ogt float {x}, {worst}")
        fits = lines.let(f"select i1 {room}, i1 {lines.let(f'fcmp ord float {x}, {x}')}, i1 {above}")
        place = lines.let(f"select i1 {room}, i64 {count}, i64 {last}")
        when(lines, fits, lambda: _insert(row, place, x, j))
        added = lines.let(f"zext i1 {lines.let(f'and i1 {fits}, {room}')} to i64")
        return (lines.let(f"add i64 {count}, {added}"),)

    def nan(j: str, carried: Sequence[str]) -> Sequence[str]:
        (count,) = carried
        x = row.read(row.x, j, "float")
        room = lines.let(f"icmp slt i64 {count}, {k}")
        fits = lines.let(f"and i1 {room}, {lines.let(f'fcmp uno float {x}, {x}')}")
        when(lines, fits, lambda: row.put(count, x, j))
        return (lines.let(f"add i64 {count}, {lines.let(f'zext i1 {fits} to i64')}"),)

    count_loop(lines, "0", k, lambda i: row.put(i, "0.0", "-1"))
    _, (count,) = carry_loop(lines, "i64", ("0", n, 1), ["0"], number)
    limit = lines.let(f"select i1 {lines.let(f'icmp slt i64 {count}, {k}')}, i64 {n}, i64 0")
    carry_loop(lines, "i64", ("0", limit, 1), [count], nan)


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


@launcher(TOP_K, engine="native", accepts=accepts_rows)
def prepare_top_k(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
) -> Launch | Unsupported:
    """Compile TopK."""
    del context
    shape = cast("TensorSpec", inputs[0]).shape
    axis = top_axis(op, len(shape))
    n, k = shape[axis], cast("TensorSpec", outputs[0]).shape[axis]
    if k > MOST:
        return Unsupported(f"k is {k}, up to {MOST} are kept in order")
    inner, flat = math.prod(shape[axis + 1 :]), op.has_output("F")
    rows = math.prod(shape[:axis]) * inner
    write: Callable[[Lines], None] = lambda lines: write_top_k(lines, flat=flat)  # noqa: E731 -- of one kind
    address = SOURCES.compiled(f"top k{', flat' if flat else ''}", write)
    threads = min(threads_for(thread_count(), rows * n, 10, 4), max(rows, 1))
    slots = (Slot("X"), Slot("V"), Slot("P"), *((Slot("F"),) if flat else ()))
    return BlockLaunch(address, (threads, rows, n, 0, k, inner, *slots))
