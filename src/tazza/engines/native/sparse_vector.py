"""The product of a CSR matrix with one vector as vector code; letters and operands as in sparse_product.py.

Limit: a first cache gives two loads a cycle. An element of float32 with int32 indices takes half a load for its column,
one for its part of D and, in vectors of 16, three sixteenths for its value, the copy of its column and the sum of its
row: 0.85 cycles. Memory has to give 8 bytes for it.
"""

from __future__ import annotations

import itertools

from tazza.codegen.emit import Lines, Vector
from tazza.codegen.loop import (
    Values,
    chosen,
    each_vector,
    lanes_below,
    lanes_of,
    step_loop,
    sweep,
    while_loop,
)
from tazza.codegen.rows import element, when
from tazza.data_class import dataclass
from tazza.engines.native.sparse_product import Matrix, exchanged, shared_rows
from tazza.tensor import DataType

HELD = 1024
"""Elements of `gathered` whose products are held on the stack: they, the columns and a D of 2048 fit a first cache."""
GROUP = 8
"""Rows of `gathered` whose lanes are summed up together: twice as fast as one by one, as each waits for its own sum."""
AHEAD = 128
"""How many elements before its use a value is fetched into the first cache; columns are fetched `HELD` before it. Both
come from the second cache in long runs that stop at each block: this is a tenth of the time on a shared core."""


def write_gathered(lines: Lines, dtype: DataType, index_bits: int) -> None:
    """Write the kernel `gathered`; D and Y are one dense vector each.

    Rows are short, and each has its own length: a loop over one guesses its end wrongly, and most lanes of its last
    vector are idle. So the products of some rows together, up to `HELD`, are written to the stack first, where borders
    of rows do not matter. Then the rows are summed up, `GROUP` of them at a time. A row of more than `HELD` elements
    is cut into pieces.
    """
    held = _Held.room(lines, dtype, index_bits)
    m = held.m
    first, last = shared_rows(lines, m.Z, m.R, m.start)

    def some(values: Values) -> Values:
        """Write the rows from r on that are held together, or one that is longer; return the row behind them."""
        (r,) = values
        behind = _fitting(m, r, last)

        def short() -> Values:
            _short_rows(held, r, behind)
            return [behind]

        def long() -> Values:
            _long_row(held, r)
            return [lines.let(f"add i64 {r}, 1")]

        return chosen(lines, lines.let(f"icmp sgt i64 {behind}, {r}"), "i64", short, long)

    while_loop(lines, [("i64", first)], lambda values: lines.let(f"icmp slt i64 {values[0]}, {last}"), some)


def _fitting(m: Matrix, r: str, last: str) -> str:
    """Return the row behind the groups from r on that have up to HELD elements together; r if the first has more."""
    lines = m.v.lines
    limit = lines.let(f"add i64 {m.start(r)}, {HELD}")

    def following(q: str) -> str:
        return lines.least(lines.let(f"add i64 {q}, {_group(m.v)}"), last)

    def more(values: Values) -> str:
        (q,) = values
        fits = lines.let(f"icmp ule i64 {m.start(following(q))}, {limit}")
        return lines.let(f"and i1 {fits}, {lines.let(f'icmp slt i64 {q}, {last}')}")

    return while_loop(lines, [("i64", r)], more, lambda values: [following(values[0])])[0]


def _group(v: Vector) -> int:
    return min(GROUP, v.count)


@dataclass(frozen=True, slots=True)
class _Held:
    """Room on the stack for the columns and products of up to `HELD` elements."""

    m: Matrix
    columns: str
    products: str

    @classmethod
    def room(cls, lines: Lines, dtype: DataType, index_bits: int) -> _Held:
        v = lanes_of(lines, dtype)
        rooms = [lines.let(f"alloca [{HELD} x {kind}], align {v.count * 8}") for kind in (f"i{index_bits}", v.scalar)]
        return cls(Matrix(lines, dtype, index_bits), rooms[0], rooms[1])

    def fill(self, begin: str, count: str) -> None:
        """Take `count` elements from `begin` on.

        The columns are copied, and what is looked at and used is the copy. D is read element by element: a gather takes
        as long at the best, and twice as long on processors that guard it against data sampling.
        """
        m, v = self.m, self.m.v
        lines = v.lines
        whole = Vector(lines, v.count, DataType.INT64 if m.index_bits == 64 else DataType.INT32)
        kind = f"i{m.index_bits}"
        given, values = element(lines, m.columns, begin, kind), element(lines, m.values, begin, v.scalar)

        def copy(i: str, mask: str | None, largest: Values) -> Values:
            found = whole.load(given, i, mask)
            whole.store(found, self.columns, i, None)
            return [lines.intrinsic(whole.type, "umax", largest[0], found)]

        def multiply(i: str, mask: str | None) -> None:
            lines.prefetch(element(lines, given, i, kind), HELD * m.index_bits // 8)
            lines.prefetch(element(lines, values, i, v.scalar), AHEAD * v.bits // 8)
            taken = "poison"
            for lane, column in enumerate(self._copied(i)):
                one = lines.let(f"load {v.scalar}, ptr {element(lines, m.D.address, column, v.scalar)}")
                taken = lines.let(f"insertelement {v.type} {taken}, {v.scalar} {one}, i32 {lane}")
            v.store(v.mul(v.load(values, i, mask, dtype=m.dtype), taken), self.products, i, None, dtype=m.dtype)

        (largest,) = sweep(whole, "0", count, copy, ("zeroinitializer",))
        outside = lines.let(f"icmp uge {whole.type} {largest}, {whole.full(m.C)}")
        m.stop_if(lines.any_set(v.count, outside))
        each_vector(v, "0", count, multiply)

    def _copied(self, i: str) -> list[str]:
        """Return a vector of copied columns from i on, as int64s; two int32s are loaded as one word.

        Loads are what is short here: with half as many for the columns the kernel takes 29 us where it took 35. The
        lower column is in the lower half of a word, as on all processors that code is made for.
        """
        lines, bits, found = self.m.v.lines, self.m.index_bits, list[str]()
        for lane in range(0, self.m.v.count, 64 // bits):
            at = element(lines, self.columns, lines.let(f"add i64 {i}, {lane}"), f"i{bits}")
            word = lines.let(f"load i64, ptr {at}, align {bits // 8}")
            if bits == 64:
                found.append(word)
            else:
                found += [lines.let(f"and i64 {word}, {(1 << 32) - 1}"), lines.let(f"lshr i64 {word}, 32")]
        return found

    def add_up(self, begin: str, end: str, total: str) -> str:
        """Add products [begin, end) to the lanes of `total`; which goes into which lane depends on i - begin alone."""
        m, v = self.m, self.m.v

        def add(i: str, sums: Values) -> Values:
            return [v.add(sums[0], v.load(self.products, i, None, dtype=m.dtype))]

        i, (total,) = step_loop(v.lines, v.type, (begin, end, v.count), (total,), add)
        rest = lanes_below(v, v.lines.let(f"sub i64 {end}, {i}"))
        return v.add(total, v.load(self.products, i, rest, dtype=m.dtype))

    def write(self, sums: Values, r: str, last: str | None) -> None:
        """Write the sums of the lanes of some vectors to Y[r] and on, none to Y[last] and behind."""
        m, few = self.m, Vector(self.m.v.lines, len(sums), self.m.v.dtype)
        mask = None if last is None else lanes_below(few, few.lines.let(f"sub i64 {last}, {r}"))
        few.store(sums_of_lanes(m.v, sums), m.Y.address, r, mask, dtype=m.dtype)


def _short_rows(held: _Held, first: str, last: str) -> None:
    """Write Y[first:last], rows that have no more than HELD elements together."""
    m, v = held.m, held.m.v
    lines, group = v.lines, _group(v)
    begin, end = m.start(first), m.start(last)
    extent = lines.let(f"sub i64 {end}, {begin}")
    over, wide = lines.let(f"icmp ugt i64 {end}, {m.Z}"), lines.let(f"icmp ugt i64 {extent}, {HELD}")
    m.stop_if(lines.let(f"or i1 {over}, {wide}"))
    held.fill(begin, extent)

    def write(r: str, last: str | None) -> None:
        rows = [lines.let(f"add i64 {r}, {k}") for k in range(group + 1)]
        if last is not None:
            rows = [lines.least(row, last) for row in rows]
        borders = [lines.let(f"sub i64 {m.start(row)}, {begin}") for row in rows]
        spans = list(itertools.pairwise(borders))
        broken = lines.let(f"icmp ugt i64 {borders[-1]}, {extent}")
        for a, b in spans:
            broken = lines.let(f"or i1 {broken}, {lines.let(f'icmp ugt i64 {a}, {b}')}")
        m.stop_if(broken)
        held.write([held.add_up(a, b, v.constant(0.0)) for a, b in spans], r, last)

    def whole(r: str, _: Values) -> Values:
        write(r, None)
        return ()

    r, _ = step_loop(lines, v.type, (first, last, group), (), whole)
    when(lines, lines.let(f"icmp slt i64 {r}, {last}"), lambda: write(r, last))


def _long_row(held: _Held, r: str) -> None:
    """Write Y[r], piece by piece; the order of the sum is that of a short row."""
    v = held.m.v
    lines, zero = v.lines, v.constant(0.0)
    begin, end = held.m.row(r)

    def add(i: str, sums: Values) -> Values:
        held.fill(i, str(HELD))
        return [held.add_up("0", str(HELD), sums[0])]

    i, (total,) = step_loop(lines, v.type, (begin, end, HELD), (zero,), add)
    rest = lines.let(f"sub i64 {end}, {i}")
    held.fill(i, rest)
    total = held.add_up("0", rest, total)
    held.write([total, *[zero] * (_group(v) - 1)], r, lines.let(f"add i64 {r}, 1"))


def sums_of_lanes(v: Vector, vectors: Values) -> str:
    """Return a vector of the sums of the lanes of each vector; there are 2^k of them, no more than lanes.

    Neighbours in the list share one vector from then on, which holds the halves of both; every sum has the same order.
    """
    found, step = list(vectors), 1
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [v.add(*exchanged(v, a, b, step)) for a, b in pairs]
        step *= 2

    def join(count: int, low: str, high: str) -> str:
        return Vector(v.lines, count, v.dtype).add(low, high)

    return v.lines.halved(v.type, found[0], join, len(vectors))
