"""PiecewiseLinearTransform: by interpolation and by hand; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, SchemaError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

NAN = float("nan")
LINE: dict[str, Any] = {"bounds": [0.0, 1.0, 2.0], "slopes": [1.0, 2.0], "intercepts": [0.0, 1.0]}
LISTS = [np.array(one, np.float32) for one in LINE.values()]
TWO = [np.concatenate([one, one + 1]) for one in LISTS]
X = np.array([[0.5, 1.5], [-1, 9], [2, 2], [1, NAN]], np.float32)
COLUMN = np.array([0.5, 0, 5, 1])
SECOND = np.array([2 * 1.5 + 1, 3 * 3 + 2, 2 * 2 + 1, NAN])
CASES = [
    Case("PiecewiseLinearTransform", [X, *TWO], np.stack([COLUMN, SECOND], axis=1), gradient=False),
    Case("PiecewiseLinearTransform", [X[:, :1]], COLUMN[:, None], LINE, gradient=False, id="arguments"),
    Case("PiecewiseLinearTransform", [X[:, 0]], COLUMN, LINE | {"binary": 1}, gradient=False, id="a list"),
    Case(
        "PiecewiseLinearTransform",
        [X[:, ::-1].copy(), *LISTS],
        np.stack([1 - COLUMN, COLUMN], axis=1),
        {"binary": 1},
        gradient=False,
        id="chances of both classes",
    ),
    Case("PiecewiseLinearTransform", [X[:0, 0]], COLUMN[:0], LINE | {"binary": 1}, gradient=False, id="nothing"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("PiecewiseLinearTransform", [X], {}, ArgumentError, "are arguments, or inputs"),
    ("PiecewiseLinearTransform", [X, *TWO], LINE, ArgumentError, "are arguments, or inputs"),
    ("PiecewiseLinearTransform", [X, TWO[0]], {}, SchemaError, "together or not at all"),
    ("PiecewiseLinearTransform", [X], LINE, ShapeError, "one column for each of 1 groups"),
    ("PiecewiseLinearTransform", [X, *TWO], {"binary": 1}, ShapeError, "with binary there is one group"),
    ("PiecewiseLinearTransform", [X, TWO[0][:4], *TWO[1:]], {}, ShapeError, "there are 4 bounds, 4 slopes"),
    ("PiecewiseLinearTransform", [X[:, [0, 1, 1]]], LINE | {"binary": 1}, ShapeError, "a list, one column or two"),
    ("PiecewiseLinearTransform", [X], LINE | {"bounds": [2.0, 1.0, 0.0]}, ArgumentError, "are not sorted"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
