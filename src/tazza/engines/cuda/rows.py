"""Kernels of operators that state what they make of rows: of each row a team of threads, or several blocks.

Letters as in `operator.row_program`: B x D x K.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, update_wrapper

from tazza.codegen.block import Scratch, accepts_dense, accepts_rows
from tazza.codegen.nvptx import GridKernel
from tazza.codegen.row_plan import Operand, RowForm, RowTask, plan_rows
from tazza.data_class import dataclass
from tazza.device import Context
from tazza.engines.cuda import KIND, make_on_demand
from tazza.engines.cuda.launch import SMALL, GridLaunch, Status, own_code
from tazza.engines.cuda.row_code import WORDS, Form, Rows, Share, writes_elements
from tazza.engines.cuda.team import Deal, Limits, deal_of, parts_of, team_words
from tazza.errors import UnsupportedError
from tazza.operator import Launch, OpSchema, OpView, Spec, Unsupported, launcher
from tazza.operator.kernel import LaunchChain
from tazza.operator.row_program import AS_IT_LIES, ROW_RULES, Cut, RowRule
from tazza.tensor import DataType

LIMITS = Limits()
WHOLE = frozenset({DataType.INT64})
"""Types of whole numbers that there may be one of for each row."""


def prepare_rows(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec], *, rule: RowRule | None = None
) -> Launch:
    """Compile what an operator makes of its rows: one program, or several, one behind the other."""
    del context
    plan = plan_rows(op, (inputs, outputs), ROW_RULES[op.type] if rule is None else rule, numbers=WHOLE)
    try:
        return plan.launch(launch_rows)
    except UnsupportedError as error:
        raise Unsupported(error.message) from None


def launch_rows(task: RowTask, operands: tuple[Operand, ...], sizes: Mapping[str, int]) -> Launch:
    """Return the launch of a program over its operands, of so many elements each.

    Raises:
        UnsupportedError: a function in it is not written for GPUs.
    """
    form = RowForm.of(task, operands)
    cut = _turned(task, operands)
    deal = deal_of(cut, loads_of(operands), LIMITS, written=writes_elements(form))
    parts = parts_of(cut, deal, LIMITS)
    made = Making(task, form, cut, sizes)
    return made.launch(deal, "whole") if parts == 1 else LaunchChain(tuple(made.in_parts(deal, parts)))


def loads_of(operands: Sequence[Operand]) -> int:
    """Return how many numbers are loaded for each element."""
    read = [one for one in operands if not one.written and one.lies in ("each", "along", "repeated", "pairs")]
    return sum(max(1, len(one.parts)) for one in read)


def _turned(task: RowTask, operands: Sequence[Operand]) -> Cut:
    """Return the cut of a program; rows of one element, O times, lie side by side."""
    cut = task.program.cut
    alone = cut.along == cut.behind == 1 < cut.outer
    if not alone or "index" in task.read or any(one.lies in ("along", "repeated", "picked") for one in operands):
        return cut
    return Cut(1, cut.outer, cut.before)


@dataclass(frozen=True, slots=True)
class Making:
    """Makes the launches of a program whose rows lie as `cut` says, over operands of so many elements each."""

    task: RowTask
    form: RowForm
    cut: Cut
    sizes: Mapping[str, int]
    parts: int = 1

    @property
    def rows(self) -> int:
        """How many there are."""
        return self.cut.before * self.cut.behind

    def launch(self, deal: Deal, share: Share, stage: int = 0, cut: Cut | None = None) -> GridLaunch:
        """Return the launch of a share of the program; `cut` where what is gone over lies otherwise."""
        over, program = self.cut if cut is None else cut, self.task.program
        small = max(over.size, self.cut.size, self.rows) < SMALL
        form = Form(self.form, deal, over.outer != 1, small, share, stage)
        blocks = deal.blocks(over)
        chunk = -(-over.along * over.outer // (self.parts * deal.team * deal.each)) * deal.team * deal.each
        first, whole = self.task.kept_bytes, share == "whole"
        partials, totals = (
            (0, 0) if whole or not self.form.stages else (Scratch(first), Scratch(first + self._partials_bytes))
        )
        team = team_words(over, deal, blocks=max(1, blocks), chunk=chunk)
        elements = self.cut.along * self.cut.outer
        found = {"elements": elements, "rows": self.rows, "parts": self.parts, "partials": partials, "totals": totals}
        words = [*WORDS.words(**team, **found, status=0), *(self.task.slots[one.name] for one in form.rows.operands)]
        limits, doubles = LIMITS, form.shared_doubles(LIMITS)
        most = deal.threads if deal.threads > limits.block else 0
        kernel = GridKernel(form.words, lambda lines: Rows(lines, form, limits).write(), doubles, most)
        scratch = first + (0 if whole else self._partials_bytes + self._totals_bytes)
        tells = program.wrong and share in ("whole", "join", "numbers")
        status = Status(WORDS.place("status"), program.complaint) if tells else None
        grid = blocks * self.parts if deal.parts else blocks
        block = (*words, *form.rows.tail(program, self.sizes))
        return GridLaunch(own_code(str(form), kernel), block, grid, deal.threads, scratch, status)

    @property
    def _partials_bytes(self) -> int:
        return 8 * self.parts * self.rows * max(map(len, self.form.stages), default=0)

    @property
    def _totals_bytes(self) -> int:
        return 8 * self.rows * sum(map(len, self.form.stages))

    def in_parts(self, deal: Deal, parts: int) -> Iterator[GridLaunch]:
        """Yield the launches of a program each of whose rows has several blocks."""
        made, several = replace(self, parts=parts), replace(deal, parts=True)
        over = Cut(1, parts, self.rows)
        joining = replace(deal_of(over, 2 * max(map(len, self.form.stages), default=0), LIMITS), parts=False)
        for stage in range(len(self.form.stages)):
            yield made.launch(several, "parts", stage)
            yield made.launch(joining, "join", stage, over)
        if writes_elements(self.form):
            yield made.launch(several, "elements")
        if (writes_elements(self.form) or not self.form.stages) and (self.form.written("row") or self.form.wrong):
            single = Cut(self.rows, 1)
            yield made.launch(deal_of(single, 1, LIMITS), "numbers", 0, single)


def register_rows(schema: OpSchema) -> None:
    """Register the kernel of an operator type that states what it makes of rows; made on demand, as of formulas."""
    accepts = accepts_dense if schema.type in AS_IT_LIES else accepts_rows
    make_on_demand(schema.type, prepare_rows, "compiled from what it makes of rows", accepts=accepts)


def rows_kernel(schema: OpSchema) -> Callable[[RowRule], RowRule]:
    """Register the kernel of an operator whose program of rows is for GPUs only: engines of the CPU have others."""

    def decorate(rule: RowRule) -> RowRule:
        prepare = update_wrapper(partial(prepare_rows, rule=rule), rule)
        launcher(schema, engine=KIND, device=KIND, accepts=accepts_rows)(prepare)
        return rule

    return decorate
