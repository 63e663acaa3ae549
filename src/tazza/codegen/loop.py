"""Loops of compiled kernels: sweeps over a row, and the split among threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from tazza.codegen.kernel import lane_count
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.vector import Vector
from tazza.errors import DTypeError
from tazza.tensor import DataType


def lanes_of(lines: Lines, dtype: DataType = DataType.FLOAT) -> Vector:
    """Return vectors of floats as wide as the processor's."""
    return Vector(lines, lane_count(64 if dtype is DataType.DOUBLE else 32), dtype)


Terms = Sequence[Term]
Numbers = Sequence[Number]
NOT_UNROLLED = ", !llvm.loop !1"
"""For loops of a few turns, which unrolling only makes longer."""


def while_loop(
    lines: Lines,
    starts: Numbers,
    more: Callable[[list[Term]], Term],
    body: Callable[[list[Term]], Numbers],
    hint: str = "",
) -> list[Term]:
    """Run `values = body(values)` while `more(values)` holds; returns the values then.

    All other loops are written by this one. What `more` computes is there behind the loop too.

    Args:
        lines: where it is written.
        starts: the first value of each; numbers of Python are int64.
        more: gives a condition; it writes no blocks.
        body: gives as many values.
        hint: metadata of the jump back.
    """
    test, inside, done = lines.fresh("test"), lines.fresh("body"), lines.fresh("done")
    before, starts = lines.block, [one if isinstance(one, Term) else lines.number(one) for one in starts]
    values = [Term(lines, one.type, f"%{lines.fresh('value')}", one.element) for one in starts]
    lines.do(f"br label %{test}")
    lines.label(test)
    entry = len(lines.lines)
    lines.do(f"br i1 {more(values)}, label %{inside}, label %{done}")
    lines.label(inside)
    after = body(values)
    last = lines.block
    lines.do(f"br label %{test}{hint}")
    lines.lines[entry:entry] = [
        f"  {value} = phi {value.type} [ {start}, %{before} ], [ {value.operand(new)}, %{last} ]"
        for value, start, new in zip(values, starts, after, strict=True)
    ]
    lines.label(done)
    return values


def step_loop(
    lines: Lines,
    span: tuple[Number, Number, int],
    carried: Numbers,
    body: Callable[[Term, list[Term]], Numbers],
    hint: str = NOT_UNROLLED,
) -> tuple[Term, list[Term]]:
    """Run `carried = body(i, carried)` for i = begin, begin + step ... while i + step <= end; returns i and carried.

    `span` are begin, end and step.
    """
    begin, end, step = span

    def more(values: Terms) -> Term:
        return values[0] < end if step == 1 else values[0] + step <= end

    def turn(values: list[Term]) -> Numbers:
        after = body(values[0], values[1:])
        return [values[0] + step, *after]

    i, *found = while_loop(lines, [begin, *carried], more, turn, hint)
    return i, found


def count_loop(lines: Lines, begin: Number, end: Number, body: Callable[[Term], None]) -> None:
    """Run `body(i)` for i from begin to end."""

    def turn(i: Term, values: Terms) -> Terms:
        body(i)
        return values

    step_loop(lines, (begin, end, 1), (), turn, "")


def fold_loop(begin: Number, end: Number, start: Number, body: Callable[[Term, Term], Term]) -> Term:
    """Return what `value = body(i, value)` makes of `start` for i from begin to end, a few turns."""
    return carry_loop(begin, end, [start], lambda i, values: [body(i, values[0])])[0]


def carry_loop(begin: Number, end: Number, starts: Numbers, body: Callable[[Term, list[Term]], Numbers]) -> list[Term]:
    """Return what `values = body(i, values)` makes of `starts` for i from begin to end; not unrolled."""
    lines = next((one.lines for one in (end, begin, *starts) if isinstance(one, Term)), None)
    if lines is None:
        raise DTypeError("a loop from constant to constant over constants: nothing says where it is written")
    return step_loop(lines, (begin, end, 1), starts, body)[1]


def lanes_below(v: Vector, count: Number) -> Term:
    """Return the mask of the first `count` lanes; any int64 that is not larger than 2^31."""
    short = Vector(v.lines, v.count, DataType.INT32)
    return short.listed(range(v.count)) < short.full(count)


Body = Callable[[Term, "Term | None", list[Term]], Terms]
"""body(i, mask, carried) -> carried: what to do with lanes i, i + 1 ..., all of them where the mask is None."""


def sweep(v: Vector, begin: Number, end: Number, body: Body, carried: Terms = ()) -> list[Term]:
    """Go over [begin, end) by whole vectors and a masked rest; returns the vectors that the body carries along."""
    i, whole = step_loop(v.lines, (begin, end, v.count), carried, lambda i, values: body(i, None, values), "")
    left = end - i
    return chosen(left > 0, lambda: body(i, lanes_below(v, left), whole), lambda: whole)


def each_vector(v: Vector, begin: Number, end: Number, body: Callable[[Term, Term | None], None]) -> None:
    """Run `body(i, mask)` over [begin, end) by whole vectors, without a mask, and a masked rest."""

    def some(i: Term, mask: Term | None, carried: Terms) -> Terms:
        body(i, mask)
        return carried

    sweep(v, begin, end, some)


def lane_sums(v: Vector, begin: Number, end: Number, term: Callable[[Term, Term | None], Term]) -> Term:
    """Return the sums over [begin, end) of what `term(i, mask)` gives, those of each lane by themselves."""

    def add(i: Term, mask: Term | None, total: Terms) -> Terms:
        value = term(i, mask)
        return [total[0] + value.masked(mask, 0.0)]

    return sweep(v, begin, end, add, [v.constant(0.0)])[0]


def chosen(condition: Term, yes: Callable[[], Numbers], no: Callable[[], Numbers]) -> list[Term]:
    """Return the values of one of two bodies, which are run where the condition holds and where it does not."""
    lines = condition.lines
    names = lines.fresh("yes"), lines.fresh("no")
    join = lines.fresh("join")
    lines.do(f"br i1 {condition}, label %{names[0]}, label %{names[1]}")
    ends: list[tuple[str, Numbers]] = []
    for name, body in zip(names, (yes, no), strict=True):
        lines.label(name)
        found = body()
        ends.append((lines.block, found))
        lines.do(f"br label %{join}")
    lines.label(join)
    (here, first), (there, second) = ends
    both: list[Term] = []
    for a, b in zip(first, second, strict=True):
        one = a if isinstance(a, Term) else b
        assert isinstance(one, Term), "two constants are chosen between by choose"
        text = f"phi {one.type} [ {one.operand(a)}, %{here} ], [ {one.operand(b)}, %{there} ]"
        both.append(lines.let(one.type, text).of(one.element))
    return both


def when(condition: Term, body: Callable[[], None], otherwise: Callable[[], None] | None = None) -> None:
    """Run one of two bodies."""

    def nothing() -> None:
        pass

    both = (body, nothing if otherwise is None else otherwise)
    chosen(condition, *(partial(_without_values, one) for one in both))


def _without_values(body: Callable[[], None]) -> Terms:
    body()
    return ()


def share_one(lines: Lines, by_rows: Term, rows: Term, inner: Term, unit: int) -> tuple[Terms, Terms]:
    """Return which rows and which part of each are this thread's: threads divide the rows, or where not, each row."""
    divided = by_rows.differs(0)

    def either(yes: Sequence[Number], no: Sequence[Number]) -> Terms:
        return [divided.choose(a, b) for a, b in zip(yes, no, strict=True)]

    return either(share(lines, rows), (0, rows)), either((0, inner), share(lines, inner, unit))


def share(lines: Lines, total: Term, unit: int = 1) -> tuple[Term, Term]:
    """Return begin and end of this thread's part of `total` things; borders lie at multiples of `unit`."""
    blocks = total if unit == 1 else total.pieces(unit)
    first, last = (
        border if unit == 1 else (border * unit).at_most(total)
        for who in (lines.who, lines.who + 1)
        for border in [blocks * who // lines.many]
    )
    return first, last
