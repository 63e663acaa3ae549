"""Products of a CSR matrix with a dense one as vector code: what each kernel loads, multiplies and stores.

S is the sparse matrix, R x C with Z elements: `starts` (R + 1), `columns` and `values` (Z). All indices have one width.
D is the dense matrix with N vectors to be multiplied, Y the result; both have rows of their own pitch.

- `rows`: Y[r, n] = sum over row r of values * D[columns, n]. Threads share the rows by their elements, vectors run over
  n, and the sums of a row stay in registers, for up to four vectors of n at once.
- `gathered`: the same for one vector of D (N = 1); in sparse_vector.py.
- `transposed`: Y[c, n] = the sum of values * D[r, n] over all elements of column c. Threads share n.
- `scattered`: the same for one vector of D (N = 1), element by element, on one thread.
- `from_left`: Y[n, c] = the same of values * D[n, r]. Threads share n; tiles of D and Y lie in scratch memory, turned
  round, so that vectors run over n there as well.

Starts and columns are looked at before anything is read with them: they may lie in memory that others write. A
kernel that finds one out of range stops, and gives a status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tazza.codegen.fields import Fields
from tazza.codegen.loop import (
    Terms,
    carry_loop,
    count_loop,
    each_vector,
    lanes_below,
    lanes_of,
    share,
    step_loop,
    when,
    while_loop,
)
from tazza.codegen.rows import stop_if
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.vector import KINDS, Vector
from tazza.tensor import DataType

BLOCK = Fields("threads R C Z N D_pitch Y_pitch", own="status", addresses="starts columns values D Y scratch")
"""Pitches in elements; not 0 is the status of a broken index."""
TILE = 4
"""Vectors of n at once; eight were no faster, as the part of D that they read then leaves the second cache."""
CHAINS = 4
"""Sums that a row has at the least, so that one addition need not wait for the one before."""


def tile_floats(dtype: DataType) -> int:
    """Return how many n a tile of `from_left` has."""
    return TILE * lanes_of(Lines(), dtype).count


class Dense(NamedTuple):
    """Where D or Y begins, and the elements from row to row."""

    address: Term
    pitch: Term


class Matrix:
    """The operands of a kernel, loaded from its block."""

    def __init__(self, lines: Lines, dtype: DataType, index_bits: int) -> None:
        """Load them."""
        at, kind = BLOCK.lazily(lines), KINDS[dtype]
        self.v, self.dtype, self.index_bits = lanes_of(lines, dtype), dtype, index_bits
        self.R, self.C, self.Z, self.N = at.R, at.C, at.Z, at.N
        self.starts, self.columns = (pointer.of(f"i{index_bits}") for pointer in (at.starts, at.columns))
        self.values, self.scratch = at.values.of(kind), at.scratch.of(self.v.scalar)
        self.D, self.Y = Dense(at.D.of(kind), at.D_pitch), Dense(at.Y.of(kind), at.Y_pitch)

    def start(self, r: Term) -> Term:
        """Return where row r begins; what is negative becomes very large."""
        return self.starts[r].to("i64")

    def at(self, dense: Dense, row: Term, column: Number) -> Term:
        """Return the address of an element of D or Y."""
        return dense.address.at(row * dense.pitch + column)

    def value(self, i: Term) -> Term:
        """Return a vector full of value i."""
        return self.v.load_one(self.values.at(i), dtype=self.dtype)

    def row(self, r: Term) -> tuple[Term, Term]:
        """Return where the elements of row r begin and end, which is within [0, Z]."""
        begin, end = self.start(r), self.start(r + 1)
        self.stop_if(end.compare("ugt", self.Z) | begin.compare("ugt", end))
        return begin, end

    def column(self, i: Term) -> Term:
        """Return column i, which is within [0, C)."""
        found = self.columns[i].to("i64")
        self.stop_if(found.outside(self.C))
        return found

    def stop_if(self, broken: Term) -> None:
        """End this thread's work with a status if the condition holds."""
        stop_if(broken, BLOCK)


def finish(lines: Lines) -> None:
    """Return the status; the block is not used again."""
    lines.do(f"ret i64 {BLOCK.lazily(lines).status}")


def tiles(
    v: Vector,
    begin: Number,
    end: Term,
    widest: int,
    body: Callable[[Term, int, Term | None], None],
    *,
    rest: bool = True,
) -> None:
    """Run `body(n, vectors, mask)` for tiles of [begin, end): the widest ones, then halves, at last a masked one.

    `rest=False`: there is none, as [begin, end) is made of whole vectors.
    """
    vectors, first = widest, begin if isinstance(begin, Term) else v.lines.number(begin)
    while vectors:

        def tile(n: Term, _: Terms, vectors: int = vectors) -> Terms:
            body(n, vectors, None)
            return ()

        first, _ = step_loop(v.lines, (first, end, vectors * v.count), (), tile)
        vectors //= 2
    if rest:
        left = end - first
        when(left > 0, lambda: body(first, 1, lanes_below(v, left)))


# -- sums in registers -------------------------------------------------------------------------------------------------


def shared_rows(lines: Lines, elements: Term, rows: Term, start: Callable[[Term], Term]) -> tuple[Term, Term]:
    """Return the first row of this thread and the one behind its last; a row counts as its elements and one more.

    A border is the smallest r with start(r) + r >= its part of the work.
    """
    work = elements + rows
    after = lines.who + 1
    parts = [work * i // lines.many for i in (lines.who, after)]
    borders = [halved(lines, rows, part, lambda r: start(r) + r) for part in parts]
    # The ends are certain even where starts are broken, so that every row belongs to a thread, which then sees it.
    is_first, is_last = lines.who.equals(0), after.equals(lines.many)
    return is_first.choose(0, borders[0]), is_last.choose(rows, borders[1])


def halved(lines: Lines, count: Term, work: Number, before: Callable[[Term], Term]) -> Term:
    """Return the smallest r in [0, count] with before(r) >= work, which grows with r, by halving."""

    def half(values: Terms) -> Terms:
        low, high = values
        middle = (low + high).shifted_down(1)
        less = before(middle) < work
        return [less.choose(middle + 1, low), less.choose(high, middle)]

    return while_loop(lines, [0, count], lambda values: values[0] < values[1], half)[0]


def write_rows(lines: Lines, dtype: DataType, index_bits: int) -> None:
    """Write the kernel `rows`."""
    m = Matrix(lines, dtype, index_bits)
    first, last = shared_rows(lines, m.Z, m.R, m.start)

    def tile(n: Term, vectors: int, mask: Term | None) -> None:
        count_loop(lines, first, last, lambda r: _row(m, r, n, vectors, mask))

    tiles(m.v, 0, m.N, TILE, tile)


def _row(m: Matrix, r: Term, n: Term, vectors: int, mask: Term | None) -> None:
    """Write `vectors` vectors of a row of Y from n on."""
    v = m.v
    zero, together = v.constant(0.0), max(1, CHAINS // vectors)
    begin, end = m.row(r)

    def add(i: Term, sums: Terms) -> list[Term]:
        d, value = m.at(m.D, m.column(i), n), m.value(i)
        return [value.fma(v.load(d, q * v.count, mask, dtype=m.dtype), one) for q, one in enumerate(sums)]

    def add_together(i: Term, sums: Terms) -> list[Term]:
        return [one for u in range(together) for one in add(i + u, sums[u * vectors : (u + 1) * vectors])]

    i, many = step_loop(v.lines, (begin, end, together), [zero] * (vectors * together), add_together)
    totals = [_pairwise(many[q::vectors]) for q in range(vectors)]
    if together > 1:
        totals = carry_loop(i, end, totals, add)
    y = m.at(m.Y, r, n)
    for q, total in enumerate(totals):
        v.store(total, y, q * v.count, mask, dtype=m.dtype)


def _pairwise(sums: Terms) -> Term:
    while len(sums) > 1:
        sums = [a + b for a, b in zip(sums[::2], sums[1::2], strict=True)]
    return sums[0]


# -- sums in memory ----------------------------------------------------------------------------------------------------


def _sum_up(m: Matrix, taken: Callable[[Term], Terms], sums: Callable[[Term], Term], mask: Term | None) -> None:
    """Add values * taken(r) to the vectors at sums(column), for all elements of all rows r."""
    lines, v = m.v.lines, m.v

    def row(r: Term) -> None:
        begin, end = m.row(r)
        vectors = taken(r)

        def add(i: Term) -> None:
            at, value = sums(m.column(i)), m.value(i)
            for q, one in enumerate(vectors):
                place = q * v.count
                v.store(value.fma(one, v.load(at, place, mask, dtype=m.dtype)), at, place, mask, dtype=m.dtype)

        count_loop(lines, begin, end, add)

    count_loop(lines, 0, m.R, row)


def _clear(m: Matrix, sums: Callable[[Term], Term], vectors: int, mask: Term | None) -> None:
    def clear(c: Term) -> None:
        at = sums(c)
        for q in range(vectors):
            m.v.store(m.v.constant(0.0), at, q * m.v.count, mask, dtype=m.dtype)

    count_loop(m.v.lines, 0, m.C, clear)


def write_transposed(lines: Lines, dtype: DataType, index_bits: int) -> None:
    """Write the kernel `transposed`."""
    m = Matrix(lines, dtype, index_bits)
    v = m.v

    def tile(n: Term, vectors: int, mask: Term | None) -> None:
        def taken(r: Term) -> list[Term]:
            row = m.at(m.D, r, n)
            return [v.load(row, q * v.count, mask, dtype=dtype) for q in range(vectors)]

        def sums(c: Term) -> Term:
            return m.at(m.Y, c, n)

        _clear(m, sums, vectors, mask)
        _sum_up(m, taken, sums, mask)

    tiles(v, *share(lines, m.N, v.count), TILE, tile)


def write_scattered(lines: Lines, dtype: DataType, index_bits: int) -> None:
    """Write the kernel `scattered`; D and Y are one dense vector each."""
    m = Matrix(lines, dtype, index_bits)
    each_vector(m.v, 0, m.C, lambda i, mask: m.v.store(m.v.constant(0.0), m.Y.address, i, mask, dtype=dtype))

    def row(r: Term) -> None:
        begin, end = m.row(r)
        taken = m.D.address[r]

        def add(i: Term) -> None:
            value, at = m.values[i], m.Y.address.at(m.column(i))
            more = value * taken
            at[0] += more

        count_loop(lines, begin, end, add)

    count_loop(lines, 0, m.R, row)


def write_from_left(lines: Lines, dtype: DataType, index_bits: int) -> None:
    """Write the kernel `from_left`; scratch memory holds `tile_floats` of R + C + 2 vectors for each thread."""
    m = Matrix(lines, dtype, index_bits)
    v = m.v
    first, last = share(lines, m.N, v.count)
    tall = (m.R + m.C + 2 * v.count) * (TILE * v.count)
    turned_D = m.scratch.at(lines.who * tall)

    def tile(n: Term, vectors: int) -> None:
        width = vectors * v.count
        turned_Y = turned_D.at((m.R + v.count) * width)

        def sums(c: Term) -> Term:
            return turned_Y.at(c * width)

        def taken(r: Term) -> list[Term]:
            row = turned_D.at(r * width)
            return [v.load(row, q * v.count, None, dtype=dtype) for q in range(vectors)]

        def turn(q: Term, dense: Dense, tile: Term, way: Callable[[Matrix, Terms, Term, int], None]) -> None:
            lane = q * v.count
            way(m, _row_places(m, dense, n + lane), tile.at(lane), width)

        count_loop(lines, 0, vectors, lambda q: turn(q, m.D, turned_D, _turn_in))
        _clear(m, sums, vectors, None)
        _sum_up(m, taken, sums, None)
        count_loop(lines, 0, vectors, lambda q: turn(q, m.Y, turned_Y, _turn_out))

    # Lanes without a row of D take the last one, and write what it gives once more.
    missing = (first - last) % v.count
    tiles(v, first, last + missing, TILE, lambda n, vectors, _: tile(n, vectors), rest=False)


def _row_places(m: Matrix, dense: Dense, n: Term) -> list[Term]:
    """Return where rows n, n + 1 ... begin, as many as there are lanes; behind the last row comes the last again."""
    last = m.N - 1
    return [m.at(dense, (n + lane).at_most(last), 0) for lane in range(m.v.count)]


def _turn_in(m: Matrix, rows: Terms, tile: Term, width: int) -> None:
    """Write column r of some rows of D to line r of a tile, R of them and some of zeros; lines are `width` apart."""
    v = m.v

    def block(r: Term, mask: Term | None) -> None:
        turned = transposed(v, [v.load(row, r, mask, dtype=m.dtype) for row in rows])
        for lane, vector in enumerate(turned):
            v.store(vector, tile.at((r + lane) * width), 0, None, dtype=m.dtype)

    each_vector(v, 0, m.R, block)


def _turn_out(m: Matrix, rows: Terms, tile: Term, width: int) -> None:
    """Write line c of a tile to column c of some rows of Y, for all C lines."""
    v = m.v

    def block(c: Term, mask: Term | None) -> None:
        lines_of_tile = [v.load(tile.at((c + lane) * width), 0, None, dtype=m.dtype) for lane in range(v.count)]
        for row, vector in zip(rows, transposed(v, lines_of_tile), strict=True):
            v.store(vector, row, c, mask, dtype=m.dtype)

    each_vector(v, 0, m.C, block)


def transposed(v: Vector, vectors: Terms) -> list[Term]:
    """Return the columns of a square of as many vectors as there are lanes: halves change places, then their halves.

    In the step s, lane i of vector k and lane i + s of vector k - s change places where k has s and i has not.
    """
    found, step = list(vectors), 1
    while step < v.count:
        for k in range(v.count):
            if k & step:
                continue
            found[k], found[k + step] = exchanged(v, found[k], found[k + step], step)
        step *= 2
    return found


def exchanged(v: Vector, a: Term, b: Term, step: int) -> tuple[Term, Term]:
    """Return two vectors after lanes i + step of a and lanes i of b changed places, for all i that have not `step`."""
    lanes = range(v.count)
    low = [v.count + i - step if i & step else i for i in lanes]
    high = [v.count + i if i & step else i + step for i in lanes]
    return a.shuffle(low, b), a.shuffle(high, b)
