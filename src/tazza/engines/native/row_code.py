"""The code of kernels that go over rows: totals, numbers of a row, elements.

Letters as in `operator.row_program`: B x D x K. Where K is 1 a row lies along the lanes, which are joined at its end;
else lanes are rows side by side. Elements are joined in float32 for some vectors at most, what comes of these in
float64.

Where rows are cut into chunks, all threads make totals of chunks, wait for each other, and join them in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tazza.codegen.fields import Fields
from tazza.codegen.function import Emission
from tazza.codegen.loop import carry_loop, count_loop, lanes_below, share, sweep, when
from tazza.codegen.row_plan import Operand, RowForm
from tazza.codegen.rows import report
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.vector import MEMORY, Vector
from tazza.codegen.writer import Writer
from tazza.data_class import dataclass
from tazza.operator import Expression
from tazza.operator.row_program import JOINS
from tazza.tensor import DataType

ITEMS = Fields(
    "along behind outer plane width", addresses="scratch", after=Fields("threads items chunks", own="status")
)
"""Extents, the elements of each of the O, and how far along what is cut there is joined in float32. Behind that stand
the addresses of operands, given numbers, and of letters that begin anew how many rows share a number, and how many
there are."""

BORDER = 64
"""Borders between chunks of a row lie at multiples of so many elements: loads and stores cross no line then."""


@dataclass(frozen=True, slots=True)
class Form:
    """What tells kernels apart.

    Attributes:
        rows: what is computed.
        lanes: of a vector.
        across: whether lanes are rows side by side.
        outer: whether rows have parts that lie apart.
        cut: whether rows are cut into chunks.
    """

    rows: RowForm
    lanes: int
    across: bool
    outer: bool
    cut: bool

    def __str__(self) -> str:
        """Return what names the kernel; complete."""
        return f"rows {self.lanes} {self.across} {self.outer} {self.cut} {self.rows}"


def write_nested(lines: Lines, forms: tuple[Form, Form], words: int) -> None:
    """Do all that is done with a row, then with the rows of another kernel that it is made of, while it is near.

    The words of the other one stand behind the `words` of the first.
    """
    around, within = Rows(lines, forms[0]), Rows(lines, forms[1], words)
    each = within.w.items // around.w.items.at_least(1)

    def item(i: Term) -> None:
        around.whole(i)
        start = i * each
        count_loop(lines, start, start + each, within.whole)

    count_loop(lines, *share(lines, around.w.items), item)


Body = Callable[[Term, Term, "Term | None", Sequence[Term]], Sequence[Term]]
Span = tuple[Number, Term]


@dataclass(frozen=True, slots=True)
class _Item:
    """A row, or some rows side by side: its number of matrix, its first row, and which lanes there are."""

    b: Term
    row: Term
    mask: Term | None


class Rows:
    """Writes the passes over the rows of a thread."""

    def __init__(self, lines: Lines, form: Form, first: int = 0) -> None:
        """Load what the block says from that word on."""
        self.lines, self.form, self.rows = lines, form, form.rows
        self.write_words = Writer(lines, ITEMS, first)
        self.w, tail = self.write_words.w, self.write_words.tail
        pointers = tail.take(len(self.rows.operands), "ptr")
        operands = self.rows.operands
        self.at = {one.name: at.of(MEMORY[one.dtype]) for one, at in zip(operands, pointers, strict=True)}
        self.operands = {one.name: one for one in operands}
        self.v = Vector(lines, form.lanes, form.rows.computed)
        self.numbers = Vector(lines, form.lanes if form.across else 1, DataType.DOUBLE)
        """What there is one of for each row."""
        self.extent = self.w["outer" if form.outer else "along"]
        """Along which rows are gone through, and cut."""
        elements = (self.w.outer * self.w.along).at_least(1)  # what is divided by the number of none is 0
        self.given = {"count": self.numbers.full(elements.to_unsigned("double"))}
        given = tail.take(len(self.rows.given), "double")
        self.given |= {name: self.numbers.full(one) for name, one in zip(self.rows.given, given, strict=True)}
        self.turns = {one.name: tuple(tail.take(2)) for one in self.rows.turning}

    def write(self) -> None:
        """All passes over a row before the next one; or, where rows are cut, one pass over all chunks, and so on."""
        lines, w = self.lines, self.write_words
        first, last = share(lines, self.w.items * self.w.chunks)
        if not self.form.cut:
            count_loop(lines, first, last, self.whole)
            return
        for k in range(len(self.rows.stages)):
            count_loop(lines, first, last, lambda part, k=k: self._part(part, k))
            w.wait()
        if self.rows.written("each") or self.rows.written("pairs"):
            count_loop(lines, first, last, self._elements_of_part)
        if self.rows.written("row") or self.rows.wrong:
            w.wait()  # what is overwritten may have been read until now
            count_loop(lines, *share(lines, self.w.items), self._numbers_of_item)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def whole(self, item: Term) -> None:
        """Do all that is done with one item."""
        one, span = self._item(item), (0, self.extent)
        totals: dict[str, Term] = {}
        for stage in self.rows.stages:
            totals |= self._totals(one, stage, span, self._numbers(one, totals))
        numbers = self._numbers(one, totals)
        self._elements(one, span, numbers)
        self._store_numbers(one, numbers)

    def _part(self, part: Term, k: int) -> None:
        """Make the totals of stage k for one chunk of an item."""
        item, chunk = self._split(part)
        one = self._item(item)
        totals = self._joined(item, self.rows.stages[:k])
        found = self._totals(one, self.rows.stages[k], self._span(chunk), self._numbers(one, totals))
        for name, value in found.items():
            self.numbers.store(value, self.w.scratch, self._place(name, part), None)

    def _elements_of_part(self, part: Term) -> None:
        item, chunk = self._split(part)
        one = self._item(item)
        self._elements(one, self._span(chunk), self._numbers(one, self._joined(item, self.rows.stages)))

    def _numbers_of_item(self, item: Term) -> None:
        one = self._item(item)
        self._store_numbers(one, self._numbers(one, self._joined(item, self.rows.stages)))

    def _split(self, part: Term) -> tuple[Term, Term]:
        return part // self.w.chunks, part % self.w.chunks

    def _span(self, chunk: Term) -> Span:
        """Return begin and end of a chunk of a row; where it lies along the lanes, they are borders of cache lines."""
        extent, chunks = self.extent, self.w.chunks
        begin, end = (extent * one // chunks for one in (chunk, chunk + 1))
        if self.form.across or self.form.outer:
            return begin, end
        is_last = (chunk + 1).equals(chunks)
        begin, below = begin & -BORDER, end & -BORDER
        return begin, is_last.choose(extent, below)

    def _place(self, name: str, part: Term) -> Term:
        """Return where the total of a part stands in the scratch memory, in float64."""
        return (self.w.items * self.w.chunks * list(self.rows.joins).index(name) + part) * self.numbers.count

    def _joined(self, item: Term, stages: Sequence[Sequence[str]]) -> dict[str, Term]:
        """Return totals of an item, joined of those of its chunks."""
        names = [name for stage in stages for name in stage]
        if not names:
            return {}
        first = item * self.w.chunks

        def totals(part: Term) -> list[Term]:
            return [self.numbers.load(self.w.scratch, self._place(name, part), None) for name in names]

        def add(c: Term, carried: Sequence[Term]) -> list[Term]:
            return self._joins(names, self.numbers, carried, totals(first + c))

        return dict(zip(names, carry_loop(1, self.w.chunks, totals(first), add), strict=True))

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _item(self, item: Term) -> _Item:
        behind = self.w.behind
        if not self.form.across:
            return _Item(item, item, None)
        blocks = behind.pieces(self.form.lanes)
        b, column = item // blocks, item % blocks * self.form.lanes
        return _Item(b, b * behind + column, lanes_below(self.v, behind - column))

    def _numbers(self, one: _Item, totals: Mapping[str, Term]) -> dict[str, Term]:
        """Return the numbers of a row that follow from the totals that there are."""
        v = self.numbers
        values = {**self.given, **totals}
        for operand in self.rows.operands:
            if operand.written or operand.lies not in ("row", "one", "picked"):
                continue
            at = self.at[operand.name]
            if operand.lies == "row":
                values[operand.name] = self._some(v, operand.dtype, at, one.row, one.mask)
                continue
            if operand.lies == "picked":
                share, size = self.turns[operand.name]
                at = at.at(one.row // share % size)
            values[operand.name] = self._one(v, operand.dtype, at)
        for name, expression in self.rows.numbers.items():
            if set(expression.names) <= values.keys():
                values[name] = Emission(v, values).write(expression)
        return values

    def _store_numbers(self, one: _Item, numbers: Mapping[str, Term]) -> None:
        if self.rows.wrong:
            self._report(numbers[self.rows.wrong], one.mask)
        for operand in self.rows.written("row"):
            self.numbers.store(numbers[operand.name], self.at[operand.name], one.row, one.mask, dtype=operand.dtype)

    def _report(self, number: Term, mask: Term | None) -> None:
        """Leave a status where a number is not 0."""
        wrong = number.masked(mask, 0.0).differs(0.0)
        when(wrong.any(), lambda: report(self.lines, 0))

    def _narrow(self, numbers: Mapping[str, Term], read: set[str]) -> dict[str, Term]:
        """Return numbers of a row as vectors for its elements."""
        found: dict[str, Term] = {}
        for name in sorted(read & numbers.keys()):
            value = numbers[name].to(self.v.scalar)
            found[name] = value if self.form.across else self.v.full(value.lane(0))
        return found

    # -- elements ------------------------------------------------------------------------------------------------------

    def _sweep(self, one: _Item, span: Span, body: Body, carried: Sequence[Term] = ()) -> Sequence[Term]:
        """Run `body(place, place along the row, mask, carried)` for the vectors of a part of a row."""
        if not self.form.outer:
            return self._line(one, self._start(one), span, body, carried)

        def line(o: Term, values: Sequence[Term]) -> Sequence[Term]:
            return self._line(one, self._start(one) + o * self.w.plane, (0, self.w.along), body, values)

        return carry_loop(*span, carried, line)

    def _start(self, one: _Item) -> Term:
        """Return the place of the first element of a row, or of rows side by side."""
        along, behind = self.w.along, self.w.behind
        return one.b * (along * behind) + (one.row - one.b * behind) if self.form.across else one.row * along

    def _line(self, one: _Item, start: Term, span: Span, body: Body, carried: Sequence[Term]) -> Sequence[Term]:
        if not self.form.across:
            return sweep(self.v, *span, lambda i, mask, values: body(start + i, i, mask, values), carried)
        return carry_loop(*span, carried, lambda r, values: body(start + r * self.w.behind, r, one.mask, values))

    def _loaded(self, read: set[str], place: Term, r: Number, mask: Term | None) -> dict[str, Term]:
        v, found = self.v, dict[str, Term]()
        if "index" in read:
            found["index"] = self._index(r)
        for operand in self.rows.operands:
            if operand.parts and read & {*operand.parts} and not operand.written:
                found |= self._pair(operand, place, mask)
        for name in sorted(read & self.operands.keys()):
            operand = self.operands[name]
            if operand.lies == "each":
                found[name] = self._some(v, operand.dtype, self.at[name], place, mask)
            elif operand.lies == "repeated":
                found[name] = self._some(v, operand.dtype, self.at[name], (place - r) % self.turns[name][1] + r, mask)
            elif operand.lies == "along" and self.form.across:
                found[name] = self._one(v, operand.dtype, self.at[name].at(r))
            elif operand.lies == "along":
                found[name] = self._some(v, operand.dtype, self.at[name], r, mask)
        return found

    def _index(self, r: Number) -> Term:
        """Return the places of elements along their rows, as floats."""
        whole = Vector(self.lines, self.v.count, DataType.INT32)
        here = whole.full(r)
        if not self.form.across:
            here += whole.listed(range(whole.count))
        return here.to(self.v.scalar)

    def _pair(self, operand: Operand, place: Term, mask: Term | None) -> dict[str, Term]:
        """Return the first and the second numbers of pairs."""
        double = Vector(self.lines, 2 * self.v.count, self.v.dtype)
        both = double.load(self.at[operand.name], place * 2, self._twice(mask), dtype=operand.dtype)
        return {name: both.shuffle(range(odd, double.count, 2)) for odd, name in enumerate(operand.parts)}

    def _store_pair(self, operand: Operand, values: Sequence[Term], place: Term, mask: Term | None) -> None:
        v, double = self.v, Vector(self.lines, 2 * self.v.count, self.v.dtype)
        order = [one for lane in range(v.count) for one in (lane, v.count + lane)]
        both = values[0].shuffle(order, values[1])
        double.store(both, self.at[operand.name], place * 2, self._twice(mask), dtype=operand.dtype)

    def _twice(self, mask: Term | None) -> Term | None:
        """Return the mask of pairs."""
        order = [lane // 2 for lane in range(2 * self.v.count)]
        return None if mask is None else mask.shuffle(order)

    def _elements(self, one: _Item, span: Span, numbers: Mapping[str, Term]) -> None:
        """Write the elements of outputs."""
        written = [*self.rows.written("each"), *self.rows.written("pairs")]
        if not written:
            return
        texts = {operand: [self.rows.texts[name] for name in operand.parts or (operand.name,)] for operand in written}
        read = {name for each in texts.values() for text in each for name in text.names}
        fixed = self._narrow(numbers, read)

        def body(place: Term, r: Term, mask: Term | None, carried: Sequence[Term]) -> Sequence[Term]:
            emission = Emission(self.v, {**fixed, **self._loaded(read, place, r, mask)})
            values = [[emission.write(text) for text in texts[operand]] for operand in written]
            for operand, found in zip(written, values, strict=True):
                if operand.parts:
                    self._store_pair(operand, found, place, mask)
                else:
                    self.v.store(found[0], self.at[operand.name], place, mask, dtype=operand.dtype)
            return carried

        self._sweep(one, span, body)

    def _totals(self, one: _Item, names: Sequence[str], span: Span, numbers: Mapping[str, Term]) -> dict[str, Term]:
        """Return totals of a part of a row: of blocks in float32, which are joined in float64."""
        v, width, (begin, end) = self.v, self.w.width, span
        read = {name for one_name in names for name in self.rows.texts[one_name].names}
        fixed = self._narrow(numbers, read)
        starts = self._starts(one, names, read, fixed)

        def body(place: Term, r: Term, mask: Term | None, carried: Sequence[Term]) -> Sequence[Term]:
            emission = Emission(v, {**fixed, **self._loaded(read, place, r, mask)})
            found: list[Term] = []
            for name, before in zip(names, carried, strict=True):
                new = self._join(name, v, before, emission.write(self.rows.texts[name]))
                found.append(new if mask is None or self.form.across else mask.choose(new, before))
            return found

        def block(k: Term, carried: Sequence[Term]) -> list[Term]:
            first = begin + k * width
            sums = self._sweep(one, (first, (first + width).at_most(end)), body, starts)
            found = [self._folded(name, value) for name, value in zip(names, sums, strict=True)]
            return self._joins(names, self.numbers, carried, found)

        blocks = (end - begin).pieces(width)
        values = carry_loop(0, blocks, [self._widened(start) for start in starts], block)
        return dict(zip(names, values, strict=True))

    def _starts(self, one: _Item, names: Sequence[str], read: set[str], fixed: Mapping[str, Term]) -> list[Term]:
        """Return what totals begin with: a number, or what the first element of the row gives."""
        starts = [self.v.constant(JOINS[self.rows.joins[name]][1]) for name in names]
        first = [k for k, name in enumerate(names) if self.rows.joins[name] == "first_max"]
        if first:
            place = self._start(one)
            if self.form.across:
                values = self._loaded(read, place, 0, one.mask)
            else:
                values = {
                    name: self._one(self.v, self.operands[name].dtype, self.at[name].at(place))
                    for name in sorted(read & self.operands.keys())
                }
            emission = Emission(self.v, {**fixed, **values})
            for k in first:
                starts[k] = emission.write(self.rows.texts[names[k]])
        return starts

    def _one(self, v: Vector, dtype: DataType, at: Term) -> Term:
        """Return a vector that is full of the element at an address, in floating point."""
        vector = Vector(self.lines, v.count, dtype)
        return vector.converted(vector.load_one(at), DataType.FLOAT if v.bits == 32 else DataType.DOUBLE)

    def _some(self, v: Vector, dtype: DataType, at: Term, i: Number, mask: Term | None) -> Term:
        """Return elements i, i + 1 ... in floating point."""
        vector = Vector(self.lines, v.count, dtype)
        return vector.converted(vector.load(at, i, mask), DataType.FLOAT if v.bits == 32 else DataType.DOUBLE)

    def _join(self, name: str, vector: Vector, a: Term, b: Term) -> Term:
        text, _ = JOINS[self.rows.joins[name]]
        return Emission(vector, {"a": a, "b": b}).write(Expression.parse(text))

    def _joins(self, names: Sequence[str], vector: Vector, a: Sequence[Term], b: Sequence[Term]) -> list[Term]:
        return [self._join(name, vector, *pair) for name, *pair in zip(names, a, b, strict=True)]

    def _folded(self, name: str, value: Term) -> Term:
        """Return numbers of rows from a vector of elements: lanes are joined where a row lies along them."""
        if self.form.across:
            return self._widened(value)

        def join(lower: Term, upper: Term) -> Term:
            return self._join(name, Vector(self.lines, lower.count, self.v.dtype), lower, upper)

        return value.halved(join).to(self.numbers.scalar)

    def _widened(self, value: Term) -> Term:
        """Return the first lane, or all of them where they are rows, in float64."""
        return (value if self.form.across else value.lane(0).splat(1)).to(self.numbers.scalar)
