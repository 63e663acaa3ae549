"""Cbrt and SquareRootDivide: by powers; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import NumericError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.random.default_rng(2).standard_normal((3, 2, 4)).astype(np.float32)
SCALE = np.array([4, 0, 9], np.int32)
CASES = [
    Case("Cbrt", [X], np.sign(X) * np.abs(X) ** (1 / 3)),
    Case("CbrtGradient", [X[0], X[1]], X[0] / 3 / X[1].astype("d") ** 2, slack=10),
    Case("SquareRootDivide", [X, SCALE], np.stack([X[0] / 2, X[1], X[2] / 3])),
    Case(
        "SquareRootDivide", [X, SCALE.astype("f")], np.stack([X[0] / 2, X[1], X[2] / 3]), gradient=False, id="float32"
    ),
    Case("SquareRootDivide", [X[:0], SCALE[:0]], X[:0], id="nothing"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("SquareRootDivide", [X, -SCALE], {}, NumericError, r"scale\[0\] is -4, it has no square root"),
    ("SquareRootDivide", [X, np.full(3, np.nan, "f")], {}, NumericError, r"scale\[0\] is nan"),
    ("SquareRootDivide", [X, SCALE[:2]], {}, ShapeError, "scale"),
    ("CbrtGradient", [X, X[:1]], {}, ShapeError, "Y"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
