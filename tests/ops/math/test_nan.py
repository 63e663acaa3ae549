"""IsNaN and ReplaceNaN: by hand; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

NAN = float("nan")
X = np.array([[1, NAN, float("inf")], [NAN, -2, 0]], np.float32)
CASES = [
    Case("IsNaN", [X], np.array([[0, 1, 0], [1, 0, 0]]), gradient=False),
    Case("IsNaN", [X.astype("d")], np.array([[0, 1, 0], [1, 0, 0]]), gradient=False, id="float64"),
    Case("ReplaceNaN", [X], np.array([[1, 0, np.inf], [0, -2, 0]]), gradient=False),
    Case("ReplaceNaN", [X], np.array([[1, 0.5, np.inf], [0.5, -2, 0]]), {"value": 0.5}, gradient=False, id="value"),
    Case("ReplaceNaN", [X.astype("d")[:1, :2]], np.array([[1, np.float32(0.1)]]), {"value": 0.1}, gradient=False),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("IsNaN", [np.array([1, 2])], {}, DTypeError, "int64"),
    ("ReplaceNaN", [X.astype(np.float16)], {}, DTypeError, "float16"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
