"""The code of kernels that go over rows on a GPU: totals, numbers of a row, elements.

How rows are dealt out to threads is said in `team`. What is joined of the elements of one turn is joined in float32,
sums by halves; turns and members in float64. The order is fixed, so the result is.

Where a row has several blocks, one kernel makes the totals of its parts, another joins them, and others, behind all
totals, make elements and numbers of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from tazza.codegen.fields import Fields
from tazza.codegen.function import Emission
from tazza.codegen.loop import when
from tazza.codegen.row_plan import Operand, RowForm
from tazza.codegen.term import Lines, Number, Term
from tazza.codegen.vector import MEMORY, Vector
from tazza.data_class import dataclass
from tazza.engines.cuda.team import Deal, Element, Join, Limits, Team
from tazza.operator import Expression
from tazza.operator.row_program import JOINS
from tazza.tensor import DataType

WORDS = Fields("elements rows parts", addresses="partials:double totals:double status:i64", after=Team.WORDS)
"""Of the block: those of teams, the elements of a row, how many rows and parts of each there are, the addresses of what
was made of these parts and of totals, and where a 1 is left when something is wrong."""

Share: TypeAlias = Literal["whole", "parts", "join", "elements", "numbers"]
"""What of a program a kernel does: all of it; totals of parts of rows; these joined; elements; numbers of rows."""


@dataclass(frozen=True, slots=True)
class Form:
    """What tells kernels apart: the program, how it is dealt out, and what of it is done.

    Attributes:
        rows: the program.
        deal: how rows are dealt out.
        outer: whether O is not 1.
        small: whether 32 bits count the elements.
        share: what is done.
        stage: which totals, where these are all that is done.
    """

    rows: RowForm
    deal: Deal
    outer: bool
    small: bool
    share: Share = "whole"
    stage: int = 0

    def __str__(self) -> str:
        """Return what names the kernel; complete."""
        return f"rows {self.deal} {self.outer} {self.small} {self.share} {self.stage} {self.rows}"

    @property
    def words(self) -> int:
        """Of the block."""
        return len(WORDS) + len(self.rows.operands) + len(self.rows.given) + 2 * len(self.rows.turning)

    @property
    def stages(self) -> Sequence[Sequence[str]]:
        """The totals that are made, or joined, one after the other."""
        if self.share == "whole":
            return self.rows.stages
        return self.rows.stages[self.stage : self.stage + 1] if self.share in ("parts", "join") else ()

    def shared_doubles(self, limits: Limits) -> int:
        """Return how many the threads of a block share."""
        return self.deal.warps(limits) * self.deal.side * sum(map(len, self.stages))


class Rows:
    """Writes what a team does with its row."""

    def __init__(self, lines: Lines, form: Form, limits: Limits) -> None:
        """Load what the block says."""
        self.lines, self.form, self.rows = lines, form, form.rows
        self.team = Team(lines, form.deal, limits, outer=form.outer, small=form.small)
        self.w = WORDS.loaded(lines)
        tail = self.w.tail()
        self.at = {one.name: tail.take(1, "ptr")[0] for one in self.rows.operands}
        self.operands = {one.name: one for one in self.rows.operands}
        self.v, self.numbers = Vector(lines, 1, form.rows.computed), self.team.numbers
        self.names = [name for stage in self.rows.stages for name in stage]
        self.kept = dict[tuple[str, int], Term]()
        """What was loaded and stays in registers: (name, number in the turn) -> value."""
        counted = (self.w.elements > 1).choose(self.w.elements, 1)  # what is divided by the number of none is 0
        self.given = {"count": self.numbers.full(counted.to_unsigned("double"))}
        self.given |= {name: self.numbers.full(tail.take(1, "double")[0]) for name in self.rows.given}
        self.turns = {one.name: tail.take(2) for one in self.rows.turning}
        """Of letters that begin anew: how many rows share a number, and how many there are."""

    def write(self) -> None:
        """Do the share of this kernel."""
        share, team = self.form.share, self.team
        if share == "parts":
            totals = self._totals(self.rows.stages[self.form.stage], self._numbers(self._found(self.form.stage)), 0)
            self._keep_totals(totals, "partials")
            return
        totals = self._found(self.form.stage if share == "join" else 0 if share == "whole" else len(self.rows.stages))
        joined = 0
        for stage in self.form.stages:
            totals |= self._joined(stage) if share == "join" else self._totals(stage, self._numbers(totals), joined)
            joined += len(stage)
        if share == "join":
            self._keep_totals({name: totals[name] for name in self.form.stages[0]}, "totals")
        if share == "join" and not self.ends:
            return
        numbers = self._numbers(totals)
        if share in ("whole", "elements"):
            self._elements(numbers)
        if share == "elements":
            return
        written = self.rows.written("row")
        if written:
            team.meet()  # what is overwritten may have been read until now
        if written or self.rows.wrong:
            when(team.leads(), lambda: self._finish(written, numbers))

    @property
    def ends(self) -> bool:
        """Whether nothing is left to be done behind the totals of this kernel but numbers of rows."""
        return self.form.stage == len(self.rows.stages) - 1 and not writes_elements(self.rows)

    def _finish(self, written: Sequence[Operand], numbers: Mapping[str, Term]) -> None:
        """Write what there is one of for each row, and leave a 1 where a number is not 0."""
        for operand in written:
            number, pointer = numbers[operand.name], self.at[operand.name]
            if operand.dtype is DataType.INT64:
                pointer.of("i64").at(self.team.row).of("<1 x i64>").store(number.to("i64"), 8)
            else:
                self.numbers.store(number, pointer, self.team.row, None, dtype=operand.dtype)
        if self.rows.wrong:
            when(numbers[self.rows.wrong].differs(0.0).lane(0), lambda: self.w.status.store(1))

    # -- numbers of rows -----------------------------------------------------------------------------------------------

    def _numbers(self, totals: Mapping[str, Term]) -> dict[str, Term]:
        """Return the numbers of a row that follow from the totals that there are."""
        values = {**self.given, **totals}
        for operand in self.rows.operands:
            if operand.written or operand.lies not in ("row", "one", "picked"):
                continue
            where: Number = 0 if operand.lies == "one" else self.team.row
            if operand.lies == "picked":
                share, size = self.turns[operand.name]
                where = self.team.split(self.team.split(self.team.row, share)[0], size)[1]
            values[operand.name] = self._element(operand, where, DataType.DOUBLE)
        for name, expression in self.rows.numbers.items():
            if set(expression.names) <= values.keys():
                values[name] = Emission(self.numbers, values).write(expression)
        return values

    def _narrow(self, numbers: Mapping[str, Term], read: set[str]) -> dict[str, Term]:
        """Return numbers of a row as what its elements are computed with."""
        return {name: numbers[name].to(self.v.scalar) for name in sorted(read & numbers.keys())}

    # -- totals that lie in memory -------------------------------------------------------------------------------------

    def _found(self, stages: int) -> dict[str, Term]:
        """Return the totals of the first stages, which other kernels have made."""
        names = [name for stage in self.rows.stages[:stages] for name in stage]
        return {name: self._double_at(self.w.totals, self._line(self.names.index(name))).load(8) for name in names}

    def _line(self, k: int) -> Term:
        return self.w.rows * k + self.team.row

    def _double_at(self, array: Term, i: Term) -> Term:
        return array.at(i).of(self.numbers.type)

    def _keep_totals(self, totals: Mapping[str, Term], where: Literal["partials", "totals"]) -> None:
        """Write totals where other kernels find them: of parts T x P x R, of whole rows T x R."""
        team, w = self.team, self.w

        def keep() -> None:
            for k, (name, value) in enumerate(totals.items()):
                line: Number = w.parts * k + team.part if where == "partials" else self.names.index(name)
                self._double_at(w[where], line * w.rows + team.row).store(value, 8)

        when(team.member.equals(0).within(team.inside), keep)

    def _joined(self, stage: Sequence[str]) -> dict[str, Term]:
        """Return totals of a row, joined from those of its parts: for a team these are its elements."""
        team = self.team

        def part(k: int, place: Term) -> Term:
            return self._double_at(self.w.partials, self.w.parts * k * self.w.rows + place).load(8)

        starts = [
            part(k, team.row) if self._begins(name) else self.numbers.constant(JOINS[self.rows.joins[name]][1])
            for k, name in enumerate(stage)
        ]
        joins = [self._join(name) for name in stage]

        def turn(elements: Sequence[Element], carried: Sequence[Term]) -> Sequence[Term]:
            found = list(carried)
            for _, place, _, there in elements:
                for k, join in enumerate(joins):
                    found[k] = join(self.numbers, found[k], part(k, place)).masked(there, found[k])
            return found

        found = team.joined(0, team.sweep(starts, turn), joins)
        return dict(zip(stage, found, strict=True))

    # -- elements ------------------------------------------------------------------------------------------------------

    def _loaded(self, read: set[str], one: Element) -> dict[str, Term]:
        """Return what texts read of an element."""
        c, place, r, _ = one
        found = dict[str, Term]()
        if "index" in read:
            found["index"] = self.v.full(r.to("float"))
        for operand in self.rows.operands:
            if operand.parts and read & {*operand.parts} and not operand.written:
                for odd, name in enumerate(operand.parts):
                    found[name] = self._once(name, c, operand, place * 2 + odd)
        for name in sorted(read & self.operands.keys()):
            operand = self.operands[name]
            if operand.lies == "repeated":
                first = self.team.split(self.team.start, self.turns[name][1])[1]
                found[name] = self._once(name, c, operand, first + r)
            elif operand.lies in ("each", "along"):
                found[name] = self._once(name, c, operand, place if operand.lies == "each" else r)
        return found

    def _once(self, name: str, c: int, operand: Operand, i: Term) -> Term:
        """Return an element, loaded now or before."""
        if not self.form.deal.kept:
            return self._element(operand, i, self.v.dtype)
        if (name, c) not in self.kept:
            self.kept[name, c] = self._element(operand, i, self.v.dtype)
        return self.kept[name, c]

    def _element(self, operand: Operand, i: Number, dtype: DataType) -> Term:
        """Return element i in floating point."""
        at = self.at[operand.name].of(MEMORY[operand.dtype]).at(i)
        vector = Vector(self.lines, 1, operand.dtype)
        return vector.converted(vector.load_one(at), dtype)

    def _elements(self, numbers: Mapping[str, Term]) -> None:
        """Write the elements of outputs."""
        written = elements_of(self.rows)
        if not written:
            return
        texts = {operand: [self.rows.texts[name] for name in operand.parts or (operand.name,)] for operand in written}
        read = {name for each in texts.values() for text in each for name in text.names}
        fixed = self._narrow(numbers, read)

        def turn(elements: Sequence[Element], carried: Sequence[Term]) -> Sequence[Term]:
            loaded = [self._loaded(read, one) for one in elements]
            for one, found in zip(elements, loaded, strict=True):
                emission = Emission(self.v, {**fixed, **found})
                values = [(operand, [emission.write(text) for text in texts[operand]]) for operand in written]
                self._where(one[3], lambda one=one, values=values: self._put(one[1], values))
            return carried

        self._where(self.team.inside, lambda: self.team.sweep((), turn))

    def _where(self, condition: Term | None, body: Callable[[], object]) -> None:
        """Run a body where a condition holds, or always."""
        if condition is None:
            body()
        else:
            when(condition, lambda: (body(), None)[1])

    def _put(self, place: Term, values: Sequence[tuple[Operand, Sequence[Term]]]) -> None:
        for operand, found in values:
            first = place * 2 if operand.parts else place
            for k, value in enumerate(found):
                self.v.store(value, self.at[operand.name], first + k, None, dtype=operand.dtype)

    # -- totals --------------------------------------------------------------------------------------------------------

    def _totals(self, names: Sequence[str], numbers: Mapping[str, Term], before: int) -> dict[str, Term]:
        """Return totals of a row, or of a part of it, which all members get; `before` of others were made so."""
        read = {name for total in names for name in self.rows.texts[total].names}
        fixed = self._narrow(numbers, read)

        def values(one: Element) -> list[Term]:
            emission = Emission(self.v, {**fixed, **self._loaded(read, one)})
            return [emission.write(self.rows.texts[name]) for name in names]

        starts = [self.numbers.constant(JOINS[self.rows.joins[name]][1]) for name in names]
        if any(map(self._begins, names)):
            firsts = values((-1, self.team.start, self.lines.number(0), None))
            starts = [
                first.to(self.numbers.scalar) if self._begins(name) else start
                for name, first, start in zip(names, firsts, starts, strict=True)
            ]

        def turn(elements: Sequence[Element], carried: Sequence[Term]) -> Sequence[Term]:
            found = [(values(one), one[3]) for one in elements]
            columns = [[(one[k], there) for one, there in found] for k in range(len(names))]
            return [self._added(*given) for given in zip(names, carried, columns, strict=True)]

        found = self.team.joined(before, self.team.sweep(starts, turn), [self._join(name) for name in names])
        return dict(zip(names, found, strict=True))

    def _begins(self, name: str) -> bool:
        """Whether a total begins with the first element of its row."""
        return self.rows.joins[name] == "first_max"

    def _added(self, name: str, carried: Term, column: Sequence[tuple[Term, Term | None]]) -> Term:
        """Return a total joined with what a turn has of it, each where it is an element at all."""
        v, join, how = self.v, self._join(name), self.rows.joins[name]
        if how == "first_max":  # a NaN can only stand at its beginning
            found = carried.to(v.scalar)
            for value, there in column:
                found = join(v, found, value).masked(there, found)
            return found.to(self.numbers.scalar)
        nothing = v.constant(JOINS[how][1])
        level = [value.masked(there, nothing) for value, there in column]
        while len(level) > 1:
            pairs = [join(v, *level[k : k + 2]) for k in range(0, len(level) - 1, 2)]
            level = pairs + level[2 * len(pairs) :]
        return join(self.numbers, carried, level[0].to(self.numbers.scalar))

    def _join(self, name: str) -> Join:
        text = Expression.parse(JOINS[self.rows.joins[name]][0])
        return lambda lanes, a, b: Emission(lanes, {"a": a, "b": b}).write(text)


def elements_of(rows: RowForm) -> list[Operand]:
    """Return the outputs of a program that have a number for each place, or two."""
    return [*rows.written("each"), *rows.written("pairs")]


def writes_elements(rows: RowForm) -> bool:
    """Whether a program has such outputs."""
    return bool(elements_of(rows))
