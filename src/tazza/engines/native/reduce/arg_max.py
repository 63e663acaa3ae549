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
from tazza.codegen.emit import MEMORY, Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.kernel import lane_count, threads_for
from tazza.codegen.loop import Values, count_loop, lanes_below, share, share_one, step_loop, sweep, while_loop
from tazza.codegen.rows import element, when
from tazza.codegen.typed import folded
from tazza.codegen.writer import Writer
from tazza.data_class import dataclass
from tazza.engines.native import SOURCES, native
from tazza.engines.native.sparse_product import tiles
from tazza.operator import Launch, OpView, Unsupported
from tazza.ops.reduce.arg_max import arg_axis, arg_extremes
from tazza.runtime.threads import thread_count
from tazza.tensor import DataType, TensorSpec

WORDS = Fields("threads rows chunks along behind by_rows", addresses="X Y best")
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

    def better(self, v: Vector, a: str, b: str) -> str:
        """Return the mask of where a is better than b."""
        name = "gt" if self.largest else "lt"
        text = f"fcmp o{name}" if self.dtype.is_float else f"icmp s{name}"
        return v.lines.let(f"{text} {v.type} {a}, {b}")

    def folded(self, v: Vector, value: str) -> str:
        """Return the best lane, as a vector full of it."""
        one = folded(v, value, "max" if self.largest else "min")
        return v.lines.let(
            f"shufflevector <1 x {v.scalar}> {one}, <1 x {v.scalar}> poison, <{v.count} x i32> zeroinitializer"
        )


@native(arg_extremes["ArgMax"], arg_extremes["ArgMin"])
def prepare_arg_extreme(op: OpView, X: TensorSpec) -> Launch | Unsupported:
    """Compile the search."""
    axis = arg_axis(op, len(X.shape))
    B, n, K = math.prod(X.shape[:axis]), X.shape[axis], math.prod(X.shape[axis + 1 :])
    if n >= MOST_NARROW:
        return Unsupported(f"{n} elements along the axis: places are counted in 32 bits")
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
    w, v = Writer(lines, WORDS), Vector(lines, lane_count(8 * search.dtype.itemsize), search.dtype)
    kind, along, chunks = MEMORY[search.dtype], w.w.along, w.w.chunks
    best, block = lines.let(f"alloca {v.type}"), lines.let("alloca i64")

    def part(item: str) -> None:
        r, c = w.div(item, chunks), w.rem(item, chunks)
        x = element(lines, w.w.X, w.mul(r, along), kind)
        begin, end = (w.div(w.mul(along, one), chunks) for one in (c, w.add(c, 1)))
        place = element(lines, _places(w), item, "i64")
        lines.do(f"store i64 0, ptr {place}")
        when(lines, lines.let(f"icmp sgt i64 {end}, {begin}"), lambda: search_in(x, begin, end, place))
        value = lines.let(f"extractelement {v.type} {lines.let(f'load {v.type}, ptr {best}')}, i32 0")
        several = lines.let(f"icmp sgt i64 {chunks}, 1")
        at = element(lines, w.w.best, item, kind)
        when(lines, several, lambda: lines.do(f"store {v.scalar} {value}, ptr {at}"))

    def search_in(x: str, begin: str, end: str, place: str) -> None:
        lines.do(f"store {v.type} {v.load_one(x)}, ptr {best}")
        lines.do(f"store i64 -1, ptr {block}")

        def some(k: str) -> None:
            first = w.add(begin, w.mul(k, BLOCK))
            last = w.least(w.add(first, str(BLOCK)), end)
            before = lines.let(f"load {v.type}, ptr {best}")

            def fold(i: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
                here = v.load(x, i, mask)
                here = here if mask is None else v.select(mask, here, carried[0])
                return (v.select(search.better(v, here, carried[0]), here, carried[0]),)

            top = search.folded(v, sweep(v, first, last, fold, (before,))[0])
            above = lines.let(f"extractelement <{v.count} x i1> {search.better(v, top, before)}, i32 0")

            def keep() -> None:
                lines.do(f"store {v.type} {top}, ptr {best}")
                lines.do(f"store i64 {first}, ptr {block}")

            when(lines, above, keep)

        count_loop(lines, "0", w.pieces(w.sub(end, begin), BLOCK), some)
        found = lines.let(f"load i64, ptr {block}")

        def look() -> None:
            number = _first_equal(v, x, found, end, lines.let(f"load {v.type}, ptr {best}"))
            lines.do(f"store i64 {number}, ptr {place}")

        when(lines, lines.let(f"icmp sge i64 {found}, 0"), look)

    with_denormals(lines, lambda: count_loop(lines, *share(lines, w.mul(w.w.rows, chunks)), part))


def _places(w: Writer) -> str:
    """Return where places go: to Y, or behind the bests where rows are cut."""
    behind = element(w.lines, w.w.best, w.mul(w.w.rows, w.w.chunks), "i64")
    several = w.lines.let(f"icmp sgt i64 {w.w.chunks}, 1")
    return w.lines.let(f"select i1 {several}, ptr {behind}, ptr {w.w.Y}")


def _first_equal(v: Vector, x: str, begin: str, end: str, wanted: str) -> str:
    """Return the first place from `begin` on whose element is `wanted`; there is one."""
    lines, bits, compare = v.lines, f"i{v.count}", "fcmp oeq" if v.dtype.is_float else "icmp eq"
    hits = ""

    def more(values: Values) -> str:
        nonlocal hits
        mask = lanes_below(v, lines.let(f"sub i64 {end}, {values[0]}"))
        same = lines.let(f"{compare} {v.type} {v.load(x, values[0], mask)}, {wanted}")
        found = lines.let(f"and <{v.count} x i1> {mask}, {same}")
        hits = lines.let(f"bitcast <{v.count} x i1> {found} to {bits}")
        return lines.let(f"icmp eq {bits} {hits}, 0")

    (i,) = while_loop(lines, [("i64", begin)], more, lambda values: [lines.let(f"add i64 {values[0]}, {v.count}")])
    lines.declare(f"{bits} @llvm.cttz.{bits}({bits}, i1)")
    lane = lines.let(f"call {bits} @llvm.cttz.{bits}({bits} {hits}, i1 true)")
    return lines.let(f"add i64 {i}, {lines.let(f'zext {bits} {lane} to i64')}")


def _finish_rows(lines: Lines, *, search: Search) -> None:
    """Write the place of the best chunk of each row, the first of equal ones, where rows are cut."""
    w, v = Writer(lines, WORDS), Vector(lines, 1, search.dtype)
    chunks = w.w.chunks

    def row(r: str) -> None:
        start = w.mul(r, chunks)

        def best(c: str, carried: Sequence[str]) -> list[str]:
            here, there = (v.load(w.w.best, w.add(start, one), None) for one in (c, carried[0]))
            above = lines.let(f"extractelement <1 x i1> {search.better(v, here, there)}, i32 0")
            return [lines.let(f"select i1 {above}, i64 {c}, i64 {carried[0]}")]

        _, (found,) = step_loop(lines, "i64", ("1", chunks, 1), ["0"], best)
        place = lines.let(f"load i64, ptr {element(lines, _places(w), w.add(start, found), 'i64')}")
        lines.do(f"store i64 {place}, ptr {element(lines, w.w.Y, r, 'i64')}")

    several = lines.let(f"icmp sgt i64 {chunks}, 1")
    when(lines, several, lambda: with_denormals(lines, lambda: count_loop(lines, "0", w.w.rows, row)))
    lines.do("ret i64 0")


# -- rows side by side -------------------------------------------------------------------------------------------------


def _write_columns(lines: Lines, *, search: Search) -> None:
    """Carry the bests of vectors of columns and their places, as bits of elements, from one row to the next."""
    w, v = Writer(lines, WORDS), Vector(lines, lane_count(8 * search.dtype.itemsize), search.dtype)
    whole, long = f"<{v.count} x i{8 * search.dtype.itemsize}>", Vector(lines, v.count, DataType.INT64)
    kind, along, behind = MEMORY[search.dtype], w.w.along, w.w.behind
    (first, last), (begin, end) = share_one(lines, w.w.by_rows, w.w.rows, behind, TILE * v.count)

    def numbered(r: str) -> str:
        integer = Vector(lines, v.count, DataType.INT64 if search.dtype.itemsize == 8 else DataType.INT32)
        return lines.let(f"bitcast {whole} {integer.full(r)} to {v.type}")

    def outer(b: str) -> None:
        x = element(lines, w.w.X, w.mul(w.mul(b, along), behind), kind)
        y = element(lines, w.w.Y, w.mul(b, behind), "i64")

        def tile(column: str, vectors: int, mask: str | None) -> None:
            places = [w.add(column, k * v.count) for k in range(vectors)]

            def row(r: str, carried: Sequence[str]) -> list[str]:
                line, number = w.mul(r, behind), numbered(r)
                found: list[str] = []
                for k, place in enumerate(places):
                    here = v.load(x, w.add(line, place), mask)
                    above = search.better(v, here, carried[2 * k])
                    found += [v.select(above, *pair) for pair in zip((here, number), carried[2 * k :], strict=False)]
                return found

            starts = [one for place in places for one in (v.load(x, place, mask), "zeroinitializer")]
            _, ends = step_loop(lines, v.type, ("1", along, 1), starts, row)
            for place, number in zip(places, ends[1::2], strict=True):
                bits = lines.let(f"bitcast {v.type} {number} to {whole}")
                wide = bits if whole == long.type else lines.let(f"zext {whole} {bits} to {long.type}")
                long.store(wide, y, place, mask)

        def nothing(column: str, vectors: int, mask: str | None) -> None:
            for k in range(vectors):
                long.store(long.constant(0), y, w.add(column, k * v.count), mask)

        some = lines.let(f"icmp sgt i64 {along}, 0")
        when(
            lines,
            some,
            lambda: tiles(v, begin, end, TILE, tile),
            lambda: tiles(v, begin, end, TILE, nothing),
        )

    with_denormals(lines, lambda: count_loop(lines, first, last, outer))
