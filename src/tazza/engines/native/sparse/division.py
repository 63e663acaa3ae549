"""Writing where segments begin, as the first thing that a kernel does: one thread does it, the others wait.

`starts` gets M + 1 numbers, `order` the rows in the order of their segments where they do not lie so. Each length and
id is looked at before anything is written with it; the first that is wrong leaves a status, and no thread goes on. What
is wrong is then said in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tazza.codegen.loop import count_loop, fold_loop, when
from tazza.codegen.rows import ROWS, stop_if
from tazza.codegen.term import Lines, Number, Term
from tazza.data_class import dataclass
from tazza.ops.sparse.segment import BY_IDS, BY_LENGTHS, BY_SORTED_IDS, Division

Write = Callable[["Places"], None]


@dataclass(frozen=True, slots=True)
class Places:
    """What a division is written from: M segments, rows that are taken, where the numbers and both results lie.

    The numbers are int32, the results int64.
    """

    lines: Lines
    count: Term
    rows: Term
    by: Term
    starts: Term
    order: Term

    def number(self, i: Term) -> Term:
        """Return length or id i; a negative one becomes very large."""
        return self.by[i].to("i64")

    def start(self, m: Term) -> Term:
        """Return where segment m begins."""
        return self.starts[m]

    def begin_at(self, m: Term, place: Number) -> None:
        """Write where segment m begins."""
        self.starts[m] = place

    def refuse(self, wrong: Term) -> None:
        """Go to the end, with a status, if the condition holds."""
        stop_if(wrong, leave="br label %divided")


def write_lengths(p: Places) -> None:
    """Add up the lengths."""

    def add(m: Term, begin: Term) -> Term:
        p.begin_at(m, begin)
        length = p.number(m)
        p.refuse(length.compare("ugt", p.rows - begin))
        return begin + length

    end = fold_loop(0, p.count, p.lines.number(0), add)
    p.begin_at(p.count, end)
    p.refuse(end.differs(p.rows))


def write_sorted(p: Places) -> None:
    """Find the first row of each id; each is that of the row before, or one more."""

    def look(i: Term, expected: Term) -> Term:
        number = p.number(i)  # `expected` is the next that has not been seen
        is_new = number.equals(expected)
        known = is_new | (number.equals(expected - 1) & ~expected.equals(0))
        p.refuse(number.outside(p.count) | ~known)
        when(is_new, lambda: p.begin_at(number, i))
        return number + 1

    seen = fold_loop(0, p.rows, p.lines.number(0), look)
    p.begin_at(p.count, p.rows)
    p.refuse(seen.differs(p.count))


def write_ids(p: Places) -> None:
    """Sort rows by their ids, those of one id as they come: count them, add up, put each at its place."""
    lines, none = p.lines, p.lines.number(0)

    def bump(place: Term) -> Term:
        at = p.starts.at(place)
        before = at.load()
        at.store(before + 1)
        return before

    def looked_at(i: Term) -> Term:
        number = p.number(i)
        p.refuse(number.outside(p.count))
        return number

    def count(i: Term) -> None:
        bump(looked_at(i))

    def shift(m: Term, begin: Term) -> Term:
        length = p.start(m)
        p.begin_at(m, begin)
        return begin + length

    def put(i: Term) -> None:
        place = bump(looked_at(i))
        p.refuse(place.outside(p.rows))
        p.order[place] = i

    def back(m: Term, begin: Term) -> Term:
        end = p.start(m)
        p.begin_at(m, begin)
        return end

    count_loop(lines, 0, p.count, lambda m: p.begin_at(m, 0))
    count_loop(lines, 0, p.rows, count)
    fold_loop(0, p.count, none, shift)
    count_loop(lines, 0, p.rows, put)  # which moves each start to the end of its segment
    fold_loop(0, p.count, none, back)
    p.begin_at(p.count, p.rows)


WRITE: Mapping[str, Write] = {BY_LENGTHS.name: write_lengths, BY_SORTED_IDS.name: write_sorted, BY_IDS.name: write_ids}
"""Division -> its code."""
ORDERED = frozenset({BY_IDS.name})
"""Divisions that write an order of rows."""


def divide(division: Division, p: Places) -> None:
    """Write where segments begin; all threads go on behind it, or none."""
    lines = p.lines
    first, wait, onward, end = "dividing", "meeting", lines.fresh("onward"), lines.fresh("end")
    lines.do(f"br i1 {lines.who.equals(0)}, label %{first}, label %divided")
    lines.label(first)
    WRITE[division.name](p)
    lines.do("br label %divided")
    lines.label("divided")
    lines.do(f"br i1 {lines.many > 1}, label %{wait}, label %{onward}")
    lines.label(wait)
    lines.call_for_effect("GOMP_barrier")
    lines.do(f"br label %{onward}")
    lines.label(onward)
    go = lines.fresh("go")
    lines.do(f"br i1 {ROWS.lazily(lines).status.equals(0)}, label %{go}, label %{end}")
    lines.label(end)
    lines.do("ret void")
    lines.label(go)
