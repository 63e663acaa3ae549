"""What tells kernels of rows apart, and their words."""

from __future__ import annotations

from tazza.codegen.nvptx import GridKernel
from tazza.codegen.row_plan import Operand, RowForm
from tazza.engines.cuda.row_code import WORDS, Form, Rows
from tazza.operator import Expression
from tazza.tensor import DataType


def form_of(team: int) -> Form:
    """Return the form of Y = X - the sum of its row."""
    operands = (Operand("X", "each", DataType.FLOAT, False), Operand("Y", "each", DataType.FLOAT, True))
    texts = {"total": Expression.parse("X"), "Y": Expression.parse("X - total")}
    return Form(RowForm(operands, {"total": "sum"}, texts, (("total",),), "", ()), team, 8)


def test_teams_meet_and_single_threads_do_not() -> None:
    for team, meetings in ((1, 0), (8, 5)):
        form = form_of(team)
        text = GridKernel(form.words, lambda lines, form=form: Rows(lines, form).write(), 8).text("rows")
        assert text.count("call void @llvm.nvvm.barrier0") == meetings, "three halvings, before and after the reading"
    assert form_of(1).words == len(WORDS) + 2


def test_equal_forms_have_equal_names() -> None:
    assert str(form_of(8)) == str(form_of(8)) != str(form_of(4))
