"""What operators make of rows: the passes that their totals need."""

from __future__ import annotations

import pytest

from tazza.operator import Cut, RowProgram, Total
from tazza.operator.row_program import JOINS
from tazza.tensor.expression import Expression


def test_totals_that_hang_on_nothing_share_a_pass() -> None:
    totals = {"a": Total("sum", "X"), "b": Total("max", "X"), "c": Total("sum", "X - mean"), "d": Total("min", "c * X")}
    program = RowProgram(Cut(2, 3, 4, 5), totals, row={"mean": "a / count", "last": "d + 1"})
    assert program.stages() == [["a", "b"], ["c"], ["d"]]
    assert program.cut.size == 120
    assert RowProgram(Cut(1, 1)).stages() == []


@pytest.mark.parametrize("join", sorted(JOINS))
def test_what_totals_begin_with_changes_nothing(join: str) -> None:
    text, start = JOINS[join]
    for value in (-3.5, 0.0, 7.25):
        assert Expression.parse(text).evaluate({"a": start, "b": value}) == value
