"""Comparisons and logic: against Python's operators; broadcasting, NaN, and what is refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, GradientError, SchemaError, ShapeError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines, run

Array = NDArray[Any]

SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "EQ": operator.eq,
    "NE": operator.ne,
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
}
LOGIC: dict[str, Callable[[bool, bool], bool]] = {
    "And": lambda a, b: a and b,
    "Or": lambda a, b: a or b,
    "Xor": lambda a, b: a is not b,
}
A = np.array([[-1.5, 0, 3], [2, np.nan, np.inf]], np.float32)
B = np.array([[-1.5, 1, 2], [2, np.nan, np.inf]], np.float32)
ROW = np.array([2, -1.5, 3], np.float32)
YES_NO = np.array([[True, True, False], [False, True, False]])


def each(of: Callable[[Any, Any], Any], first: Array, second: Array) -> Array:
    """Return `of` two numbers at every place."""
    pairs = zip(first.reshape(-1).tolist(), second.reshape(-1).tolist(), strict=True)
    return np.array([of(a, b) for a, b in pairs]).reshape(first.shape)


def cases() -> list[Case]:
    """Return the cases of each comparison, and of each connective."""
    listed = [Case("Not", [YES_NO], YES_NO ^ True, batched=(0,)), Case("Not", [YES_NO[0, 0]], np.array(False))]
    n = np.array([2**53 + 1, 5])
    for type, of in SIGNS.items():
        listed += [
            Case(type, [A, B], each(of, A, B), batched=(0, 1)),
            Case(type, [A, ROW], each(of, A, np.stack([ROW, ROW])), id="row"),
            Case(type, [n, n - 1], each(of, n, n - 1), id="int64"),
            Case(type, [n.astype("i"), n.astype("i")[:1]], each(of, n.astype("i"), np.full(2, 1)), id="int32"),
            Case(type, [A.astype("d"), B.astype("d")], each(of, A, B), id="float64"),
            Case(type, [YES_NO, ~YES_NO], each(of, YES_NO, ~YES_NO), id="bool"),
        ]
    for type, of in LOGIC.items():
        turned = YES_NO[:, ::-1].copy()
        column = np.stack([YES_NO[:, 0]] * 3, axis=1)
        listed += [
            Case(type, [YES_NO, turned], each(of, YES_NO, turned), batched=(0, 1)),
            Case(type, [turned, YES_NO[:, 0]], each(of, turned, column), {"broadcast": 1, "axis": 0}, id="axis"),
        ]
    return listed


@on_all_engines(cases())
def test_comparison(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("type", [*SIGNS, *LOGIC, "Not"])
def test_steps_have_no_gradient(type: str) -> None:
    op = find_schema(type).view(operator_def(type, ["a"] if type == "Not" else ["a", "b"], ["c"]))
    with pytest.raises(GradientError, match=f"{type} must not be asked for its gradient"):
        gradient_for_op(op, ["dc"])


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[Exception], str]] = [
    ("EQ", [A, B[:, :2]], {}, ShapeError, "3 and 2 do not broadcast"),
    ("LT", [A, B[:, 0]], {"broadcast": 1}, ShapeError, "dimension 0 of B is 2, dimension 1 of A is 3"),
    ("GE", [A, YES_NO], {}, DTypeError, "B is bool, it must be float32"),
    ("And", [A, B], {}, DTypeError, "A is float32, it must be bool"),
    ("Not", [np.arange(2)], {}, DTypeError, "X is int64, it must be bool"),
]


@pytest.mark.parametrize(("type", "inputs", "args", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], args: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **args)


@pytest.mark.parametrize(("type", "output"), [("EQ", "a"), ("And", "b")])
def test_in_place(type: str, output: str) -> None:
    with pytest.raises(SchemaError, match=f"{type} cannot write C in place of"):
        run(operator_def(type, ["a", "b"], [output]), [YES_NO, YES_NO])
