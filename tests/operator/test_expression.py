"""Formulas of operators: arguments stand in them, and what is wrong is refused."""

from __future__ import annotations

import pytest

from tazza.errors import ArgumentError, SchemaError
from tazza.operator import FLOAT, SCHEMAS, Expression, arg, blob, ends, formula, formulas_of, operator_def, schema


def test_arguments_stand_in_formulas() -> None:
    made = schema(
        "TestSlope",
        "Y = alpha * X.",
        inputs=[blob("X", FLOAT, "*S")],
        outputs=[blob("Y", like="X")],
        args=[arg("alpha", float, 0.5), arg("word", str, "")],
        no_gradient=ends("a test"),
    )
    try:
        op = made.view(operator_def("TestSlope", ["x"], ["y"], alpha=0.25))
        assert formulas_of(op) == {}
        formula(made, Y="alpha * X")
        assert formulas_of(op) == {"Y": Expression.parse("0.25 * X")}
        with pytest.raises(SchemaError, match="names: Z"):
            formula(made, Y="Z")
        with pytest.raises(SchemaError, match="no output 'X'"):
            formula(made, X="X")
        with pytest.raises(SchemaError, match="names: int32"):
            formula(made, Y="int32(X)")
        with pytest.raises(SchemaError, match="one of them"):
            formula(made)
        formula(made, Y="word * X")
        with pytest.raises(ArgumentError, match="is no number"):
            formulas_of(op)
    finally:
        SCHEMAS.unregister("TestSlope")
