"""Pointwise: expressions as an operator, on every engine."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import SchemaError, ShapeError
from tazza.operator import operator_def, run_op
from tests.check import Case, check_op, engines_of, on_all_engines, run


def value(*shape: int, dtype: str = "float32", start: float = 0.25) -> NDArray[Any]:
    """Return different numbers of both signs."""
    return (2 * np.sin(np.arange(math.prod(shape)) + start)).astype(dtype).reshape(shape)


A, B = value(2, 3, 5, 7), value(2, 3, 5, 7, start=1)
CHANNEL, ONE, ROW, COLUMN = value(3, 1, 1), value(1), value(7), value(5, 1)
WIDE, WIDE_ROW = value(2, 37, dtype="float64"), value(37, dtype="float64", start=1)
HALF, MASKED = value(3, 41, dtype="float16"), value(2, 19)


def case(id: str, inputs: list[Any], expressions: list[str], *expected: Any, batched: tuple[int, ...] = ()) -> Case:
    """Make a case of Pointwise."""
    args = {"expressions": expressions}
    return Case("Pointwise", inputs, expected, args, outputs=len(expected), batched=batched, id=id)


CASES = [
    case("one", [A], ["tanh(x0) * 2 + 1"], np.tanh(A) * 2 + 1),
    case("two", [A, B], ["x0 + x1", "x0 * x1"], A + B, A * B, batched=(0, 1)),
    case("channels", [A, CHANNEL, ONE, ROW], ["x0 * x1 + x2 - x3"], A * CHANNEL + ONE - ROW),
    case("outer", [COLUMN, ROW], ["where(x0 > x1, x0, x1 - x0)"], np.where(COLUMN > ROW, COLUMN, ROW - COLUMN)),
    case("numbers", [np.float32(2), np.float32(3)], ["pow(x0, x1)"], np.float32(8)),
    case("float64", [WIDE, WIDE_ROW], ["exp(x0) / (1 + square(x1))"], np.exp(WIDE) / (1 + WIDE_ROW**2)),
    case("float16", [HALF], ["max(x0, 0)"], np.where(HALF > 0, HALF, np.float16(0))),
    case("mask", [MASKED, MASKED > 0], ["x0 * x1 / 0.25"], np.where(MASKED > 0, MASKED * 4, np.float32(0))),
]


@on_all_engines(CASES)
def test_pointwise(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("engine", engines_of("Pointwise"))
def test_halves_are_computed_in_float32_and_rounded_once(engine: str, dtype: type[Any]) -> None:
    X: NDArray[Any] = np.random.default_rng(3).standard_normal((7, 53)).astype(dtype)
    exact: NDArray[Any] = X.astype(np.float32)
    op = operator_def("Pointwise", ["x"], ["y"], expressions=["x0 * x0 * 0.1"])
    found, _ = run(op, [X], engine)
    wanted: NDArray[Any] = (exact * exact * np.float32(0.1)).astype(dtype)
    np.testing.assert_array_equal(found[0], wanted)


@pytest.mark.parametrize(
    ("expressions", "message"),
    [(["x0 + x2"], "names x2"), (["x0", "x1"], "2 expressions for 1 outputs")],
)
def test_expressions_must_fit_the_operator(expressions: list[str], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        run(operator_def("Pointwise", ["a", "b"], ["y"], expressions=expressions), [A, A])


def test_shapes_that_do_not_broadcast() -> None:
    with pytest.raises(ShapeError, match="cannot be broadcast"):
        run_op("Pointwise", value(3), value(5), expressions=["x0 + x1"])
