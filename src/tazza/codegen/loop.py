"""Loops of compiled kernels: sweeps over a row, and the split among threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from tazza.codegen.emit import KINDS as KINDS
from tazza.codegen.emit import Lines, Vector
from tazza.codegen.kernel import lane_count
from tazza.tensor import DataType


def lanes_of(lines: Lines, dtype: DataType = DataType.FLOAT) -> Vector:
    """Return vectors of floats as wide as the processor's."""
    return Vector(lines, lane_count(64 if dtype is DataType.DOUBLE else 32), dtype)


Values = Sequence[str]
NOT_UNROLLED = ", !llvm.loop !1"
"""For loops of a few turns, which unrolling only makes longer."""


def while_loop(
    lines: Lines,
    starts: Sequence[tuple[str, str]],
    more: Callable[[Values], str],
    body: Callable[[Values], Values],
    hint: str = "",
) -> list[str]:
    """Run `values = body(values)` while `more(values)` holds; returns the values then.

    All other loops are written by this one. What `more` computes is there behind the loop too.

    Args:
        lines: where it is written.
        starts: type and first value of each.
        more: gives a condition; it writes no blocks.
        body: gives as many values.
        hint: metadata of the jump back.
    """
    test, inside, done = lines.fresh("test"), lines.fresh("body"), lines.fresh("done")
    before, values = lines.block, [f"%{lines.fresh('value')}" for _ in starts]
    lines.do(f"br label %{test}")
    lines.label(test)
    entry = len(lines.lines)
    lines.do(f"br i1 {more(values)}, label %{inside}, label %{done}")
    lines.label(inside)
    after = body(values)
    last = lines.block
    lines.do(f"br label %{test}{hint}")
    lines.lines[entry:entry] = [
        f"  {value} = phi {kind} [ {start}, %{before} ], [ {new}, %{last} ]"
        for value, (kind, start), new in zip(values, starts, after, strict=True)
    ]
    lines.label(done)
    return values


def step_loop(
    lines: Lines,
    kind: str,
    span: tuple[str, str, int],
    carried: Values,
    body: Callable[[str, Values], Values],
    hint: str = NOT_UNROLLED,
) -> tuple[str, list[str]]:
    """Run `carried = body(i, carried)` for i = begin, begin + step ... while i + step <= end; returns i and carried.

    `span` are begin, end and step, `kind` is the type of what is carried.
    """
    begin, end, step = span

    def more(values: Values) -> str:
        if step == 1:
            return lines.let(f"icmp slt i64 {values[0]}, {end}")
        return lines.let(f"icmp sle i64 {lines.let(f'add i64 {values[0]}, {step}')}, {end}")

    def turn(values: Values) -> Values:
        after = body(values[0], values[1:])
        return [lines.let(f"add i64 {values[0]}, {step}"), *after]

    i, *found = while_loop(lines, [("i64", begin), *((kind, one) for one in carried)], more, turn, hint)
    return i, found


def count_loop(lines: Lines, begin: str, end: str, body: Callable[[str], None]) -> None:
    """Run `body(i)` for i from begin to end."""

    def turn(i: str, values: Values) -> Values:
        body(i)
        return values

    step_loop(lines, "i64", (begin, end, 1), (), turn, "")


class Vectors(Protocol):
    """Vectors of any one type, which a loop carries along."""

    @property
    def lines(self) -> Lines:
        """Where they are written."""
        ...

    @property
    def count(self) -> int:
        """How many lanes."""
        ...

    @property
    def type(self) -> str:
        """What LLVM calls them."""
        ...


def fold_loop(v: Vectors, begin: str, end: str, start: str, body: Callable[[str, str], str]) -> str:
    """Return what `value = body(i, value)` makes of the vector `start` for i from begin to end, a few turns."""
    return carry_loop(v, begin, end, [start], lambda i, values: [body(i, values[0])])[0]


def carry_loop(v: Vectors, begin: str, end: str, starts: Values, body: Callable[[str, Values], Values]) -> list[str]:
    """Return what `values = body(i, values)` makes of the vectors `starts` for i from begin to end; not unrolled."""
    return step_loop(v.lines, v.type, (begin, end, 1), starts, body)[1]


def lanes_below(v: Vectors, count: str) -> str:
    """Return the mask of the first `count` lanes; any int64 that is not larger than 2^31."""
    numbers = f"<{', '.join(f'i32 {lane}' for lane in range(v.count))}>"
    short = v.lines.let(f"trunc i64 {count} to i32")
    kind = f"<{v.count} x i32>"
    return v.lines.let(f"icmp slt {kind} {numbers}, {v.lines.splat(kind, short)}")


Body = Callable[[str, "str | None", Values], Values]
"""body(i, mask, carried) -> carried: what to do with lanes i, i + 1 ..., all of them where the mask is None."""


def sweep(v: Vectors, begin: str, end: str, body: Body, carried: Values = ()) -> list[str]:
    """Go over [begin, end) by whole vectors and a masked rest; returns the vectors that the body carries along."""
    lines = v.lines
    i, whole = step_loop(lines, v.type, (begin, end, v.count), carried, lambda i, values: body(i, None, values), "")
    left = lines.let(f"sub i64 {end}, {i}")
    some = lines.let(f"icmp sgt i64 {left}, 0")
    return chosen(lines, some, v.type, lambda: body(i, lanes_below(v, left), whole), lambda: whole)


def each_vector(v: Vectors, begin: str, end: str, body: Callable[[str, str | None], None]) -> None:
    """Run `body(i, mask)` over [begin, end) by whole vectors, without a mask, and a masked rest."""

    def some(i: str, mask: str | None, carried: Values) -> Values:
        body(i, mask)
        return carried

    sweep(v, begin, end, some)


def lane_sums(v: Vector, begin: str, end: str, term: Callable[[str, str | None], str]) -> str:
    """Return the sums over [begin, end) of what `term(i, mask)` gives, those of each lane by themselves."""

    def add(i: str, mask: str | None, total: Values) -> Values:
        value = term(i, mask)
        return [v.add(total[0], value if mask is None else v.select(mask, value, v.constant(0.0)))]

    return sweep(v, begin, end, add, [v.constant(0.0)])[0]


def chosen(lines: Lines, condition: str, kind: str, yes: Callable[[], Values], no: Callable[[], Values]) -> list[str]:
    """Return the values of one of two bodies, which are run where the condition holds and where it does not."""
    names = lines.fresh("yes"), lines.fresh("no")
    join = lines.fresh("join")
    lines.do(f"br i1 {condition}, label %{names[0]}, label %{names[1]}")
    ends: list[tuple[str, Values]] = []
    for name, body in zip(names, (yes, no), strict=True):
        lines.label(name)
        found = body()
        ends.append((lines.block, found))
        lines.do(f"br label %{join}")
    lines.label(join)
    (here, first), (there, second) = ends
    return [lines.let(f"phi {kind} [ {a}, %{here} ], [ {b}, %{there} ]") for a, b in zip(first, second, strict=True)]


def share_one(lines: Lines, by_rows: str, rows: str, inner: str, unit: int) -> tuple[Values, Values]:
    """Return which rows and which part of each are this thread's: threads divide the rows, or where not, each row."""
    chosen = lines.let(f"icmp ne i64 {by_rows}, 0")

    def either(yes: Values, no: Values) -> Values:
        return [lines.let(f"select i1 {chosen}, i64 {a}, i64 {b}") for a, b in zip(yes, no, strict=True)]

    return either(share(lines, rows), ("0", rows)), either(("0", inner), share(lines, inner, unit))


def share(lines: Lines, total: str, unit: int = 1) -> tuple[str, str]:
    """Return begin and end of this thread's part of `total` things; borders lie at multiples of `unit`."""
    blocks = total
    if unit > 1:
        blocks = lines.let(f"udiv i64 {lines.let(f'add i64 {total}, {unit - 1}')}, {unit}")
    borders: list[str] = []
    for who in ("%who", lines.let("add i64 %who, 1")):
        border = lines.let(f"udiv i64 {lines.let(f'mul i64 {blocks}, {who}')}, %many")
        if unit > 1:
            wide = lines.let(f"mul i64 {border}, {unit}")
            border = lines.least(wide, total)
        borders.append(border)
    return borders[0], borders[1]
