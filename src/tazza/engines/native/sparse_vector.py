"""The product of a CSR matrix with one vector as vector code; letters and operands as in sparse_product.py.

Limit: a first cache gives two loads a cycle. An element of float32 with int32 indices takes half a load for its column,
one for its part of D and, in vectors of 16, three sixteenths for its value, the copy of its column and the sum of its
row: 0.85 cycles. Memory has to give 8 bytes for it.
"""

from __future__ import annotations

import itertools

from tazza.codegen.loop import Terms, chosen, each_vector, lanes_below, lanes_of, step_loop, sweep, when, while_loop
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.vector import Vector
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

    def some(values: Terms) -> Terms:
        """Write the rows from r on that are held together, or one that is longer; return the row behind them."""
        (r,) = values
        behind = _fitting(m, r, last)

        def short() -> Terms:
            _short_rows(held, r, behind)
            return [behind]

        def long() -> Terms:
            _long_row(held, r)
            return [r + 1]

        return chosen(behind > r, short, long)

    while_loop(lines, [first], lambda values: values[0] < last, some)


def _fitting(m: Matrix, r: Term, last: Term) -> Term:
    """Return the row behind the groups from r on that have up to HELD elements together; r if the first has more."""
    limit = m.start(r) + HELD

    def following(q: Term) -> Term:
        return (q + _group(m.v)).at_most(last)

    def more(values: Terms) -> Term:
        (q,) = values
        return m.start(following(q)).compare("ule", limit) & (q < last)

    return while_loop(m.v.lines, [r], more, lambda values: [following(values[0])])[0]


def _group(v: Vector) -> int:
    return min(GROUP, v.count)


@dataclass(frozen=True, slots=True)
class _Held:
    """Room on the stack for the columns and products of up to `HELD` elements."""

    m: Matrix
    columns: Term
    products: Term

    @classmethod
    def room(cls, lines: Lines, dtype: DataType, index_bits: int) -> _Held:
        v = lanes_of(lines, dtype)
        rooms = [lines.room(f"[{HELD} x {kind}]", v.count * 8).of(kind) for kind in (f"i{index_bits}", v.scalar)]
        return cls(Matrix(lines, dtype, index_bits), rooms[0], rooms[1])

    def fill(self, begin: Term, count: Number) -> None:
        """Take `count` elements from `begin` on.

        The columns are copied, and what is looked at and used is the copy. D is read element by element: a gather takes
        as long at the best, and twice as long on processors that guard it against data sampling.
        """
        m, v = self.m, self.m.v
        whole = Vector(v.lines, v.count, DataType.INT64 if m.index_bits == 64 else DataType.INT32)
        given, values = m.columns.at(begin), m.values.at(begin)

        def copy(i: Term, mask: Term | None, largest: Terms) -> Terms:
            found = whole.load(given, i, mask)
            whole.store(found, self.columns, i, None)
            return [largest[0].intrinsic("umax", found)]

        def multiply(i: Term, mask: Term | None) -> None:
            given.at(i).prefetch(HELD * m.index_bits // 8)
            values.at(i).prefetch(AHEAD * v.bits // 8)
            taken = v.lines.poison(v.type)
            for lane, column in enumerate(self._copied(i)):
                taken = taken.with_lane(lane, m.D.address[column])
            v.store(v.load(values, i, mask, dtype=m.dtype) * taken, self.products, i, None, dtype=m.dtype)

        (largest,) = sweep(whole, 0, count, copy, (whole.constant(0),))
        m.stop_if(largest.outside(whole.full(m.C)).any())
        each_vector(v, 0, count, multiply)

    def _copied(self, i: Term) -> list[Term]:
        """Return a vector of copied columns from i on, as int64s; two int32s are loaded as one word.

        Loads are what is short here: with half as many for the columns the kernel takes 29 us where it took 35. The
        lower column is in the lower half of a word, as on all processors that code is made for.
        """
        bits, found = self.m.index_bits, list[Term]()
        for lane in range(0, self.m.v.count, 64 // bits):
            word = self.columns.at(i + lane).of("i64").load(bits // 8)
            found += [word] if bits == 64 else [word & ((1 << 32) - 1), word.shifted_down(32)]
        return found

    def add_up(self, begin: Number, end: Number, total: Term) -> Term:
        """Add products [begin, end) to the lanes of `total`; which goes into which lane depends on i - begin alone."""
        m, v = self.m, self.m.v

        def add(i: Term, sums: Terms) -> Terms:
            return [sums[0] + v.load(self.products, i, None, dtype=m.dtype)]

        i, (total,) = step_loop(v.lines, (begin, end, v.count), (total,), add)
        return total + v.load(self.products, i, lanes_below(v, end - i), dtype=m.dtype)

    def write(self, sums: Terms, r: Term, last: Term | None) -> None:
        """Write the sums of the lanes of some vectors to Y[r] and on, none to Y[last] and behind."""
        m, few = self.m, Vector(self.m.v.lines, len(sums), self.m.v.dtype)
        mask = None if last is None else lanes_below(few, last - r)
        few.store(sums_of_lanes(m.v, sums), m.Y.address, r, mask, dtype=m.dtype)


def _short_rows(held: _Held, first: Term, last: Term) -> None:
    """Write Y[first:last], rows that have no more than HELD elements together."""
    m, v, group = held.m, held.m.v, _group(held.m.v)
    begin, end = m.start(first), m.start(last)
    extent = end - begin
    m.stop_if(end.compare("ugt", m.Z) | extent.compare("ugt", HELD))
    held.fill(begin, extent)

    def write(r: Term, last: Term | None) -> None:
        rows = [r + k for k in range(group + 1)]
        if last is not None:
            rows = [row.at_most(last) for row in rows]
        borders = [m.start(row) - begin for row in rows]
        spans = list(itertools.pairwise(borders))
        broken = borders[-1].compare("ugt", extent)
        for a, b in spans:
            broken |= a.compare("ugt", b)
        m.stop_if(broken)
        held.write([held.add_up(a, b, v.constant(0.0)) for a, b in spans], r, last)

    def whole(r: Term, _: Terms) -> Terms:
        write(r, None)
        return ()

    r, _ = step_loop(v.lines, (first, last, group), (), whole)
    when(r < last, lambda: write(r, last))


def _long_row(held: _Held, r: Term) -> None:
    """Write Y[r], piece by piece; the order of the sum is that of a short row."""
    v, zero = held.m.v, held.m.v.constant(0.0)
    begin, end = held.m.row(r)

    def add(i: Term, sums: Terms) -> Terms:
        held.fill(i, HELD)
        return [held.add_up(0, HELD, sums[0])]

    i, (total,) = step_loop(v.lines, (begin, end, HELD), (zero,), add)
    rest = end - i
    held.fill(i, rest)
    total = held.add_up(0, rest, total)
    held.write([total, *[zero] * (_group(v) - 1)], r, r + 1)


def sums_of_lanes(v: Vector, vectors: Terms) -> Term:
    """Return a vector of the sums of the lanes of each vector; there are 2^k of them, no more than lanes.

    Neighbours in the list share one vector from then on, which holds the halves of both; every sum has the same order.
    """
    found, step = list(vectors), 1
    while len(found) > 1:
        pairs = zip(found[::2], found[1::2], strict=True)
        found = [left + right for left, right in (exchanged(v, a, b, step) for a, b in pairs)]
        step *= 2
    return found[0].halved(Term.__add__, len(vectors))
