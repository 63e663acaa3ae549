"""Reductions of segments and their gradients: rows are joined in registers, segments are shared by threads.

What joins rows is written from the formulas of the table of reducers, what divides them stands in `division`. Threads
share the segments by their rows. An index is looked at before anything is read with it; a thread that finds one wrong
leaves a status, and what is wrong is then said in Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tazza.codegen.block import BlockLaunch, Check, Memory, Scratch, Slot, Word
from tazza.codegen.fields import Fields
from tazza.codegen.function import Emission
from tazza.codegen.kernel import threads_of
from tazza.codegen.loop import carry_loop, count_loop, lane_sums, lanes_of
from tazza.codegen.rows import LINES_ASKED, ROWS, ask_ahead, finish_status, index_at, stop_if
from tazza.codegen.term import Lines, Term
from tazza.codegen.vector import KINDS, Vector
from tazza.data_class import dataclass
from tazza.engines.native import SOURCES, native
from tazza.engines.native.embedding.codes import Codes, Row
from tazza.engines.native.sparse.division import ORDERED, Places, divide
from tazza.engines.native.sparse.gather import Form, of_letters, part_copies
from tazza.engines.native.sparse_product import TILE, shared_rows, tiles
from tazza.operator import Launch, Operands, OpView, SizedLaunch
from tazza.ops.sparse.reducer import Reducer
from tazza.ops.sparse.segment import Division, check_rows, row_count
from tazza.ops.sparse.segment_reduction import segment_gradients, segment_reductions
from tazza.tensor import DataType, TensorSpec
from tazza.tensor.expression import Expression

FLOAT = DataType.FLOAT
POINTERS = "by:i32 starts:i64 order:i64 DATA INDICES SCALARS Y dY dX dSCALARS scale_bias"
BLOCK = Fields("rows table", addresses=POINTERS, after=ROWS)
"""N = M segments, D elements of a row, rows that are taken, rows of the table; 0 where there is no such blob."""
AHEAD = 12
"""How many indices before its turn a row is asked for."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a kernel is written from, and told apart by.

    `codes` says how rows of DATA in few bits are kept.
    """

    reducer: Reducer
    division: Division
    dtype: DataType
    index_bits: int
    weights: bool = False
    unread: frozenset[str] = frozenset()
    codes: Codes | None = None

    def reads(self, letter: str) -> bool:
        """Whether the kernel reads or writes the elements of a letter."""
        return letter not in self.unread

    @property
    def ordered(self) -> bool:
        """Whether rows do not lie in the order of segments."""
        return self.division.name in ORDERED

    def __str__(self) -> str:
        """Return what tells it apart from other kernels."""
        r = self.reducer
        formulas = (r.start, r.join, r.finish, r.back, r.back_scalar)
        return f"{self.division.name} {formulas} {self.dtype} {self.index_bits} {self.weights} {self.codes}"


class Segments:
    """The words of a kernel's block, the vectors that it computes with, and the loop over its segments."""

    def __init__(self, lines: Lines, work: Work) -> None:
        """Read the words, and write where segments begin."""
        self.lines, self.work, self.v = lines, work, lanes_of(lines)
        self.at = at = BLOCK.loaded(lines)
        self.count, self.width, self.rows, self.table = at.N, at.D, at.rows, at.table
        self.places = Places(lines, self.count, self.rows, at.by, at.starts, at.order)
        divide(work.division, self.places)

    def each(self, body: Callable[[Term, Term, Term], None]) -> None:
        """Run `body(m, begin, end)` for the segments of this thread, which has its part of the rows."""
        lines, p = self.lines, self.places

        def segment(m: Term) -> None:
            begin, end = p.start(m), p.start(m + 1)
            if self.work.index_bits:
                count_loop(lines, begin, end, self._look)
            body(m, begin, end)

        count_loop(lines, *shared_rows(lines, self.rows, self.count, p.start), segment)

    def place(self, i: Term) -> Term:
        """Return which of the rows that are taken is number i in the order of segments."""
        return self.at.order[i] if self.work.ordered else i

    def picked(self, place: Term) -> Term:
        """Return the row of DATA of one that is taken."""
        bits = self.work.index_bits
        return index_at(self.at.INDICES, place, bits) if bits else place

    def _look(self, i: Term) -> None:
        if not self.work.ordered:
            # A row in few bits is short.
            asked = LINES_ASKED if self.work.codes is None else LINES_ASKED // 2
            ask_ahead((i, AHEAD, self.rows), self._begins, asked)
        stop_if(self.picked(self.place(i)).outside(self.table))

    def _begins(self, i: Term) -> list[Term]:
        """Return the address of the row of DATA that index i picks, right or wrong."""
        number, codes = self.picked(i), self.work.codes
        nbytes = self.width * self.work.dtype.itemsize if codes is None else codes.row_bytes(self.width)
        return [self.at.DATA.bytes_on(number * nbytes)]

    def row(self, name: str, number: Term, n: Term, dtype: DataType = FLOAT) -> Term:
        """Return the address of element n of a row."""
        return self.at[name].of(KINDS[dtype]).at(number * self.width + n)

    def vectors(self, name: str, number: Term, n: Term, vectors: int, mask: Term | None) -> list[Term]:
        """Return so many vectors of a row from element n on."""
        if name == "DATA" and self.work.codes is not None:
            row = Row(self.at[name], self.at.scale_bias, number, self.width)
            return self.work.codes.decoded(self.v, row, n, vectors, mask)
        dtype = self.work.dtype if name == "DATA" else FLOAT
        at = self.row(name, number, n, dtype)
        return [self.v.load(at, q * self.v.count, mask, dtype=dtype) for q in range(vectors)]

    def scalar(self, place: Term) -> Term:
        """Return a vector full of the scalar of a row."""
        return self.v.load_one(self.at.SCALARS.at(place))

    def size(self, begin: Term, end: Term) -> Term:
        """Return a vector full of the number of rows of a segment."""
        return self.v.full((end - begin).to_unsigned("float"))


def written(v: Vector, text: str, values: Mapping[str, Term]) -> Term:
    """Return the vector of a formula."""
    return Emission(v, values).write(Expression.parse(text))


# -- forward -----------------------------------------------------------------------------------------------------------


def write_reduction(lines: Lines, work: Work) -> None:
    """Write Y[m] = the rows of segment m joined."""
    s, reducer = Segments(lines, work), work.reducer
    v = s.v

    def segment(m: Term, begin: Term, end: Term) -> None:
        n, is_empty = s.size(begin, end), begin.equals(end)

        def tile(at: Term, vectors: int, mask: Term | None) -> None:
            def joined(start: float, text: str, tops: Sequence[Term]) -> list[Term]:
                def join(i: Term, sums: Sequence[Term]) -> list[Term]:
                    place = s.place(i)
                    rows = s.vectors("DATA", s.picked(place), at, vectors, mask)
                    more = {"n": n, **({"w": s.scalar(place)} if reducer.weighted else {})}
                    given = zip(sums, rows, tops, strict=True)
                    return [written(v, text, {**more, "y": y, "x": x, "top": top}) for y, x, top in given]

                return carry_loop(begin, end, [v.constant(start)] * vectors, join)

            tops = [v.constant(0.0)] * vectors
            if reducer.topped:
                tops = [written(v, "where(isfinite(y), y, 0)", {"y": y}) for y in joined(-math.inf, "max(y, x)", tops)]
            for q, (y, top) in enumerate(zip(joined(reducer.start, reducer.join, tops), tops, strict=True)):
                result = is_empty.choose(0.0, written(v, reducer.finish, {"y": y, "n": n, "top": top}))
                v.store(result, s.row("Y", m, at), q * v.count, mask)

        tiles(v, 0, s.width, TILE, tile)

    s.each(segment)


# -- backward ----------------------------------------------------------------------------------------------------------


def write_spread(lines: Lines, work: Work) -> None:
    """Write dX[n] = what each row n of segment m gets of dY[m], and what its scalar gets."""
    s, reducer = Segments(lines, work), work.reducer
    v, names = s.v, Expression.parse(work.reducer.back).names

    def segment(m: Term, begin: Term, end: Term) -> None:
        n = s.size(begin, end)

        def tile(at: Term, vectors: int, mask: Term | None) -> None:
            blobs = {name: blob for name, blob in (("dy", "dY"), ("y", "Y")) if name in names}
            known = {name: s.vectors(blob, m, at, vectors, mask) for name, blob in blobs.items()}

            def row(i: Term) -> None:
                place = s.place(i)
                mine = dict(known)
                if "x" in names:
                    mine["x"] = s.vectors("DATA", s.picked(place), at, vectors, mask)
                if "w" in names:
                    mine["w"] = [s.scalar(place)] * vectors
                target = s.row("dX", place, at)
                for q in range(vectors):
                    values = {"n": n, **{name: found[q] for name, found in mine.items()}}
                    v.store(written(v, reducer.back, values), target, q * v.count, mask)

            count_loop(lines, begin, end, row)

        tiles(v, 0, s.width, TILE, tile)
        if work.weights:
            count_loop(lines, begin, end, lambda i: _weigh(s, m, s.place(i)))

    s.each(segment)


def _weigh(s: Segments, m: Term, place: Term) -> None:
    """Write what the scalar of a row gets: a sum over its elements."""
    v, row = s.v, s.picked(place)

    def term(i: Term, mask: Term | None) -> Term:
        values = {"dy": s.vectors("dY", m, i, 1, mask)[0], "x": s.vectors("DATA", row, i, 1, mask)[0]}
        return written(v, s.work.reducer.back_scalar, values)

    s.at.dSCALARS[place] = lane_sums(v, 0, s.width, term).sum()


NO_OTHERS: Mapping[str, str] = {}

# -- launches ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shapes:
    """Extents of one call: segments, elements of a row, rows that are taken, rows of the table."""

    segments: int
    width: int
    rows: int
    table: int


def segment_launch(
    op: OpView,
    write: Callable[[Lines, Work], None],
    work: Work,
    shapes: Shapes,
    noun: str,
    letters: Mapping[str, str] = NO_OTHERS,
) -> BlockLaunch:
    """Return the launch of a kernel; inputs whose shape counts alone have no address in its block.

    `letters` says what the operator calls an input where that is not its name here.
    """
    division, dtype = work.division, work.dtype
    name = "reduction" if write is write_reduction else "spread"
    address = SOURCES.compiled(f"segments {name}: {work}", lambda lines: write(lines, work), finish_status)
    threads = threads_of(shapes.rows + shapes.segments, shapes.width, 4 * shapes.width)
    starts, order = 8 * (shapes.segments + 1), 8 * shapes.rows if work.ordered else 0
    own = op.schema.dynamic  # sizes were found just now: there is no scratch memory of theirs
    places: dict[str, Word] = {
        **dict.fromkeys((name for name, type in BLOCK.types.items() if type == "ptr"), 0),
        "by": Slot(division.letter),
        "starts": Memory(starts) if own else Scratch(),
        "order": Memory(order) if own else Scratch(starts),
    }
    there = {*op.input_letters, *op.output_letters}
    for name in places:
        letter = letters.get(name, name)
        if letter in there and work.reads(letter):
            places[name] = Slot(letter)
    words = BLOCK.words(
        threads=threads, N=shapes.segments, D=shapes.width, rows=shapes.rows, table=shapes.table, **places
    )
    return BlockLaunch(
        address, words, 0 if own else starts + order, check=_check(op, work, shapes, noun), implementation=str(dtype)
    )


def _check(op: OpView, work: Work, shapes: Shapes, noun: str) -> Check:
    """Return what says what is wrong with a division, or with indices."""
    division = work.division

    def check(operands: Operands) -> None:
        by = operands[division.letter].array
        if op.output_letters == ("Y",):
            division.count(op, by)
        division.parts(op, by, shapes.rows, shapes.segments, noun)
        if work.index_bits:
            check_rows(op, operands["INDICES"].array, shapes.table)

    return check


@native(*segment_reductions.schemas)
def prepare_forward(
    op: OpView, DATA: TensorSpec, INDICES: TensorSpec | None, specs: Mapping[str, TensorSpec]
) -> Launch:
    """Compile the rows of segments joined."""
    one = segment_reductions.rows[op.type]
    division = one.kind.division
    bits = 8 * INDICES.dtype.itemsize if INDICES is not None else 0
    rows, width = DATA.shape[0] if INDICES is None else INDICES.size, math.prod(DATA.shape[1:])
    work = Work(one.reducer, division, DATA.dtype, bits)

    def launch(segments: int) -> BlockLaunch:
        return segment_launch(op, write_reduction, work, Shapes(segments, width, rows, DATA.shape[0]), one.kind.noun)

    if not division.counted:
        return launch(specs[division.letter].size)
    return SizedLaunch(
        lambda operands: {"Y": (division.count(op, operands[division.letter].array), *DATA.shape[1:])},
        lambda sizes: launch(sizes["Y"][0]),
        {"Y": FLOAT},
    )


@native(*segment_gradients.schemas)
def prepare_backward(op: OpView, dY: TensorSpec, specs: Mapping[str, TensorSpec]) -> Launch:
    """Compile what each row gets of the gradient of its segment."""
    row = segment_gradients.rows[op.type]
    division = row.division
    bits = 8 * specs["INDICES"].dtype.itemsize if row.gathered else 0
    table = specs["DATA"].shape[0] if row.gathered else 0
    work = Work(row.reducer, division, FLOAT, bits, row.weights, row.shapes)
    segments, width = dY.shape[0], math.prod(dY.shape[1:])

    def launch(rows: int) -> BlockLaunch:
        shapes = Shapes(segments, width, rows, table)
        if not work.ordered or row.weights or row.reducer.back != "dy" or segments == 0:
            return segment_launch(op, write_spread, work, shapes, row.noun)
        # A row gets that of its segment as it is: a copy needs no order of rows.
        slots = of_letters(division.letter, "dY", "dX")
        copies = part_copies((1, segments, width), Form(32, FLOAT.itemsize), specs[division.letter], slots)
        return replace(copies, check=_check(op, work, shapes, row.noun))

    if row.told:
        return launch(specs[op.output_letters[0]].shape[0])
    return SizedLaunch(
        lambda operands: {"dX": (row_count(op, division.letter, operands[division.letter].array), *dY.shape[1:])},
        lambda sizes: launch(sizes["dX"][0]),
        {"dX": FLOAT},
    )
