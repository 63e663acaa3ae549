"""What an operator makes of its rows, for who compiles it: which programs, over which letters, and how these lie.

Letters as in `operator.row_program`: B x D x K.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias, cast

from tazza.codegen.block import Scratch, Slot, float_word, slots_of
from tazza.codegen.vector import KINDS
from tazza.data_class import dataclass
from tazza.operator import Expression, Launch, OpView, Spec, Unsupported, with_arguments
from tazza.operator.kernel import LaunchChain
from tazza.operator.row_program import AS_IT_LIES, RowProgram, RowRule
from tazza.tensor import ROW_MAJOR, DataType, TensorSpec

LINE_BYTES = 64
FLOATS = frozenset(KINDS) - {DataType.DOUBLE, DataType.BOOL}
READ = FLOATS | {DataType.INT32, DataType.BOOL}
"""Element types that are written, and those that are read."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A letter: how it lies, its type, whether it is written, and what the numbers of pairs are called."""

    name: str
    lies: str
    dtype: DataType
    written: bool
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowForm:
    """What tells kernels of rows apart, whatever makes them; each target adds how it goes over rows.

    Attributes:
        operands: letters, in the order of their addresses in the block.
        joins: name of each total -> what joins it.
        texts: name -> expression of totals, numbers of a row and elements.
        stages: names of totals that are made in one pass, pass by pass.
        wrong: name of a number that has to be 0, if any.
        given: names of numbers that stand in the block behind all addresses.
        computed: what elements are while they are computed.
    """

    operands: tuple[Operand, ...]
    joins: Mapping[str, str]
    texts: Mapping[str, Expression]
    stages: tuple[tuple[str, ...], ...]
    wrong: str
    given: tuple[str, ...]
    computed: DataType

    @classmethod
    def of(cls, task: RowTask, operands: tuple[Operand, ...]) -> RowForm:
        """Return that of a task."""
        program, texts = task.program, task.texts
        joins = {name: one.join for name, one in program.totals.items() if name in texts}
        stages = (tuple(name for name in stage if name in joins) for stage in program.stages())
        computed = DataType.DOUBLE if program.wide else DataType.FLOAT
        return cls(operands, joins, texts, tuple(filter(None, stages)), program.wrong, tuple(program.given), computed)

    def __str__(self) -> str:
        """Return what these say of a kernel, complete; with what a target adds it names one."""
        shown = ", ".join(
            f"{one.name} {one.lies} {one.dtype.label} {int(one.written)} {one.parts}" for one in self.operands
        )
        texts = "; ".join(f"{name} {self.joins.get(name, '')} {one.text()}" for name, one in self.texts.items())
        return f"{self.computed.label} {self.stages} {self.given} {self.wrong} ({shown}): {texts}"

    @property
    def turning(self) -> list[Operand]:
        """The letters that begin anew when all of them was used."""
        return [one for one in self.operands if one.lies in ("picked", "repeated")]

    @property
    def numbers(self) -> dict[str, Expression]:
        """What there is one of for each row, and is no total: name -> expression."""
        lies = {one.name: one.lies for one in self.operands if one.written}
        parts = {name for one in self.operands for name in one.parts}
        return {
            name: text
            for name, text in self.texts.items()
            if name not in self.joins and name not in parts and lies.get(name, "row") == "row"
        }

    def written(self, lies: str) -> list[Operand]:
        """Return the outputs that lie so."""
        return [one for one in self.operands if one.written and one.lies == lies]

    def tail(self, program: RowProgram, sizes: Mapping[str, int]) -> list[int]:
        """Return the last words of a block: given numbers; of letters that begin anew how often, and their sizes."""
        turns = (word for one in self.turning for word in (program.picks.get(one.name, 1), max(1, sizes[one.name])))
        return [*map(float_word, program.given.values()), *turns]


Make: TypeAlias = "Callable[[RowTask, tuple[Operand, ...], Mapping[str, int]], Launch]"
"""Makes the launch of a task over its operands, of so many elements each."""


@dataclass(frozen=True, slots=True)
class RowPlan:
    """All programs of an operator, each with its operands and how many elements these have, and the bytes they move."""

    tasks: tuple[tuple[RowTask, tuple[Operand, ...], Mapping[str, int]], ...]
    nbytes: int

    def launch(self, make: Make) -> Launch:
        """Compile them one by one."""
        return chained([make(*one) for one in self.tasks])


def chained(launches: Sequence[Launch]) -> Launch:
    """Return launches as one."""
    return launches[0] if len(launches) == 1 else LaunchChain(tuple(launches))


def plan_rows(
    op: OpView,
    specs: tuple[Sequence[Spec], Sequence[Spec]],
    rule: RowRule,
    *,
    numbers: Collection[DataType] = (),
) -> RowPlan:
    """Return what an operator makes of its rows: one program, or several, one behind the other, as `rule` says.

    `specs` are those of its inputs and outputs; `numbers` the types, beside floating point, of which numbers of rows
    can be written.
    """
    inputs, outputs = specs
    given = slots_of(op.schema, op.input_letters, outputs=False)
    made = slots_of(op.schema, op.output_letters, outputs=True)
    named = {
        slot.name: cast("TensorSpec", spec) for slot, spec in zip((*given, *made), (*inputs, *outputs), strict=True)
    }
    slots: dict[str, Slot | Scratch] = {slot.name: slot for slot in (*given, *made)}
    otherwise = [name for name, spec in named.items() if spec.layout != ROW_MAJOR and op.type in AS_IT_LIES]
    if otherwise:
        raise Unsupported(f"{otherwise[0]} is not row-major, and is not brought into that order for this")
    found = rule(op, named)
    if isinstance(found, str):
        raise Unsupported(found)
    tasks: list[tuple[RowTask, tuple[Operand, ...], Mapping[str, int]]] = []
    missing, nbytes, kept_bytes = {slot.name for slot in made}, 0, 0
    for program in (found,) if isinstance(found, RowProgram) else found:
        texts = {name: one.text for name, one in program.totals.items()} | dict(program.row) | dict(program.each)
        expressions = with_arguments(op, texts)
        if not expressions:
            raise Unsupported("an argument is NaN, which no formula can name")
        for name in program.keeps:
            named[name] = TensorSpec((program.cut.before * program.cut.behind,), DataType.FLOAT)
            slots[name] = Scratch(kept_bytes)
            kept_bytes += max(1, -(-named[name].nbytes // LINE_BYTES)) * LINE_BYTES
        written = texts.keys() & {*program.keeps, *(slot.name for slot in made)}
        paired = {letter for letter, names in program.pairs.items() if texts.keys() >= {*names}}
        wanted = {*written, *(name for letter in paired for name in program.pairs[letter])}
        written |= paired
        task = RowTask(program, _needed(expressions, wanted | ({program.wrong} - {""})), slots, kept_bytes)
        operands = task.operands(named, written)
        reason = task.unsupported(operands, named, numbers)
        if reason is not None:
            raise Unsupported(reason)
        tasks.append((task, operands, {one.name: named[one.name].size for one in operands}))
        missing -= written
        nbytes += sum(named[one.name].nbytes for one in operands)
    if missing:
        raise Unsupported(f"with these arguments there is no formula of {', '.join(sorted(missing))}")
    return RowPlan(tuple(tasks), nbytes)


@dataclass(frozen=True, slots=True)
class RowTask:
    """A program, those of its expressions that are needed, the slots by name, and the scratch memory that they take."""

    program: RowProgram
    texts: Mapping[str, Expression]
    slots: Mapping[str, Slot | Scratch]
    kept_bytes: int

    @property
    def read(self) -> set[str]:
        """The names that its expressions name."""
        return {name for one in self.texts.values() for name in one.names}

    def operands(self, specs: Mapping[str, TensorSpec], written: Collection[str]) -> tuple[Operand, ...]:
        """Return the letters that it reads and writes."""
        return tuple(
            Operand(name, self._lies(name), spec.dtype, name in written, self.program.pairs.get(name, ()))
            for name, spec in specs.items()
            if name in written or (name not in self.texts and self.read & {name, *self.program.pairs.get(name, ())})
        )

    def _lies(self, name: str) -> str:
        if name in self.program.totals or name in self.program.row:
            return "row"
        if name in self.program.pairs:
            return "pairs"
        return "picked" if name in self.program.picks else self.program.lies.get(name, "each")

    def unsupported(
        self, operands: Sequence[Operand], specs: Mapping[str, TensorSpec], numbers: Collection[DataType] = ()
    ) -> str | None:
        """Return why it cannot be compiled, or None."""
        cut = self.program.cut
        sizes = {"each": cut.size, "pairs": 2 * cut.size, "row": cut.before * cut.behind, "along": cut.along, "one": 1}
        for one in operands:
            size = sizes.get(one.lies, specs[one.name].size)
            if specs[one.name].size != size and not (one.lies == "along" and specs[one.name].size > size):
                return f"{one.name} has {specs[one.name].size} elements, not {sizes[one.lies]}"
        if (cut.behind, cut.outer) != (1, 1) and any(one.lies in ("picked", "repeated") for one in operands):
            return "rows lie side by side, and share what is said of some of them"
        written = {lies: FLOATS | {*numbers} if lies == "row" else FLOATS for lies in sizes}
        strange = [one for one in operands if one.dtype not in (written[one.lies] if one.written else READ)]
        if strange:
            return f"it computes in float32, not {strange[0].name} of {strange[0].dtype.label}"
        absent = self.read - {
            "count",
            "index",
            *self.program.given,
            *self.texts,
            *(name for one in operands for name in (one.name, *one.parts)),
        }
        if absent:
            return f"its formula needs {', '.join(sorted(absent))}"
        joins = {one.join for name, one in self.program.totals.items() if name in self.texts}
        return "a row has no element" if 0 in (cut.along, cut.outer) and joins - {"sum"} else None


def _needed(texts: Mapping[str, Expression], wanted: Collection[str]) -> dict[str, Expression]:
    """Return those expressions that wanted ones hang on, in their order."""
    found, waiting = set[str](), list(wanted)
    while waiting:
        name = waiting.pop()
        if name in texts and name not in found:
            found.add(name)
            waiting += texts[name].names
    return {name: one for name, one in texts.items() if name in found}
