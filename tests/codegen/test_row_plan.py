"""Which programs of rows an operator has, over which letters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from tazza.codegen.block import Scratch, Slot, float_word
from tazza.codegen.row_plan import Operand, RowForm, RowTask, plan_rows
from tazza.operator import Cut, Expression, OpView, RowProgram, Total, Unsupported, find_schema, operator_def
from tazza.operator.row_program import RowRule
from tazza.tensor import DataType, TensorSpec
from tazza.tensor.offer import answered

X, Y = TensorSpec((2, 3), DataType.FLOAT), TensorSpec((2, 3), DataType.FLOAT)


def keeping(op: OpView, specs: Mapping[str, TensorSpec]) -> tuple[RowProgram, ...]:
    """A program that keeps a number of each row, and one that reads it."""
    return (
        RowProgram(Cut(2, 3), {"sum": Total("sum", "X")}, {"kept": "sum * 2"}, keeps=("kept",)),
        RowProgram(Cut(2, 3), each={"Y": "X * kept"}, lies={"kept": "row"}),
    )


def always(answer: RowProgram | str) -> RowRule:
    """Return a rule that answers so."""

    def rule(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram | str:
        return answer

    return rule


def planned(rule: RowRule, x: TensorSpec = X) -> list[tuple[RowTask, tuple[Operand, ...]]] | str:
    """Return the tasks of an operator of one input and one output, with their operands, or why there are none."""
    op = find_schema("Softmax").view(operator_def("Softmax", ["x"], ["y"]))
    plan = answered(lambda: plan_rows(op, ([x], [Y]), rule))
    if isinstance(plan, Unsupported):
        return plan.reason
    for _, operands, sizes in plan.tasks:
        assert sizes == {one.name: 6 if one.name in "XY" else 2 for one in operands}
    return [(task, operands) for task, operands, _ in plan.tasks]


def one(op: OpView, specs: Mapping[str, TensorSpec]) -> RowProgram:
    """A total that is needed, one that is not, and elements."""
    totals = {"most": Total("max", "X"), "unused": Total("sum", "X")}
    return RowProgram(Cut(2, 3), totals, each={"Y": "X - most"})


def test_only_what_is_needed_is_made() -> None:
    found = planned(one)
    assert not isinstance(found, str)
    ((task, operands),) = found
    assert list(task.texts) == ["most", "Y"]
    assert [(one.name, one.lies, one.written) for one in operands] == [("X", "each", False), ("Y", "each", True)]
    assert task.slots == {"X": Slot("X"), "Y": Slot("Y")}


def test_what_a_program_keeps_lies_in_scratch_memory() -> None:
    found = planned(keeping)
    assert not isinstance(found, str)
    assert [[one.name for one in operands] for _, operands in found] == [["X", "kept"], ["X", "Y", "kept"]]
    assert found[0][0].slots["kept"] == Scratch(0)
    assert found[0][0].kept_bytes == 64


@pytest.mark.parametrize(
    ("rule", "x", "reason"),
    [
        (always("not so"), X, "not so"),
        (one, TensorSpec((2, 3), DataType.DOUBLE), "it computes in float32, not X of float64"),
        (always(RowProgram(Cut(2, 2), each={"Y": "X"})), X, "X has 6 elements, not 4"),
        (always(RowProgram(Cut(1, 7, 1), each={"Y": "X"}, lies={"X": "along"})), X, "X has 6 elements, not 7"),
        (always(RowProgram(Cut(2, 3), each={"Y": "X + Z"})), X, "its formula needs Z"),
        (always(RowProgram(Cut(2, 3), row={"Z": "1"})), X, "with these arguments there is no formula of Y"),
    ],
)
def test_what_is_refused(rule: RowRule, x: TensorSpec, reason: str) -> None:
    assert planned(rule, x) == reason


def test_what_lies_along_a_row_may_go_on_behind_it() -> None:
    found = planned(always(RowProgram(Cut(3, 2), each={"Y": "X"}, lies={"X": "along"})))
    assert not isinstance(found, str)


def test_what_all_makers_of_kernels_know_of_a_task() -> None:
    """Totals that are needed stage by stage, numbers of a row without them, and what stands at the end of a block."""
    operands = (
        Operand("X", "each", DataType.FLOAT, False),
        Operand("picks", "picked", DataType.FLOAT, False),
        Operand("Y", "row", DataType.FLOAT, True),
    )
    totals = {"most": Total("max", "X"), "unused": Total("sum", "X"), "powers": Total("sum", "exp(X - most)")}
    program = RowProgram(
        Cut(2, 3), totals, {"Y": "log(powers) * picks * given"}, picks={"picks": 4}, given={"given": 0.5}
    )
    texts = {name: Expression.parse(totals[name].text) for name in ("most", "powers")}
    texts["Y"] = Expression.parse(program.row["Y"])
    form = RowForm.of(RowTask(program, texts, {}, 0), operands)
    assert form.stages == (("most",), ("powers",))
    assert (form.joins, form.numbers) == ({"most": "max", "powers": "sum"}, {"Y": texts["Y"]})
    assert [one.name for one in form.written("row")] == ["Y"]
    assert form.tail(program, {"picks": 7}) == [float_word(0.5), 4, 7]
    assert str(form) != str(replace(form, given=()))
