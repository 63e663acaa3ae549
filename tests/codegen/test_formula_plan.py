"""How the operands of formulas lie."""

from __future__ import annotations

from typing import Any

import pytest

from tazza.codegen.formula_plan import Axes, Operand, dense, plan_formula
from tazza.codegen.scalar import Scalars
from tazza.operator import Expression, LaidOut, Unsupported, find_schema, operator_def
from tazza.tensor import DataType, Strided, TensorSpec


def axes_of(shapes: list[tuple[int, ...]], out: tuple[int, ...]) -> Axes | str:
    """Return the dimensions that are left of a sum of blobs of these shapes, or why there are none."""
    found: list[Axes] = []

    def make(
        expressions: tuple[Expression, ...], read: list[Operand], written: list[Operand], axes: Axes, scalars: Scalars
    ) -> Any:
        assert [one.name for one in (*read, *written)] == ["A", "B", "C"]
        found.append(axes)

    schema = find_schema("Add")
    op = schema.view(operator_def("Add", ["a", "b"], ["c"], broadcast=1))
    specs = [TensorSpec(shape, DataType.FLOAT) for shape in (*shapes, out)]
    answer = plan_formula(op, specs[:2], specs[2:], make)
    if isinstance(answer, Unsupported):
        return answer.reason
    assert isinstance(answer, LaidOut)
    return found[0]


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        ([(2, 3, 5), (2, 3, 5)], [(30, (1, 1, 1))]),
        ([(2, 3, 5), (5,)], [(6, (5, 0, 5)), (5, (1, 1, 1))]),
        ([(2, 3, 5), (3, 1)], [(2, (15, 0, 15)), (3, (5, 1, 5)), (5, (1, 0, 1))]),
        ([(2, 3, 5), ()], [(30, (1, 0, 1))]),
    ],
)
def test_dimensions_in_which_all_go_on_are_merged(shapes: list[tuple[int, ...]], expected: Axes) -> None:
    assert axes_of(shapes, (2, 3, 5)) == expected


def test_what_lies_without_gaps() -> None:
    assert dense(TensorSpec((2, 3), DataType.FLOAT))
    assert dense(TensorSpec((2, 3), DataType.FLOAT, layout=Strided.of((2, 3), (1, 2))))
    assert not dense(TensorSpec((2, 3), DataType.FLOAT, layout=Strided.of((2, 3), (4, 1))))
