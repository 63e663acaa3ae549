"""StumpFunc and StumpFuncIndex: by hand; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.array([[1, -2, 3.5], [0, np.nan, -7]], np.float32)
CASES = [
    Case(
        "StumpFunc",
        [X],
        np.array([[-1, -1, 2], [-1, 2, -1]]),
        {"threshold": 1.0, "low_value": -1.0, "high_value": 2.0},
        gradient=False,
    ),
    Case("StumpFuncIndex", [X], (np.array([0, 1, 3, 5]), np.array([2, 4])), {"threshold": 1.0}, gradient=False),
    Case("StumpFuncIndex", [X[:0]], (np.zeros(0), np.zeros(0)), gradient=False, id="nothing"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("StumpFunc", [X.astype("d")], {}, DTypeError, "float64"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
