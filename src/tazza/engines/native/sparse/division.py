"""Writing where segments begin, as the first thing that a kernel does: one thread does it, the others wait.

`starts` gets M + 1 numbers, `order` the rows in the order of their segments where they do not lie so. Each length and
id is looked at before anything is written with it; the first that is wrong leaves a status, and no thread goes on. What
is wrong is then said in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tazza.codegen.emit import Lines
from tazza.codegen.loop import count_loop, step_loop
from tazza.codegen.rows import ROWS, element, index_at, stop_if, when
from tazza.data_class import dataclass
from tazza.ops.sparse.segment import BY_IDS, BY_LENGTHS, BY_SORTED_IDS, Division

Write = Callable[["Places"], None]


@dataclass(frozen=True, slots=True)
class Places:
    """What a division is written from: M segments, rows that are taken, where the numbers and both results lie."""

    lines: Lines
    count: str
    rows: str
    by: str
    starts: str
    order: str

    def number(self, i: str) -> str:
        """Return length or id i; a negative one becomes very large."""
        return index_at(self.lines, self.by, i, 32)

    def start(self, m: str) -> str:
        """Return where segment m begins."""
        return index_at(self.lines, self.starts, m, 64)

    def begin_at(self, m: str, place: str) -> None:
        """Write where segment m begins."""
        self.lines.do(f"store i64 {place}, ptr {element(self.lines, self.starts, m, 'i64')}")

    def refuse(self, wrong: str) -> None:
        """Go to the end, with a status, if the condition holds."""
        stop_if(self.lines, wrong, leave="br label %divided")


def write_lengths(p: Places) -> None:
    """Add up the lengths."""
    lines = p.lines

    def add(m: str, begin: Sequence[str]) -> list[str]:
        p.begin_at(m, begin[0])
        length = p.number(m)
        p.refuse(lines.let(f"icmp ugt i64 {length}, {lines.let(f'sub i64 {p.rows}, {begin[0]}')}"))
        return [lines.let(f"add i64 {begin[0]}, {length}")]

    _, (end,) = step_loop(lines, "i64", ("0", p.count, 1), ["0"], add)
    p.begin_at(p.count, end)
    p.refuse(lines.let(f"icmp ne i64 {end}, {p.rows}"))


def write_sorted(p: Places) -> None:
    """Find the first row of each id; each is that of the row before, or one more."""
    lines = p.lines

    def look(i: str, expected: str) -> str:
        number = p.number(i)  # `expected` is the next that has not been seen
        is_new = lines.let(f"icmp eq i64 {number}, {expected}")
        is_old = lines.let(f"icmp eq i64 {number}, {lines.let(f'sub i64 {expected}, 1')}")
        none = lines.let(f"icmp eq i64 {expected}, 0")
        kept = lines.let(f"and i1 {is_old}, {lines.let(f'xor i1 {none}, true')}")
        known = lines.let(f"or i1 {is_new}, {kept}")
        beyond = lines.let(f"icmp uge i64 {number}, {p.count}")
        p.refuse(lines.let(f"or i1 {beyond}, {lines.let(f'xor i1 {known}, true')}"))
        when(lines, is_new, lambda: p.begin_at(number, i))
        return lines.let(f"add i64 {number}, 1")

    _, (seen,) = step_loop(lines, "i64", ("0", p.rows, 1), ["0"], lambda i, carried: [look(i, carried[0])])
    p.begin_at(p.count, p.rows)
    p.refuse(lines.let(f"icmp ne i64 {seen}, {p.count}"))


def write_ids(p: Places) -> None:
    """Sort rows by their ids, those of one id as they come: count them, add up, put each at its place."""
    lines = p.lines

    def bump(place: str) -> str:
        at = element(lines, p.starts, place, "i64")
        before = lines.let(f"load i64, ptr {at}")
        lines.do(f"store i64 {lines.let(f'add i64 {before}, 1')}, ptr {at}")
        return before

    def looked_at(i: str) -> str:
        number = p.number(i)
        p.refuse(lines.let(f"icmp uge i64 {number}, {p.count}"))
        return number

    def shift(m: str, begin: str) -> list[str]:
        length = p.start(m)
        p.begin_at(m, begin)
        return [lines.let(f"add i64 {begin}, {length}")]

    def put(i: str) -> None:
        place = bump(looked_at(i))
        p.refuse(lines.let(f"icmp uge i64 {place}, {p.rows}"))
        lines.do(f"store i64 {i}, ptr {element(lines, p.order, place, 'i64')}")

    def back(m: str, begin: str) -> list[str]:
        end = p.start(m)
        p.begin_at(m, begin)
        return [end]

    count_loop(lines, "0", p.count, lambda m: p.begin_at(m, "0"))
    count_loop(lines, "0", p.rows, lambda i: (bump(looked_at(i)), None)[1])
    step_loop(lines, "i64", ("0", p.count, 1), ["0"], lambda m, carried: shift(m, carried[0]))
    count_loop(lines, "0", p.rows, put)  # which moves each start to the end of its segment
    step_loop(lines, "i64", ("0", p.count, 1), ["0"], lambda m, carried: back(m, carried[0]))
    p.begin_at(p.count, p.rows)


WRITE: Mapping[str, Write] = {
    BY_LENGTHS.name: write_lengths,
    BY_SORTED_IDS.name: write_sorted,
    BY_IDS.name: write_ids,
}
"""Division -> its code."""
ORDERED = frozenset({BY_IDS.name})
"""Divisions that write an order of rows."""


def divide(division: Division, p: Places) -> None:
    """Write where segments begin; all threads go on behind it, or none."""
    lines = p.lines
    first, wait, onward, end = "dividing", "meeting", lines.fresh("onward"), lines.fresh("end")
    lines.do(f"br i1 {lines.let('icmp eq i64 %who, 0')}, label %{first}, label %divided")
    lines.label(first)
    WRITE[division.name](p)
    lines.do("br label %divided")
    lines.label("divided")
    lines.do(f"br i1 {lines.let('icmp sgt i64 %many, 1')}, label %{wait}, label %{onward}")
    lines.label(wait)
    lines.declare("void @GOMP_barrier()")
    lines.do("call void @GOMP_barrier()")
    lines.do(f"br label %{onward}")
    lines.label(onward)
    go = lines.fresh("go")
    lines.do(f"br i1 {lines.let(f'icmp eq i64 {ROWS.read(lines).status}, 0')}, label %{go}, label %{end}")
    lines.label(end)
    lines.do("ret void")
    lines.label(go)
