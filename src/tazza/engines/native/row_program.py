"""Kernels of operators that state what they make of rows: totals, numbers of a row, elements, in as few passes.

Letters as in `operator.row_program`: B x D x K. A row that is long, of few, is cut into chunks. Chunks follow from the
shape alone, so the result is the same on any number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from tazza.codegen.block import BlockLaunch, Scratch, Slot, accepts_dense, accepts_rows, float_word, slots_of
from tazza.codegen.kernel import lane_count, threads_for
from tazza.codegen.loop import KINDS
from tazza.codegen.rows import finish_status
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.engines.native.row_code import Form, Operand, Rows
from tazza.operator import (
    KERNELS,
    Expression,
    Kernel,
    Launch,
    OpSchema,
    OpView,
    Spec,
    Unsupported,
    kernel_key,
    with_arguments,
)
from tazza.operator.kernel import LaunchChain, Offered
from tazza.operator.row_program import AS_IT_LIES, ROW_RULES, Cut, RowProgram
from tazza.runtime.machine import machine
from tazza.runtime.threads import thread_count
from tazza.tensor import ROW_MAJOR, DataType, TensorSpec
from tazza.tensor.offer import Offer

BLOCK = 64
"""Vectors that are joined in float32."""
WIDE = 4
"""Registers of a vector, so that several sums go on at once, and rows side by side fill lines of the cache."""
CHUNK = 1 << 14
"""Elements that are worth a chunk, about."""
MOST_CHUNKS, FEW_ITEMS = 64, 64
"""The most chunks of a row, and how many rows, or groups of them side by side, are too many to be cut."""
LINE_BYTES = 64
FLOATS = frozenset(KINDS) - {DataType.DOUBLE, DataType.BOOL}
READ = FLOATS | {DataType.INT32, DataType.BOOL}
"""Element types that are written, and those that are read."""


# -- preparing ---------------------------------------------------------------------------------------------------------


def prepare_rows(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Offered:
    """Compile what an operator makes of its rows: one program, or several, one behind the other."""
    del context
    given = slots_of(op.schema, op.input_letters, outputs=False)
    made = slots_of(op.schema, op.output_letters, outputs=True)
    specs = {
        slot.name: cast("TensorSpec", spec) for slot, spec in zip((*given, *made), (*inputs, *outputs), strict=True)
    }
    slots: dict[str, Slot | Scratch] = {slot.name: slot for slot in (*given, *made)}
    otherwise = [name for name, spec in specs.items() if spec.layout != ROW_MAJOR and op.type in AS_IT_LIES]
    if otherwise:
        return Unsupported(f"{otherwise[0]} is not row-major, and is not brought into that order for this")
    rule = ROW_RULES[op.type](op, specs)
    if isinstance(rule, str):
        return Unsupported(rule)
    makers: list[Callable[[], Launch]] = []
    missing, nbytes, kept_bytes = {slot.name for slot in made}, 0, 0
    for program in (rule,) if isinstance(rule, RowProgram) else rule:
        texts = {name: one.text for name, one in program.totals.items()} | dict(program.row) | dict(program.each)
        expressions = with_arguments(op, texts)
        if not expressions:
            return Unsupported("an argument is NaN, which no formula can name")
        for name in program.keeps:
            specs[name] = TensorSpec((program.cut.before * program.cut.behind,), DataType.FLOAT)
            slots[name] = Scratch(kept_bytes)
            kept_bytes += max(1, -(-specs[name].nbytes // LINE_BYTES)) * LINE_BYTES
        written = texts.keys() & {*program.keeps, *(slot.name for slot in made)}
        paired = {letter for letter, names in program.pairs.items() if texts.keys() >= {*names}}
        wanted = {*written, *(name for letter in paired for name in program.pairs[letter])}
        written |= paired
        task = _Task(program, _needed(expressions, wanted | ({program.wrong} - {""})), slots, kept_bytes)
        operands = task.operands(specs, written)
        reason = task.unsupported(operands, specs)
        if reason is not None:
            return Unsupported(reason)
        makers.append(partial(_launch, task, operands, {one.name: specs[one.name].size for one in operands}))
        missing -= written
        nbytes += sum(specs[one.name].nbytes for one in operands)
    if missing:
        return Unsupported(f"with these arguments there is no formula of {', '.join(sorted(missing))}")
    return Offer(partial(_chained, makers), estimate_ns=nbytes / machine().memory_bytes_per_ns)


def _chained(makers: Sequence[Callable[[], Launch]]) -> Launch:
    launches = tuple(make() for make in makers)
    return launches[0] if len(launches) == 1 else LaunchChain(launches)


@dataclass(frozen=True, slots=True)
class _Task:
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

    def unsupported(self, operands: Sequence[Operand], specs: Mapping[str, TensorSpec]) -> str | None:
        """Return why it cannot be compiled, or None."""
        cut = self.program.cut
        sizes = {"each": cut.size, "pairs": 2 * cut.size, "row": cut.before * cut.behind, "along": cut.along, "one": 1}
        for one in operands:
            if specs[one.name].size != sizes.get(one.lies, specs[one.name].size):
                return f"{one.name} has {specs[one.name].size} elements, not {sizes[one.lies]}"
        if (cut.behind, cut.outer) != (1, 1) and any(one.lies in ("picked", "repeated") for one in operands):
            return "rows lie side by side, and share what is said of some of them"
        strange = [one for one in operands if one.dtype not in (FLOATS if one.written else READ)]
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


def _launch(task: _Task, operands: tuple[Operand, ...], sizes: Mapping[str, int]) -> Launch:
    program, texts, cut = task.program, task.texts, task.program.cut
    slots = [task.slots[one.name] for one in operands]
    across, flops = cut.behind > 1, sum(one.flops for one in texts.values())
    lanes = _lanes(cut.behind if across else cut.along)
    items = cut.before * (-(-cut.behind // lanes) if across else cut.behind)  # without columns there is no row
    chunks = _chunks(cut, items)
    joins = {name: one.join for name, one in program.totals.items() if name in texts}
    stages = tuple(tuple(name for name in stage if name in joins) for stage in program.stages())
    shape = (lanes, across, cut.outer != 1, chunks > 1)
    form = Form(operands, joins, texts, tuple(filter(None, stages)), program.wrong, tuple(program.given), *shape)
    address = SOURCES.compiled(str(form), lambda lines: Rows(lines, form).write(), finish_status)
    width = BLOCK if across else BLOCK * lanes
    width = max(1, width // max(cut.along, 1)) if cut.outer != 1 else width
    moved = sum(one.dtype.itemsize for one in operands if one.lies == "each")
    threads = max(1, min(threads_for(thread_count(), cut.size, flops, max(moved, 4)), items * chunks))
    parts_bytes = 8 * len(joins) * items * chunks * (lanes if across else 1) if chunks > 1 else 0
    scratch = Scratch(task.kept_bytes) if parts_bytes else 0
    plane = cut.size // max(cut.outer, 1)
    words = (threads, items, chunks, 0, cut.along, cut.behind, cut.outer, plane, width, scratch, *slots)
    turns = [word for one in form.turning for word in (program.picks.get(one.name, 1), max(1, sizes[one.name]))]
    block = (*words, *map(float_word, program.given.values()), *turns)
    return BlockLaunch(address, block, task.kept_bytes + parts_bytes, program.check)


def _lanes(extent: int) -> int:
    """Return how many lanes a vector has: those of several registers, fewer for short rows."""
    most = lane_count() * WIDE
    return max(min(4, most), min(most, 1 << max(extent - 1, 0).bit_length()))


def _chunks(cut: Cut, items: int) -> int:
    """Return into how many parts each row is cut: some, where the items are few."""
    if items >= FEW_ITEMS:
        return 1
    most = cut.outer if cut.outer != 1 else cut.along
    return max(1, min(MOST_CHUNKS, cut.size // max(1, items) // CHUNK, most))


def register_rows(schema: OpSchema) -> None:
    """Register the kernel of an operator type that states what it makes of rows; made on demand, as of formulas."""
    key = kernel_key(schema.type, "native")
    accepts = accepts_dense if schema.type in AS_IT_LIES else accepts_rows
    KERNELS.setdefault(
        key, Kernel(*key, prepare=prepare_rows, accepts=accepts), help="compiled from what it makes of rows"
    )
