"""The code of kernels that go over rows: totals, numbers of a row, elements.

Letters as in `operator.row_program`: B x D x K. Where K is 1 a row lies along the lanes, which are joined at its end;
else lanes are rows side by side. Elements are joined in float32 for some vectors at most, what comes of these in
float64.

Where rows are cut into chunks, all threads make totals of chunks, wait for each other, and join them in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tazza.codegen.emit import MEMORY, Lines, Vector
from tazza.codegen.fields import Fields
from tazza.codegen.loop import count_loop, lanes_below, share, step_loop, sweep
from tazza.codegen.row_plan import Operand, RowForm
from tazza.codegen.rows import report, when
from tazza.codegen.vector import Emission
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
    w, items = around.write_words, around.w["items"]
    each = w.div(within.w["items"], w.most(items, "1"))

    def item(i: str) -> None:
        around.whole(i)
        start = w.mul(i, each)
        count_loop(lines, start, w.add(start, each), within.whole)

    count_loop(lines, *share(lines, items), item)


Body = Callable[[str, str, "str | None", Sequence[str]], Sequence[str]]


@dataclass(frozen=True, slots=True)
class _Item:
    """A row, or some rows side by side: its number of matrix, its first row, and which lanes there are."""

    b: str
    row: str
    mask: str | None


class Rows:
    """Writes the passes over the rows of a thread."""

    def __init__(self, lines: Lines, form: Form, first: int = 0) -> None:
        """Load what the block says from that word on."""
        self.lines, self.form, self.rows = lines, form, form.rows
        self.write_words = Writer(lines, ITEMS, first)
        self.w, tail = self.write_words.w, self.write_words.tail
        pointers = tail.take(len(self.rows.operands), "ptr")
        self.at = {one.name: pointer for one, pointer in zip(self.rows.operands, pointers, strict=True)}
        self.operands = {one.name: one for one in self.rows.operands}
        self.v = Vector(lines, form.lanes)
        self.numbers = Vector(lines, form.lanes if form.across else 1, DataType.DOUBLE)
        """What there is one of for each row."""
        self.extent = self.w["outer" if form.outer else "along"]
        """Along which rows are gone through, and cut."""
        elements = self.write_words.mul(self.w["outer"], self.w["along"])
        counted = self.write_words.most(elements, "1")  # what is divided by the number of none is 0
        self.given = {"count": self.numbers.splat(lines.let(f"uitofp i64 {counted} to double"))}
        given = tail.take(len(self.rows.given), "double")
        self.given |= {name: self.numbers.splat(one) for name, one in zip(self.rows.given, given, strict=True)}
        self.turns = {one.name: tuple(tail.take(2)) for one in self.rows.turning}

    def write(self) -> None:
        """All passes over a row before the next one; or, where rows are cut, one pass over all chunks, and so on."""
        lines, w = self.lines, self.write_words
        parts = w.mul(self.w["items"], self.w["chunks"])
        first, last = share(lines, parts)
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
            count_loop(lines, *share(lines, self.w["items"]), self._numbers_of_item)

    # -- parts ---------------------------------------------------------------------------------------------------------

    def whole(self, item: str) -> None:
        """Do all that is done with one item."""
        one, span = self._item(item), ("0", self.extent)
        totals: dict[str, str] = {}
        for stage in self.rows.stages:
            totals |= self._totals(one, stage, span, self._numbers(one, totals))
        numbers = self._numbers(one, totals)
        self._elements(one, span, numbers)
        self._store_numbers(one, numbers)

    def _part(self, part: str, k: int) -> None:
        """Make the totals of stage k for one chunk of an item."""
        item, chunk = self._split(part)
        one = self._item(item)
        totals = self._joined(item, self.rows.stages[:k])
        found = self._totals(one, self.rows.stages[k], self._span(chunk), self._numbers(one, totals))
        for name, value in found.items():
            self.numbers.store(value, self.w["scratch"], self._place(name, part), None)

    def _elements_of_part(self, part: str) -> None:
        item, chunk = self._split(part)
        one = self._item(item)
        self._elements(one, self._span(chunk), self._numbers(one, self._joined(item, self.rows.stages)))

    def _numbers_of_item(self, item: str) -> None:
        one = self._item(item)
        self._store_numbers(one, self._numbers(one, self._joined(item, self.rows.stages)))

    def _split(self, part: str) -> tuple[str, str]:
        w, chunks = self.write_words, self.w["chunks"]
        return w.div(part, chunks), w.rem(part, chunks)

    def _span(self, chunk: str) -> tuple[str, str]:
        """Return begin and end of a chunk of a row; where it lies along the lanes, they are borders of cache lines."""
        w, extent, chunks = self.write_words, self.extent, self.w["chunks"]
        begin, end = (w.div(w.mul(extent, one), chunks) for one in (chunk, w.add(chunk, 1)))
        if self.form.across or self.form.outer:
            return begin, end
        is_last = self.lines.let(f"icmp eq i64 {w.add(chunk, 1)}, {chunks}")
        begin, below = (self.lines.let(f"and i64 {one}, -{BORDER}") for one in (begin, end))
        return begin, self.lines.let(f"select i1 {is_last}, i64 {extent}, i64 {below}")

    def _place(self, name: str, part: str) -> str:
        """Return where the total of a part stands in the scratch memory, in float64."""
        w = self.write_words
        k = list(self.rows.joins).index(name)
        parts = w.mul(self.w["items"], self.w["chunks"])
        return w.mul(w.add(w.mul(parts, k), part), self.numbers.count)

    def _joined(self, item: str, stages: Sequence[Sequence[str]]) -> dict[str, str]:
        """Return totals of an item, joined of those of its chunks."""
        names = [name for stage in stages for name in stage]
        if not names:
            return {}
        lines, w = self.lines, self.write_words
        first = w.mul(item, self.w["chunks"])

        def add(c: str, carried: Sequence[str]) -> list[str]:
            part = w.add(first, c)
            found = [self.numbers.load(self.w["scratch"], self._place(name, part), None) for name in names]
            return [self._join(name, self.numbers, *pair) for name, *pair in zip(names, carried, found, strict=True)]

        starts = [self.numbers.load(self.w["scratch"], self._place(name, first), None) for name in names]
        _, values = step_loop(lines, self.numbers.type, ("1", self.w["chunks"], 1), starts, add)
        return dict(zip(names, values, strict=True))

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _item(self, item: str) -> _Item:
        w, behind = self.write_words, self.w["behind"]
        if not self.form.across:
            return _Item(item, item, None)
        blocks = w.pieces(behind, self.form.lanes)
        b, column = w.div(item, blocks), w.mul(w.rem(item, blocks), self.form.lanes)
        return _Item(b, w.add(w.mul(b, behind), column), lanes_below(self.v, w.sub(behind, column)))

    def _numbers(self, one: _Item, totals: Mapping[str, str]) -> dict[str, str]:
        """Return the numbers of a row that follow from the totals that there are."""
        v = self.numbers
        values = {**self.given, **totals}
        for operand in self.rows.operands:
            if operand.written or operand.lies not in ("row", "one", "picked"):
                continue
            at = self.at[operand.name]
            if operand.lies == "one":
                values[operand.name] = self._one(v, operand.dtype, at)
            elif operand.lies == "picked":
                share, size = self.turns[operand.name]
                place = self.write_words.rem(self.write_words.div(one.row, share), size)
                values[operand.name] = self._one(v, operand.dtype, self._element(operand.name, place))
            else:
                values[operand.name] = self._some(v, operand.dtype, at, one.row, one.mask)
        for name, expression in self.rows.numbers.items():
            if set(expression.names) <= values.keys():
                values[name] = Emission(v, values).write(expression)
        return values

    def _store_numbers(self, one: _Item, numbers: Mapping[str, str]) -> None:
        if self.rows.wrong:
            self._report(numbers[self.rows.wrong], one.mask)
        for operand in self.rows.written("row"):
            self.numbers.store(numbers[operand.name], self.at[operand.name], one.row, one.mask, dtype=operand.dtype)

    def _report(self, number: str, mask: str | None) -> None:
        """Leave a status where a number is not 0."""
        v = self.numbers
        wrong = v.compare("une", number if mask is None else v.select(mask, number, v.constant(0.0)), v.constant(0.0))
        when(self.lines, self.lines.any_set(v.count, wrong), lambda: report(self.lines, "0"))

    def _narrow(self, numbers: Mapping[str, str], read: set[str]) -> dict[str, str]:
        """Return numbers of a row as vectors for its elements."""
        found: dict[str, str] = {}
        for name in sorted(read & numbers.keys()):
            value = self.lines.let(f"fptrunc {self.numbers.type} {numbers[name]} to <{self.numbers.count} x float>")
            if not self.form.across:
                value = self.v.splat(self.lines.let(f"extractelement <1 x float> {value}, i32 0"))
            found[name] = value
        return found

    # -- elements ------------------------------------------------------------------------------------------------------

    def _sweep(
        self,
        one: _Item,
        span: tuple[str, str],
        body: Body,
        carried: Sequence[str] = (),
    ) -> Sequence[str]:
        """Run `body(place, place along the row, mask, carried)` for the vectors of a part of a row."""
        if not self.form.outer:
            return self._line(one, self._start(one), span, body, carried)
        w = self.write_words

        def line(o: str, values: Sequence[str]) -> list[str]:
            start = w.add(self._start(one), w.mul(o, self.w["plane"]))
            return list(self._line(one, start, ("0", self.w["along"]), body, values))

        _, found = step_loop(self.lines, self.v.type, (*span, 1), carried, line)
        return list(found)

    def _start(self, one: _Item) -> str:
        """Return the place of the first element of a row, or of rows side by side."""
        w, along, behind = self.write_words, self.w["along"], self.w["behind"]
        if not self.form.across:
            return w.mul(one.row, along)
        return w.add(w.mul(one.b, w.mul(along, behind)), w.sub(one.row, w.mul(one.b, behind)))

    def _line(self, one: _Item, start: str, span: tuple[str, str], body: Body, carried: Sequence[str]) -> Sequence[str]:
        w, behind = self.write_words, self.w["behind"]
        if not self.form.across:
            return sweep(self.v, *span, lambda i, mask, values: body(w.add(start, i), i, mask, values), carried)

        def line(r: str, values: Sequence[str]) -> list[str]:
            return list(body(w.add(start, w.mul(r, behind)), r, one.mask, values))

        _, found = step_loop(self.lines, self.v.type, (*span, 1), carried, line)
        return list(found)

    def _loaded(self, read: set[str], place: str, r: str, mask: str | None) -> dict[str, str]:
        v, found = self.v, dict[str, str]()
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
                w = self.write_words
                first = w.rem(w.sub(place, r), self.turns[name][1])
                found[name] = self._some(v, operand.dtype, self.at[name], w.add(first, r), mask)
            elif operand.lies == "along" and self.form.across:
                found[name] = self._one(v, operand.dtype, self._element(name, r))
            elif operand.lies == "along":
                found[name] = self._some(v, operand.dtype, self.at[name], r, mask)
        return found

    def _index(self, r: str) -> str:
        """Return the places of elements along their rows, as floats."""
        kind, count = f"<{self.v.count} x i32>", self.v.count
        short = self.lines.let(f"trunc i64 {r} to i32")
        here = self.lines.splat(kind, short)
        if not self.form.across:
            numbers = ", ".join(f"i32 {lane}" for lane in range(count))
            here = self.lines.let(f"add {kind} {here}, <{numbers}>")
        return self.lines.let(f"sitofp {kind} {here} to {self.v.type}")

    def _pair(self, operand: Operand, place: str, mask: str | None) -> dict[str, str]:
        """Return the first and the second numbers of pairs."""
        double = Vector(self.lines, 2 * self.v.count)
        both = double.load(
            self.at[operand.name], self.write_words.mul(place, 2), self._twice(mask), dtype=operand.dtype
        )
        return {
            name: self.lines.shuffle(double.type, range(odd, double.count, 2), both)
            for odd, name in enumerate(operand.parts)
        }

    def _store_pair(self, operand: Operand, values: Sequence[str], place: str, mask: str | None) -> None:
        v, double = self.v, Vector(self.lines, 2 * self.v.count)
        order = [one for lane in range(v.count) for one in (lane, v.count + lane)]
        both = self.lines.shuffle(v.type, order, *values)
        place = self.write_words.mul(place, 2)
        double.store(both, self.at[operand.name], place, self._twice(mask), dtype=operand.dtype)

    def _twice(self, mask: str | None) -> str | None:
        """Return the mask of pairs."""
        order = [lane // 2 for lane in range(2 * self.v.count)]
        return None if mask is None else self.lines.shuffle(self.v.mask, order, mask)

    def _elements(self, one: _Item, span: tuple[str, str], numbers: Mapping[str, str]) -> None:
        """Write the elements of outputs."""
        written = [*self.rows.written("each"), *self.rows.written("pairs")]
        if not written:
            return
        texts = {operand: [self.rows.texts[name] for name in operand.parts or (operand.name,)] for operand in written}
        read = {name for each in texts.values() for text in each for name in text.names}
        fixed = self._narrow(numbers, read)

        def body(place: str, r: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
            emission = Emission(self.v, {**fixed, **self._loaded(read, place, r, mask)})
            values = [[emission.write(text) for text in texts[operand]] for operand in written]
            for operand, found in zip(written, values, strict=True):
                if operand.parts:
                    self._store_pair(operand, found, place, mask)
                else:
                    self.v.store(found[0], self.at[operand.name], place, mask, dtype=operand.dtype)
            return carried

        self._sweep(one, span, body)

    def _totals(
        self, one: _Item, names: Sequence[str], span: tuple[str, str], numbers: Mapping[str, str]
    ) -> dict[str, str]:
        """Return totals of a part of a row: of blocks in float32, which are joined in float64."""
        lines, w, v = self.lines, self.write_words, self.v
        read = {name for one_name in names for name in self.rows.texts[one_name].names}
        fixed = self._narrow(numbers, read)
        starts = self._starts(one, names, read, fixed)
        width = self.w["width"]
        begin, end = span

        def body(place: str, r: str, mask: str | None, carried: Sequence[str]) -> Sequence[str]:
            emission = Emission(v, {**fixed, **self._loaded(read, place, r, mask)})
            found: list[str] = []
            for name, before in zip(names, carried, strict=True):
                new = self._join(name, v, before, emission.write(self.rows.texts[name]))
                found.append(new if mask is None or self.form.across else v.select(mask, new, before))
            return found

        def block(k: str, carried: Sequence[str]) -> list[str]:
            first = w.add(begin, w.mul(k, width))
            sums = self._sweep(one, (first, w.least(w.add(first, width), end)), body, starts)
            found = [self._folded(name, value) for name, value in zip(names, sums, strict=True)]
            return [self._join(name, self.numbers, *pair) for name, *pair in zip(names, carried, found, strict=True)]

        blocks = w.pieces(w.sub(end, begin), width)
        initial = [self._widened(start) for start in starts]
        _, values = step_loop(lines, self.numbers.type, ("0", blocks, 1), initial, block)
        return dict(zip(names, values, strict=True))

    def _starts(self, one: _Item, names: Sequence[str], read: set[str], fixed: Mapping[str, str]) -> list[str]:
        """Return what totals begin with: a number, or what the first element of the row gives."""
        starts = [self.v.constant(JOINS[self.rows.joins[name]][1]) for name in names]
        first = [k for k, name in enumerate(names) if self.rows.joins[name] == "first_max"]
        if first:
            place = self._start(one)
            if self.form.across:
                values = self._loaded(read, place, "0", one.mask)
            else:
                values = {
                    name: self._one(self.v, self.operands[name].dtype, self._element(name, place))
                    for name in sorted(read & self.operands.keys())
                }
            emission = Emission(self.v, {**fixed, **values})
            for k in first:
                starts[k] = emission.write(self.rows.texts[names[k]])
        return starts

    def _element(self, name: str, place: str) -> str:
        return self.lines.let(f"getelementptr {MEMORY[self.operands[name].dtype]}, ptr {self.at[name]}, i64 {place}")

    def _one(self, v: Vector, dtype: DataType, at: str) -> str:
        """Return a vector that is full of the element at an address, in floating point."""
        vector = Vector(self.lines, v.count, dtype)
        return vector.converted(vector.load_one(at), DataType.FLOAT if v.bits == 32 else DataType.DOUBLE)

    def _some(self, v: Vector, dtype: DataType, at: str, i: str, mask: str | None) -> str:
        """Return elements i, i + 1 ... in floating point."""
        vector = Vector(self.lines, v.count, dtype)
        return vector.converted(vector.load(at, i, mask), DataType.FLOAT if v.bits == 32 else DataType.DOUBLE)

    def _join(self, name: str, vector: Vector, a: str, b: str) -> str:
        text, _ = JOINS[self.rows.joins[name]]
        return Emission(vector, {"a": a, "b": b}).write(Expression.parse(text))

    def _folded(self, name: str, value: str) -> str:
        """Return numbers of rows from a vector of float32: lanes are joined where a row lies along them."""
        if self.form.across:
            return self._widened(value)

        def join(count: int, lower: str, upper: str) -> str:
            return self._join(name, Vector(self.lines, count, DataType.FLOAT), lower, upper)

        return self.lines.let(f"fpext <1 x float> {self.lines.halved(self.v.type, value, join)} to {self.numbers.type}")

    def _widened(self, value: str) -> str:
        """Return the first lane, or all of them where they are rows, in float64."""
        if not self.form.across:
            one = self.lines.let(f"extractelement {self.v.type} {value}, i32 0")
            value = Vector(self.lines, 1).splat(one)
        return self.lines.let(f"fpext <{self.numbers.count} x float> {value} to {self.numbers.type}")
