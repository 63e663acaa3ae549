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

from tazza.codegen.emit import Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.loop import (
    KINDS,
    Values,
    count_loop,
    each_vector,
    lanes_below,
    lanes_of,
    share,
    step_loop,
    while_loop,
)
from tazza.codegen.rows import element, index_at, stop_if, when
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

    address: str
    pitch: str


class Matrix:
    """The operands of a kernel, loaded from its block."""

    def __init__(self, lines: Lines, dtype: DataType, index_bits: int) -> None:
        """Load them."""
        at = BLOCK.read(lines)
        self.v, self.dtype, self.index_bits = lanes_of(lines, dtype), dtype, index_bits
        self.R, self.C, self.Z, self.N = at.R, at.C, at.Z, at.N
        self.starts, self.columns, self.values, self.scratch = at.starts, at.columns, at.values, at.scratch
        self.D, self.Y = Dense(at.D, at.D_pitch), Dense(at.Y, at.Y_pitch)

    def start(self, r: str) -> str:
        """Return where row r begins; what is negative becomes very large."""
        return index_at(self.v.lines, self.starts, r, self.index_bits)

    def at(self, dense: Dense, row: str, column: str) -> str:
        """Return the address of an element of D or Y."""
        lines = self.v.lines
        offset = lines.let(f"add i64 {lines.let(f'mul i64 {row}, {dense.pitch}')}, {column}")
        return element(lines, dense.address, offset, KINDS[self.dtype])

    def value(self, i: str) -> str:
        """Return a vector full of value i."""
        return self.v.load_one(element(self.v.lines, self.values, i, KINDS[self.dtype]), dtype=self.dtype)

    def row(self, r: str) -> tuple[str, str]:
        """Return where the elements of row r begin and end, which is within [0, Z]."""
        lines = self.v.lines
        begin, end = self.start(r), self.start(lines.let(f"add i64 {r}, 1"))
        over = lines.let(f"icmp ugt i64 {end}, {self.Z}")
        back = lines.let(f"icmp ugt i64 {begin}, {end}")
        self.stop_if(lines.let(f"or i1 {over}, {back}"))
        return begin, end

    def column(self, i: str) -> str:
        """Return column i, which is within [0, C)."""
        found = index_at(self.v.lines, self.columns, i, self.index_bits)
        self.stop_if(self.v.lines.let(f"icmp uge i64 {found}, {self.C}"))
        return found

    def stop_if(self, broken: str) -> None:
        """End this thread's work with a status if the condition holds."""
        stop_if(self.v.lines, broken, BLOCK)


def finish(lines: Lines) -> None:
    """Return the status; the block is not used again."""
    lines.do(f"ret i64 {BLOCK.read(lines).status}")


def tiles(
    v: Vector, begin: str, end: str, widest: int, body: Callable[[str, int, str | None], None], *, rest: bool = True
) -> None:
    """Run `body(n, vectors, mask)` for tiles of [begin, end): the widest ones, then halves, at last a masked one.

    `rest=False`: there is none, as [begin, end) is made of whole vectors.
    """
    lines = v.lines
    vectors = widest
    while vectors:

        def tile(n: str, _: Values, vectors: int = vectors) -> Values:
            body(n, vectors, None)
            return ()

        begin, _ = step_loop(lines, v.type, (begin, end, vectors * v.count), (), tile)
        vectors //= 2
    if rest:
        left = lines.let(f"sub i64 {end}, {begin}")
        when(lines, lines.let(f"icmp sgt i64 {left}, 0"), lambda: body(begin, 1, lanes_below(v, left)))


# -- sums in registers -------------------------------------------------------------------------------------------------


def shared_rows(lines: Lines, elements: str, rows: str, start: Callable[[str], str]) -> tuple[str, str]:
    """Return the first row of this thread and the one behind its last; a row counts as its elements and one more.

    A border is the smallest r with start(r) + r >= its part of the work.
    """
    work = lines.let(f"add i64 {elements}, {rows}")
    after = lines.let("add i64 %who, 1")
    parts = [lines.let(f"udiv i64 {lines.let(f'mul i64 {work}, {i}')}, %many") for i in ("%who", after)]
    borders = [halved(lines, rows, part, lambda r: lines.let(f"add i64 {start(r)}, {r}")) for part in parts]
    # The ends are certain even where starts are broken, so that every row belongs to a thread, which then sees it.
    is_first, is_last = lines.let("icmp eq i64 %who, 0"), lines.let(f"icmp eq i64 {after}, %many")
    return (
        lines.let(f"select i1 {is_first}, i64 0, i64 {borders[0]}"),
        lines.let(f"select i1 {is_last}, i64 {rows}, i64 {borders[1]}"),
    )


def halved(lines: Lines, count: str, work: str, before: Callable[[str], str]) -> str:
    """Return the smallest r in [0, count] with before(r) >= work, which grows with r, by halving."""

    def half(values: Values) -> Values:
        low, high = values
        middle = lines.let(f"lshr i64 {lines.let(f'add i64 {low}, {high}')}, 1")
        less = lines.let(f"icmp slt i64 {before(middle)}, {work}")
        above = lines.let(f"add i64 {middle}, 1")
        return [
            lines.let(f"select i1 {less}, i64 {above}, i64 {low}"),
            lines.let(f"select i1 {less}, i64 {high}, i64 {middle}"),
        ]

    starts = [("i64", "0"), ("i64", count)]
    return while_loop(lines, starts, lambda values: lines.let(f"icmp slt i64 {values[0]}, {values[1]}"), half)[0]


def write_rows(lines: Lines, dtype: DataType, index_bits: int) -> None:
    """Write the kernel `rows`."""
    m = Matrix(lines, dtype, index_bits)
    first, last = shared_rows(lines, m.Z, m.R, m.start)

    def tile(n: str, vectors: int, mask: str | None) -> None:
        count_loop(lines, first, last, lambda r: _row(m, r, n, vectors, mask))

    tiles(m.v, "0", m.N, TILE, tile)


def _row(m: Matrix, r: str, n: str, vectors: int, mask: str | None) -> None:
    """Write `vectors` vectors of a row of Y from n on."""
    v = m.v
    lines, zero, together = v.lines, v.constant(0.0), max(1, CHAINS // vectors)
    begin, end = m.row(r)

    def add(i: str, sums: Values) -> list[str]:
        d, value = m.at(m.D, m.column(i), n), m.value(i)
        at = [str(q * v.count) for q in range(vectors)]
        return [v.fma(value, v.load(d, at[q], mask, dtype=m.dtype), sums[q]) for q in range(vectors)]

    def add_together(i: str, sums: Values) -> list[str]:
        after: list[str] = []
        for u in range(together):
            after += add(lines.let(f"add i64 {i}, {u}"), sums[u * vectors : (u + 1) * vectors])
        return after

    i, many = step_loop(lines, v.type, (begin, end, together), [zero] * (vectors * together), add_together)
    totals = [_pairwise(v, many[q::vectors]) for q in range(vectors)]
    if together > 1:
        _, totals = step_loop(lines, v.type, (i, end, 1), totals, add)
    y = m.at(m.Y, r, n)
    for q, total in enumerate(totals):
        v.store(total, y, str(q * v.count), mask, dtype=m.dtype)


def _pairwise(v: Vector, sums: Values) -> str:
    while len(sums) > 1:
        sums = [v.add(a, b) for a, b in zip(sums[::2], sums[1::2], strict=True)]
    return sums[0]


# -- sums in memory ----------------------------------------------------------------------------------------------------


def _sum_up(m: Matrix, taken: Callable[[str], Values], sums: Callable[[str], str], mask: str | None) -> None:
    """Add values * taken(r) to the vectors at sums(column), for all elements of all rows r."""
    lines, v = m.v.lines, m.v

    def row(r: str) -> None:
        begin, end = m.row(r)
        vectors = taken(r)

        def add(i: str) -> None:
            at, value = sums(m.column(i)), m.value(i)
            for q, one in enumerate(vectors):
                place = str(q * v.count)
                v.store(v.fma(value, one, v.load(at, place, mask, dtype=m.dtype)), at, place, mask, dtype=m.dtype)

        count_loop(lines, begin, end, add)

    count_loop(lines, "0", m.R, row)


def _clear(m: Matrix, sums: Callable[[str], str], vectors: int, mask: str | None) -> None:
    def clear(c: str) -> None:
        at = sums(c)
        for q in range(vectors):
            m.v.store(m.v.constant(0.0), at, str(q * m.v.count), mask, dtype=m.dtype)

    count_loop(m.v.lines, "0", m.C, clear)


def write_transposed(lines: Lines, dtype: DataType, index_bits: int) -> None:
    """Write the kernel `transposed`."""
    m = Matrix(lines, dtype, index_bits)
    v = m.v
    first, last = share(lines, m.N, v.count)

    def tile(n: str, vectors: int, mask: str | None) -> None:
        def taken(r: str) -> list[str]:
            row = m.at(m.D, r, n)
            return [v.load(row, str(q * v.count), mask, dtype=dtype) for q in range(vectors)]

        def sums(c: str) -> str:
            return m.at(m.Y, c, n)

        _clear(m, sums, vectors, mask)
        _sum_up(m, taken, sums, mask)

    tiles(v, first, last, TILE, tile)


def write_scattered(lines: Lines, dtype: DataType, index_bits: int) -> None:
    """Write the kernel `scattered`; D and Y are one dense vector each."""
    m = Matrix(lines, dtype, index_bits)
    kind = m.v.scalar

    each_vector(m.v, "0", m.C, lambda i, mask: m.v.store(m.v.constant(0.0), m.Y.address, i, mask, dtype=dtype))

    def row(r: str) -> None:
        begin, end = m.row(r)
        taken = lines.let(f"load {kind}, ptr {element(lines, m.D.address, r, kind)}")

        def add(i: str) -> None:
            value = lines.let(f"load {kind}, ptr {element(lines, m.values, i, kind)}")
            at = element(lines, m.Y.address, m.column(i), kind)
            more = lines.let(f"fmul {kind} {value}, {taken}")
            total = lines.let(f"fadd {kind} {lines.let(f'load {kind}, ptr {at}')}, {more}")
            lines.do(f"store {kind} {total}, ptr {at}")

        count_loop(lines, begin, end, add)

    count_loop(lines, "0", m.R, row)


def write_from_left(lines: Lines, dtype: DataType, index_bits: int) -> None:
    """Write the kernel `from_left`; scratch memory holds `tile_floats` of R + C + 2 vectors for each thread."""
    m = Matrix(lines, dtype, index_bits)
    v = m.v
    first, last = share(lines, m.N, v.count)
    extents = lines.let(f"add i64 {m.R}, {m.C}")
    tall = lines.let(f"mul i64 {lines.let(f'add i64 {extents}, {2 * v.count}')}, {TILE * v.count}")
    turned_D = element(lines, m.scratch, lines.let(f"mul i64 %who, {tall}"), v.scalar)

    def tile(n: str, vectors: int) -> None:
        width = vectors * v.count
        depth = lines.let(f"mul i64 {lines.let(f'add i64 {m.R}, {v.count}')}, {width}")
        turned_Y = element(lines, turned_D, depth, v.scalar)

        def sums(c: str) -> str:
            return element(lines, turned_Y, lines.let(f"mul i64 {c}, {width}"), v.scalar)

        def taken(r: str) -> list[str]:
            row = element(lines, turned_D, lines.let(f"mul i64 {r}, {width}"), v.scalar)
            return [v.load(row, str(q * v.count), None, dtype=dtype) for q in range(vectors)]

        def turn(q: str, dense: Dense, tile: str, way: Callable[[Matrix, Values, str, int], None]) -> None:
            lane = lines.let(f"mul i64 {q}, {v.count}")
            rows = _row_places(m, dense, lines.let(f"add i64 {n}, {lane}"))
            way(m, rows, element(lines, tile, lane, v.scalar), width)

        count_loop(lines, "0", str(vectors), lambda q: turn(q, m.D, turned_D, _turn_in))
        _clear(m, sums, vectors, None)
        _sum_up(m, taken, sums, None)
        count_loop(lines, "0", str(vectors), lambda q: turn(q, m.Y, turned_Y, _turn_out))

    # Lanes without a row of D take the last one, and write what it gives once more.
    missing = lines.let(f"urem i64 {lines.let(f'sub i64 {first}, {last}')}, {v.count}")
    tiles(v, first, lines.let(f"add i64 {last}, {missing}"), TILE, lambda n, vectors, _: tile(n, vectors), rest=False)


def _row_places(m: Matrix, dense: Dense, n: str) -> list[str]:
    """Return where rows n, n + 1 ... begin, as many as there are lanes; behind the last row comes the last again."""
    lines = m.v.lines
    last = lines.let(f"sub i64 {m.N}, 1")
    found: list[str] = []
    for lane in range(m.v.count):
        row = lines.least(lines.let(f"add i64 {n}, {lane}"), last)
        found.append(m.at(dense, row, "0"))
    return found


def _turn_in(m: Matrix, rows: Values, tile: str, width: int) -> None:
    """Write column r of some rows of D to line r of a tile, R of them and some of zeros; lines are `width` apart."""
    v = m.v

    def block(r: str, mask: str | None) -> None:
        turned = transposed(v, [v.load(row, r, mask, dtype=m.dtype) for row in rows])
        for lane, vector in enumerate(turned):
            v.store(vector, _line(v, tile, r, lane, width), "0", None, dtype=m.dtype)

    each_vector(v, "0", m.R, block)


def _turn_out(m: Matrix, rows: Values, tile: str, width: int) -> None:
    """Write line c of a tile to column c of some rows of Y, for all C lines."""
    v = m.v

    def block(c: str, mask: str | None) -> None:
        lines_of_tile = [v.load(_line(v, tile, c, lane, width), "0", None, dtype=m.dtype) for lane in range(v.count)]
        for row, vector in zip(rows, transposed(v, lines_of_tile), strict=True):
            v.store(vector, row, c, mask, dtype=m.dtype)

    each_vector(v, "0", m.C, block)


def _line(v: Vector, tile: str, first: str, lane: int, width: int) -> str:
    index = v.lines.let(f"mul i64 {v.lines.let(f'add i64 {first}, {lane}')}, {width}")
    return element(v.lines, tile, index, v.scalar)


def transposed(v: Vector, vectors: Values) -> list[str]:
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


def exchanged(v: Vector, a: str, b: str, step: int) -> tuple[str, str]:
    """Return two vectors after lanes i + step of a and lanes i of b changed places, for all i that have not `step`."""
    lanes = range(v.count)
    low = [v.count + i - step if i & step else i for i in lanes]
    high = [v.count + i if i & step else i + step for i in lanes]
    return v.lines.shuffle(v.type, low, a, b), v.lines.shuffle(v.type, high, a, b)
