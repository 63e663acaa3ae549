"""Mean and its gradient: by NumPy; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

A, B, C = np.random.default_rng(1).standard_normal((3, 2, 3, 5)).astype(np.float32)
CASES = [
    Case("Mean", [A, B, C], np.mean([A, B, C], axis=0)),
    Case("Mean", [A], A, id="one"),
    Case("Mean", [A[:0], B[:0]], A[:0], id="nothing"),
    Case("MeanGradient", [A], (A / 2, A / 2), outputs=2),
    Case("MeanGradient", [A], (A,), outputs=1, id="one"),
]


def test_the_share_is_rounded_to_float32() -> None:
    one = np.array([1.0])
    assert run_op("Mean", one, one * 0, one * 0)[0] == float(np.float32(1) / np.float32(3))
    assert run_op("MeanGradient", one, outputs=3)[2][0] == float(np.float32(1) / np.float32(3))


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("Mean", [A, B[0]], {}, ShapeError, "all must have one shape"),
    ("Mean", [A, B.astype("d")], {}, DTypeError, "X1 is float64"),
    ("Mean", [np.ones(2, np.int32)], {}, DTypeError, "int32"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
