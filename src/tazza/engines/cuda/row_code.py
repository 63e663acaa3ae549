"""The code of kernels that go over rows on a GPU: totals, numbers of a row, elements.

Letters as in `operator.row_program`: B x D x K. A team works on each row: a block of threads, of which thread t takes
the elements t, t + T, t + 2 T ..., or one thread, T = 1, with other rows beside it. Numbers are joined in float64,
first in each thread, then by halves over the team; the order is fixed, so the result is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tazza.codegen.emit import Lanes, Lines
from tazza.codegen.loop import carry_loop, store
from tazza.codegen.nvptx import barrier, place, shared
from tazza.codegen.row_plan import Operand, RowForm
from tazza.codegen.rows import when
from tazza.codegen.typed import MEMORY, Vector
from tazza.codegen.vector import Emission
from tazza.operator import Expression
from tazza.operator.row_program import JOINS
from tazza.tensor import DataType

WORDS = ("rows", "along", "behind", "outer", "plane", "status")
STATUS = WORDS.index("status")
"""Of the block: extents, the elements of each of the O, and where a 1 is left when something is wrong."""


@dataclass(frozen=True, slots=True)
class Form:
    """What tells kernels apart: `team` threads work on a row, `threads` are a block."""

    rows: RowForm
    team: int
    threads: int

    def __str__(self) -> str:
        """Return what names the kernel; complete."""
        return f"rows {self.team} {self.threads} {self.rows}"

    @property
    def words(self) -> int:
        """Of the block."""
        return len(WORDS) + len(self.rows.operands) + len(self.rows.given) + 2 * len(self.rows.turning)


class Rows:
    """Writes what a team does with its row."""

    def __init__(self, lines: Lines, form: Form) -> None:
        """Load what the block says."""
        self.lines, self.form, self.rows = lines, form, form.rows
        self.w = {name: lines.load_word("%block", k) for k, name in enumerate(WORDS)}
        self.at = {one.name: lines.load_pointer("%block", len(WORDS) + k) for k, one in enumerate(self.rows.operands)}
        self.operands = {one.name: one for one in self.rows.operands}
        self.v = Lanes(lines, 1, 32)
        self.numbers = Lanes(lines, 1, 64)
        """What there is one of for each row."""
        self.elements = lines.let(f"mul i64 {self.w['outer']}, {self.w['along']}")
        some = lines.let(f"icmp sgt i64 {self.elements}, 1")  # what is divided by the number of none is 0
        counted = lines.let(f"select i1 {some}, i64 {self.elements}, i64 1")
        self.given = {"count": self.numbers.splat(lines.let(f"uitofp i64 {counted} to double"))}
        behind = len(WORDS) + len(self.rows.operands)
        for k, name in enumerate(self.rows.given, behind):
            self.given[name] = self.numbers.splat(lines.let(f"bitcast i64 {lines.load_word('%block', k)} to double"))
        behind += len(self.rows.given)
        self.turns = {
            one.name: (lines.load_word("%block", behind + 2 * k), lines.load_word("%block", behind + 2 * k + 1))
            for k, one in enumerate(self.rows.turning)
        }
        """Of letters that begin anew: how many rows share a number, and how many there are."""

    def write(self) -> None:
        """Find the row and the member, and do all that is done with it."""
        thread, block = place(self.lines)
        if self.form.team > 1:
            self._whole(block, thread)
            return
        first = self._mul(block, str(self.form.threads))
        row = self._add(first, thread)
        when(self.lines, self.lines.let(f"icmp slt i64 {row}, {self.w['rows']}"), lambda: self._whole(row, "0"))

    def _whole(self, row: str, member: str) -> None:
        b, k = self._two("udiv", row, self.w["behind"]), self._two("urem", row, self.w["behind"])
        start = self._add(self._mul(b, self._mul(self.w["along"], self.w["behind"])), k)
        totals: dict[str, str] = {}
        for stage in self.rows.stages:
            totals |= self._totals(stage, (start, member), self._numbers(row, totals))
        numbers = self._numbers(row, totals)
        self._elements((start, member), numbers)
        if self.rows.wrong:
            self._report(numbers[self.rows.wrong])
        written = self.rows.written("row")
        if not written:
            return
        if self.form.team > 1:
            barrier(self.lines)  # what is overwritten may have been read until now
        when(self.lines, self.lines.let(f"icmp eq i64 {member}, 0"), lambda: self._store_numbers(written, numbers, row))

    def _store_numbers(self, written: Sequence[Operand], numbers: Mapping[str, str], row: str) -> None:
        for operand in written:
            store(self.numbers, operand.dtype, numbers[operand.name], self.at[operand.name], row, None)

    def _report(self, number: str) -> None:
        """Leave a 1 where a number is not 0."""
        lines, v = self.lines, self.numbers
        wrong = lines.let(f"extractelement <1 x i1> {v.compare('une', number, v.constant(0.0))}, i32 0")
        status = lines.load_pointer("%block", STATUS)
        when(lines, wrong, lambda: lines.do(f"store i64 1, ptr {status}"))

    # -- whole numbers -------------------------------------------------------------------------------------------------

    def _two(self, name: str, a: str, b: str) -> str:
        return self.lines.let(f"{name} i64 {a}, {b}")

    def _add(self, a: str, b: str) -> str:
        return self._two("add", a, b)

    def _mul(self, a: str, b: str) -> str:
        return self._two("mul", a, b)

    # -- rows ----------------------------------------------------------------------------------------------------------

    def _numbers(self, row: str, totals: Mapping[str, str]) -> dict[str, str]:
        """Return the numbers of a row that follow from the totals that there are."""
        values = {**self.given, **totals}
        for operand in self.rows.operands:
            if operand.written or operand.lies not in ("row", "one", "picked"):
                continue
            where = "0" if operand.lies == "one" else row
            if operand.lies == "picked":
                share, size = self.turns[operand.name]
                where = self._two("urem", self._two("udiv", row, share), size)
            values[operand.name] = self._element(operand, where, DataType.DOUBLE)
        for name, expression in self.rows.numbers.items():
            if set(expression.names) <= values.keys():
                values[name] = Emission(self.numbers, values).write(expression)
        return values

    def _narrow(self, numbers: Mapping[str, str], read: set[str]) -> dict[str, str]:
        """Return numbers of a row as what its elements are computed with."""
        return {
            name: self.lines.let(f"fptrunc {self.numbers.type} {numbers[name]} to {self.v.type}")
            for name in sorted(read & numbers.keys())
        }

    # -- elements ------------------------------------------------------------------------------------------------------

    def _sweep(
        self, at: tuple[str, str], starts: Sequence[str], body: Callable[[str, str, Sequence[str]], Sequence[str]]
    ) -> list[str]:
        """Run `body(place, place along the row, carried)` for the elements of a member; what is carried is float64."""
        lines, team = self.lines, self.form.team
        start, member = at
        left = lines.let(f"sub i64 {self._add(self.elements, str(team - 1))}, {member}")

        def one(turn: str, carried: Sequence[str]) -> Sequence[str]:
            e = self._add(self._mul(turn, str(team)), member)
            o, r = self._two("udiv", e, self.w["along"]), self._two("urem", e, self.w["along"])
            here = self._add(self._add(start, self._mul(o, self.w["plane"])), self._mul(r, self.w["behind"]))
            return body(here, r, carried)

        return carry_loop(self.numbers, "0", self._two("sdiv", left, str(team)), starts, one)

    def _loaded(self, read: set[str], place: str, r: str) -> dict[str, str]:
        found = dict[str, str]()
        if "index" in read:
            found["index"] = self.v.splat(self.lines.let(f"sitofp i64 {r} to float"))
        for operand in self.rows.operands:
            if operand.parts and read & {*operand.parts} and not operand.written:
                twice = self._mul(place, "2")
                for odd, name in enumerate(operand.parts):
                    found[name] = self._element(operand, self._add(twice, str(odd)), DataType.FLOAT)
        for name in sorted(read & self.operands.keys()):
            operand = self.operands[name]
            if operand.lies == "repeated":
                first = self._two("urem", self._two("sub", place, r), self.turns[name][1])
                found[name] = self._element(operand, self._add(first, r), DataType.FLOAT)
            elif operand.lies in ("each", "along"):
                found[name] = self._element(operand, place if operand.lies == "each" else r, DataType.FLOAT)
        return found

    def _element(self, operand: Operand, i: str, dtype: DataType) -> str:
        """Return element i in floating point."""
        at = self.lines.let(f"getelementptr {MEMORY[operand.dtype]}, ptr {self.at[operand.name]}, i64 {i}")
        vector = Vector(self.lines, 1, operand.dtype)
        return vector.converted(vector.load_one(at), dtype)

    def _elements(self, at: tuple[str, str], numbers: Mapping[str, str]) -> None:
        """Write the elements of outputs."""
        written = [*self.rows.written("each"), *self.rows.written("pairs")]
        if not written:
            return
        texts = {operand: [self.rows.texts[name] for name in operand.parts or (operand.name,)] for operand in written}
        read = {name for each in texts.values() for text in each for name in text.names}
        fixed = self._narrow(numbers, read)

        def body(place: str, r: str, carried: Sequence[str]) -> Sequence[str]:
            emission = Emission(self.v, {**fixed, **self._loaded(read, place, r)})
            values = [[emission.write(text) for text in texts[operand]] for operand in written]
            for operand, found in zip(written, values, strict=True):
                first = self._mul(place, "2") if operand.parts else place
                for k, value in enumerate(found):
                    store(self.v, operand.dtype, value, self.at[operand.name], self._add(first, str(k)), None)
            return carried

        self._sweep(at, (), body)

    # -- totals --------------------------------------------------------------------------------------------------------

    def _totals(self, names: Sequence[str], at: tuple[str, str], numbers: Mapping[str, str]) -> dict[str, str]:
        """Return totals of a row, which all members get."""
        read = {name for total in names for name in self.rows.texts[total].names}
        fixed = self._narrow(numbers, read)

        def values(place: str, r: str) -> list[str]:
            emission = Emission(self.v, {**fixed, **self._loaded(read, place, r)})
            found = [emission.write(self.rows.texts[name]) for name in names]
            return [self.lines.let(f"fpext {self.v.type} {value} to {self.numbers.type}") for value in found]

        starts = [self.numbers.constant(JOINS[self.rows.joins[name]][1]) for name in names]
        if any(self.rows.joins[name] == "first_max" for name in names):
            firsts = values(at[0], "0")
            starts = [
                first if self.rows.joins[name] == "first_max" else start
                for name, first, start in zip(names, firsts, starts, strict=True)
            ]

        def body(place: str, r: str, carried: Sequence[str]) -> Sequence[str]:
            new = values(place, r)
            return [self._join(name, *pair) for name, *pair in zip(names, carried, new, strict=True)]

        found = self._sweep(at, starts, body)
        if self.form.team > 1:
            found = [self._over_team(name, value, at[1]) for name, value in zip(names, found, strict=True)]
        return dict(zip(names, found, strict=True))

    def _over_team(self, name: str, value: str, member: str) -> str:
        """Return the numbers of all members joined."""
        lines, v = self.lines, self.numbers
        S = shared(lines)
        store(v, DataType.DOUBLE, value, S, member, None)
        step = self.form.team // 2
        while step:  # S[t] = S[t] joined with S[t + step], for t < step

            def halve(step: int = step) -> None:
                one, other = (self._shared(S, where) for where in (member, self._add(member, str(step))))
                store(v, DataType.DOUBLE, self._join(name, one, other), S, member, None)

            barrier(lines)
            when(lines, lines.let(f"icmp slt i64 {member}, {step}"), halve)
            step //= 2
        barrier(lines)
        found = self._shared(S, "0")
        barrier(lines)  # nobody writes there before all have read
        return found

    def _shared(self, S: str, i: str) -> str:
        return Vector(self.lines, 1, DataType.DOUBLE).load(S, i, None)

    def _join(self, name: str, a: str, b: str) -> str:
        text, _ = JOINS[self.rows.joins[name]]
        return Emission(self.numbers, {"a": a, "b": b}).write(Expression.parse(text))
