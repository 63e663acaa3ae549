"""ArgMax and ArgMin: the best of each row, then its place; or both from row to row, for vectors of columns.

X is B x n x K with n along the axis. Where K is 1, a row is read in blocks: a block is looked at again only if its best
is better than all before. Few long rows are cut into chunks, whose bests are compared at the end. Nothing is better
than the first element, so that what is found behind it is truly better; NaN, which never is, has no case of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from tazza.codegen.block import BlockLaunch, Scratch
from tazza.codegen.denormal import with_denormals
from tazza.codegen.fields import Fields, Reader
from tazza.codegen.kernel import lane_count, threads_for
from tazza.codegen.loop import Terms, carry_loop, count_loop, lanes_below, share, share_one, sweep, when, while_loop
from tazza.codegen.term import Lines, Term
from tazza.codegen.typed_function import folded
from tazza.codegen.vector import MEMORY, Vector
from tazza.data_class import dataclass
from tazza.engines.native import SOURCES, native
from tazza.engines.native.sparse_product import tiles
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.reduce.arg_max import arg_axis, arg_extremes
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType, TensorSpec

WORDS = Fields("threads rows chunks along behind by_rows", addresses="X Y:i64 best")
"""Rows are B, or B * K where they lie along the lanes; `best` has a number for each chunk of each row."""
BLOCK, TILE = 1024, 4
"""Elements of a row that are looked at again, and vectors of columns side by side."""
LEAST_CHUNK = 1 << 14
MOST_NARROW = 2**31
"""Places in lanes of 32 bits are below this."""


@dataclass(frozen=True, slots=True)
class Search:
    """What tells kernels apart: the type of elements, and whether the largest is looked for."""

    dtype: DataType
    largest: bool

    def better(self, a: Term, b: Term) -> Term:
        """Return the mask of where a is better than b."""
        return a > b if self.largest else a < b

    def folded(self, v: Vector, value: Term) -> Term:
        """Return the best lane, as a vector full of it."""
        return folded(v, value, "max" if self.largest else "min").shuffle([0] * v.count)


@native(arg_extremes["ArgMax"], arg_extremes["ArgMin"])
def prepare_arg_extreme(op: OpView, X: TensorSpec) -> Launch:
    """Compile the search."""
    axis = arg_axis(op, len(X.shape))
    B, n, K = math.prod(X.shape[:axis]), X.shape[axis], math.prod(X.shape[axis + 1 :])
    if n >= MOST_NARROW:
        raise Unsupported(f"{n} elements along the axis: places are counted in 32 bits")
    search, most = Search(X.dtype, op.type == "ArgMax"), thread_count()
    threads = threads_for(most, X.size, 1, X.dtype.itemsize)
    write: Callable[[Lines], None] = partial(_write_columns, search=search)
    finish, chunks, by_rows = None, 1, B >= 4 * threads
    if K == 1:
        chunks = max(1, min(threads, n // LEAST_CHUNK)) if not by_rows else 1
        threads = max(1, min(threads, B * chunks))
        write, finish = partial(_write_rows, search=search), partial(_finish_rows, search=search)
    kind = f"place of the {'largest' if search.largest else 'least'} {X.dtype.label} {'rows' if K == 1 else 'columns'}"
    words = WORDS.words(threads=threads, rows=B, chunks=chunks, along=n, behind=K, by_rows=int(by_rows), best=Scratch())
    return BlockLaunch(SOURCES.compiled(kind, write, finish), words, 16 * max(1, B * chunks))


# -- rows along the lanes ----------------------------------------------------------------------------------------------


def _write_rows(lines: Lines, *, search: Search) -> None:
    """Find the best of each chunk of each row, and its place: 0 where none is better than the first element."""
    w, v = WORDS.loaded(lines), Vector(lines, lane_count(8 * search.dtype.itemsize), search.dtype)
    kind, along, chunks = MEMORY[search.dtype], w.along, w.chunks
    best, block = lines.room(v.type), lines.room("i64")

    def part(item: Term) -> None:
        r, c = item // chunks, item % chunks
        x = w.X.of(kind).at(r * along)
        begin, end = (along * one // chunks for one in (c, c + 1))
        place = _places(w).at(item)
        place.store(0)
        when(end > begin, lambda: search_in(x, begin, end, place))
        value, several = best.load().lane(0), chunks > 1
        at = w.best.of(kind).at(item)
        when(several, lambda: at.of(v.scalar).store(value))

    def search_in(x: Term, begin: Term, end: Term, place: Term) -> None:
        best.store(v.load_one(x))
        block.store(-1)

        def some(k: Term) -> None:
            first = begin + k * BLOCK
            last = (first + BLOCK).at_most(end)
            before = best.load()

            def fold(i: Term, mask: Term | None, carried: Sequence[Term]) -> Sequence[Term]:
                here = v.load(x, i, mask)
                here = here.masked(mask, carried[0])
                return [search.better(here, carried[0]).choose(here, carried[0])]

            top = search.folded(v, sweep(v, first, last, fold, [before])[0])

            def keep() -> None:
                best.store(top)
                block.store(first)

            when(search.better(top, before).lane(0), keep)

        count_loop(lines, 0, (end - begin).pieces(BLOCK), some)
        found = block.load()
        when(found >= 0, lambda: place.store(_first_equal(v, x, found, end, best.load())))

    with_denormals(lines, lambda: count_loop(lines, *share(lines, w.rows * chunks), part))


def _places(w: Reader) -> Term:
    """Return where places go: to Y, or behind the bests where rows are cut."""
    behind = w.best.of("i64").at(w.rows * w.chunks)
    return (w.chunks > 1).choose(behind, w.Y)


def _first_equal(v: Vector, x: Term, begin: Term, end: Term, wanted: Term) -> Term:
    """Return the first place from `begin` on whose element is `wanted`; there is one."""
    hits: list[Term] = []

    def more(values: Terms) -> Term:
        mask = lanes_below(v, end - values[0])
        hits.append((mask & v.load(x, values[0], mask).equals(wanted)).bitcast(f"i{v.count}"))
        return hits[0].equals(0)

    (i,) = while_loop(v.lines, [begin], more, lambda values: [values[0] + v.count])
    return i + hits[0].trailing_zeros().to_unsigned("i64")


def _finish_rows(lines: Lines, *, search: Search) -> None:
    """Write the place of the best chunk of each row, the first of equal ones, where rows are cut."""
    w, v = WORDS.loaded(lines), Vector(lines, 1, search.dtype)
    chunks = w.chunks

    def row(r: Term) -> None:
        start = r * chunks

        def best(c: Term, carried: Sequence[Term]) -> list[Term]:
            here, there = (v.load(w.best, start + one, None) for one in (c, carried[0]))
            return [search.better(here, there).lane(0).choose(c, carried[0])]

        (found,) = carry_loop(1, chunks, [0], best)
        w.Y[r] = _places(w)[start + found]

    when(chunks > 1, lambda: with_denormals(lines, lambda: count_loop(lines, 0, w.rows, row)))
    lines.do("ret i64 0")


# -- rows side by side -------------------------------------------------------------------------------------------------


def _write_columns(lines: Lines, *, search: Search) -> None:
    """Carry the bests of vectors of columns and their places, as bits of elements, from one row to the next."""
    w, v = WORDS.loaded(lines), Vector(lines, lane_count(8 * search.dtype.itemsize), search.dtype)
    whole, long = f"<{v.count} x i{8 * search.dtype.itemsize}>", Vector(lines, v.count, DataType.INT64)
    kind, along, behind = MEMORY[search.dtype], w.along, w.behind
    (first, last), (begin, end) = share_one(lines, w.by_rows, w.rows, behind, TILE * v.count)

    def numbered(r: Term) -> Term:
        integer = Vector(lines, v.count, DataType.INT64 if search.dtype.itemsize == 8 else DataType.INT32)
        return integer.full(r).bitcast(v.type)

    def outer(b: Term) -> None:
        x, y = w.X.of(kind).at(b * along * behind), w.Y.at(b * behind)

        def tile(column: Term, vectors: int, mask: Term | None) -> None:
            places = [column + k * v.count for k in range(vectors)]

            def row(r: Term, carried: Sequence[Term]) -> list[Term]:
                line, number = r * behind, numbered(r)
                found: list[Term] = []
                for k, place in enumerate(places):
                    here = v.load(x, line + place, mask)
                    above = search.better(here, carried[2 * k])
                    found += [above.choose(a, b) for a, b in zip((here, number), carried[2 * k :], strict=False)]
                return found

            starts = [one for place in places for one in (v.load(x, place, mask), v.constant(0))]
            ends = carry_loop(1, along, starts, row)
            for place, number in zip(places, ends[1::2], strict=True):
                long.store(number.bitcast(whole).to_unsigned(long.scalar), y, place, mask)

        def nothing(column: Term, vectors: int, mask: Term | None) -> None:
            for k in range(vectors):
                long.store(long.constant(0), y, column + k * v.count, mask)

        when(along > 0, lambda: tiles(v, begin, end, TILE, tile), lambda: tiles(v, begin, end, TILE, nothing))

    with_denormals(lines, lambda: count_loop(lines, first, last, outer))
