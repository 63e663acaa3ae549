"""Kernels of operators that state what they make of rows: a block of threads for each row, or a thread.

Letters as in `operator.row_program`: B x D x K. How threads are dealt out follows from the shape alone, so the result
is the same on any device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tazza.codegen.block import Word, accepts_dense, accepts_rows
from tazza.codegen.nvptx import GridKernel
from tazza.codegen.row_plan import Operand, RowForm, RowTask, plan_rows
from tazza.device import Context
from tazza.engines.cuda import KIND
from tazza.engines.cuda.launch import THREADS, GridLaunch, Status, blocks_for, own_code
from tazza.engines.cuda.row_code import STATUS, Form, Rows
from tazza.errors import UnsupportedError
from tazza.operator import KERNELS, Kernel, Launch, OpSchema, OpView, Spec, Unsupported, kernel_key, launcher
from tazza.operator.row_program import AS_IT_LIES, ROW_RULES, Cut, RowRule

SHORT = 32
"""Rows of so few elements get a thread each."""
MANY_ROWS = 1 << 14
"""So many rows that lie side by side fill a device with a thread each."""


def prepare_rows(
    op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec], *, rule: RowRule | None = None
) -> Launch | Unsupported:
    """Compile what an operator makes of its rows: one program, or several, one behind the other."""
    del context
    plan = plan_rows(op, (inputs, outputs), ROW_RULES[op.type] if rule is None else rule)
    if isinstance(plan, Unsupported):
        return plan
    try:
        return plan.launch(_launch)
    except UnsupportedError as error:
        return Unsupported(error.message)


def _launch(task: RowTask, operands: tuple[Operand, ...], sizes: Mapping[str, int]) -> Launch:
    program, cut = task.program, task.program.cut
    rows, team = cut.before * cut.behind, team_of(cut)
    threads = THREADS if team == 1 else team
    form = Form(RowForm.of(task, operands), team, threads)
    plane = cut.size // max(cut.outer, 1)
    slots: list[Word] = [task.slots[one.name] for one in operands]
    words = (rows, cut.along, max(1, cut.behind), cut.outer, plane, 0, *slots)
    kernel = GridKernel(form.words, lambda lines: Rows(lines, form).write(), team if team > 1 else 0)
    code = own_code(str(form), kernel)
    blocks = rows if team > 1 else blocks_for(rows, threads)
    block = (*words, *form.rows.tail(program, sizes))
    status = Status(STATUS, program.complaint) if program.wrong else None
    return GridLaunch(code, block, blocks, threads, task.kept_bytes, status)


def team_of(cut: Cut) -> int:
    """Return how many threads work on a row, a power of two."""
    elements = cut.along * cut.outer
    if elements < SHORT or (cut.behind > 1 and cut.before * cut.behind >= MANY_ROWS):
        return 1
    return min(THREADS, 1 << (elements - 1).bit_length() - 1)


def register_rows(schema: OpSchema) -> None:
    """Register the kernel of an operator type that states what it makes of rows; made on demand, as of formulas."""
    key = kernel_key(schema.type, KIND, KIND)
    accepts = accepts_dense if schema.type in AS_IT_LIES else accepts_rows
    KERNELS.setdefault(
        key, Kernel(*key, prepare=prepare_rows, accepts=accepts), help="compiled from what it makes of rows"
    )


def rows_kernel(schema: OpSchema) -> Callable[[RowRule], RowRule]:
    """Register the kernel of an operator whose program of rows is for GPUs only: engines of the CPU have others."""

    def decorate(rule: RowRule) -> RowRule:
        def prepare(
            op: OpView, context: Context, inputs: Sequence[Spec], outputs: Sequence[Spec]
        ) -> Launch | Unsupported:
            return prepare_rows(op, context, inputs, outputs, rule=rule)

        prepare.__module__ = rule.__module__
        launcher(schema, engine=KIND, device=KIND, accepts=accepts_rows)(prepare)
        return rule

    return decorate
