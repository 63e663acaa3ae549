"""Kernels of operators that state what they make of rows: totals, numbers of a row, elements, in as few passes.

Letters as in `operator.row_program`: B x D x K. A row that is long, of few, is cut into chunks. Chunks follow from the
shape alone, so the result is the same on any number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from tazza.codegen.block import BlockLaunch, Scratch, Word, accepts_dense, accepts_rows
from tazza.codegen.kernel import lane_count, threads_of
from tazza.codegen.row_plan import Operand, RowForm, RowPlan, RowTask, chained, plan_rows
from tazza.codegen.rows import finish_status
from tazza.data_class import dataclass
from tazza.device import Context
from tazza.engines.native import SOURCES
from tazza.engines.native.row_code import ITEMS, Form, Rows, write_nested
from tazza.operator import KERNELS, Kernel, Launch, OpSchema, OpView, Spec, kernel_key
from tazza.operator.kernel import Offered
from tazza.operator.row_program import AS_IT_LIES, ROW_RULES, Cut, RowProgram
from tazza.runtime.machine import machine
from tazza.tensor.offer import Offer

BLOCK = 64
"""Vectors that are joined in float32."""
WIDE = 4
"""Registers of a vector, so that several sums go on at once, and rows side by side fill lines of the cache."""
CHUNK = 1 << 14
"""Elements that are worth a chunk, about."""
TURNED = {"row": "along", "along": "row", "one": "one"}
LONG = 256
"""How letters lie where rows become columns, and how many elements a row then has at the least."""
MOST_CHUNKS, FEW_ITEMS = 64, 64
"""The most chunks of a row, and how many rows, or groups of them side by side, are too many to be cut."""


def prepare_rows(op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]) -> Offered:
    """Compile what an operator makes of its rows: one program, or several, one behind the other."""
    del context
    plan = plan_rows(op, (inputs, outputs), ROW_RULES[op.type])
    return Offer(partial(_launched, plan), estimate_ns=plan.nbytes / machine().memory_bytes_per_ns)


@dataclass(frozen=True, slots=True)
class _Made:
    """What a kernel of one program is, and its block."""

    program: RowProgram
    form: Form
    words: tuple[Word, ...]
    scratch_bytes: int

    def launch(self) -> Launch:
        """Compile it."""
        address = SOURCES.compiled(str(self.form), lambda lines: Rows(lines, self.form).write(), finish_status)
        return BlockLaunch(address, self.words, self.scratch_bytes, self.program.check)

    def around(self, other: _Made) -> bool:
        """Whether each row is made of some of the other's, which need no numbers of rows but its own.

        These can follow each row then, while it is near. What is written in place is one row's own elements.
        """
        mine, theirs = self.program.cut, other.program.cut
        forms = (self.form, other.form)
        if any(one.across or one.outer or one.cut or one.rows.wrong for one in forms) or mine.before == 0:
            return False
        each, rest = divmod(theirs.before, mine.before)
        written = {one.name: one.lies for one in self.form.rows.operands if one.written}
        read = [one for one in self.form.rows.operands if not one.written]
        handed = {one.name for one in other.form.rows.operands if not one.written} & written.keys()
        return (
            (rest, mine.along) == (0, each * theirs.along)
            and set(written.values()) == {"row"}
            and all(one.lies == "each" for one in (*read, *(o for o in other.form.rows.operands if o.written)))
            and all(other.program.picks.get(name) == each for name in handed)
        )

    def nested(self, other: _Made) -> Launch:
        """Compile both as one kernel."""
        forms = self.form, other.form
        write = partial(write_nested, forms=forms, words=len(self.words))
        address = SOURCES.compiled(f"nested {forms[0]} | {forms[1]}", write, finish_status)
        return BlockLaunch(address, (*self.words, *other.words), max(self.scratch_bytes, other.scratch_bytes))


def _launched(plan: RowPlan) -> Launch:
    """Compile all programs, those that go over the same rows as one kernel."""
    waiting, launches = [_made(*one) for one in plan.tasks], list[Launch]()
    while waiting:
        one = waiting.pop(0)
        if waiting and one.around(waiting[0]):
            launches.append(one.nested(waiting.pop(0)))
        else:
            launches.append(one.launch())
    return chained(launches)


def _made(task: RowTask, operands: tuple[Operand, ...], sizes: Mapping[str, int]) -> _Made:
    task, operands = _turned(task, operands)
    program, texts, cut = task.program, task.texts, task.program.cut
    slots = [task.slots[one.name] for one in operands]
    across, flops = cut.behind > 1, sum(one.flops for one in texts.values())
    lanes = _lanes(cut.behind if across else cut.along)
    items = cut.before * (-(-cut.behind // lanes) if across else cut.behind)  # without columns there is no row
    chunks = _chunks(cut, items)
    rows = RowForm.of(task, operands)
    form = Form(rows, lanes, across, cut.outer != 1, chunks > 1)
    width = BLOCK if across else BLOCK * lanes
    width = max(1, width // max(cut.along, 1)) if cut.outer != 1 else width
    moved = sum(one.dtype.itemsize for one in operands if one.lies == "each")
    threads = threads_of(cut.size, flops, max(moved, 4), items * chunks)
    parts_bytes = 8 * len(rows.joins) * items * chunks * (lanes if across else 1) if chunks > 1 else 0
    scratch = Scratch(task.kept_bytes) if parts_bytes else 0
    head = ITEMS.words(
        **{"threads": threads, "items": items, "chunks": chunks, "along": cut.along, "behind": cut.behind},
        **{"outer": cut.outer, "plane": cut.size // max(cut.outer, 1), "width": width, "scratch": scratch},
    )
    words = (*head, *slots, *rows.tail(program, sizes))
    return _Made(program, form, words, task.kept_bytes + parts_bytes)


def _turned(task: RowTask, operands: tuple[Operand, ...]) -> tuple[RowTask, tuple[Operand, ...]]:
    """Take long rows side by side as columns, where there is nothing of a whole row: so memory is written in order."""
    program, cut = task.program, task.program.cut
    whole = {*program.totals, *program.row, *program.keeps} & task.texts.keys()
    strange = [one for one in operands if one.lies not in ("each", "pairs", *TURNED)]
    if cut.behind < LONG or (cut.before, cut.outer) != (1, 1) or whole or strange or "index" in task.read:
        return task, operands
    turned = tuple(replace(one, lies=TURNED.get(one.lies, one.lies)) for one in operands)
    given = {**program.given, "count": float(max(1, cut.along))}
    return replace(task, program=replace(program, cut=Cut(cut.along, cut.behind), given=given)), turned


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
