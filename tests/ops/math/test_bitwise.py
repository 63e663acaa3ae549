"""BitwiseAnd, BitwiseOr, BitwiseXor: by Python, with both ways to broadcast; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import DTypeError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

A, B = np.array([[12, -1, 7], [2**40, 3, 0]]), np.array([10, 6, -8])
LOGIC = {"BitwiseAnd": int.__and__, "BitwiseOr": int.__or__, "BitwiseXor": int.__xor__}


def by_element(type: str, A: Array, B: Array) -> Array:
    """Return what Python makes of each pair."""
    pairs = zip(A.ravel().tolist(), np.broadcast_to(B, A.shape).ravel().tolist(), strict=True)
    return np.array([LOGIC[type](a, b) for a, b in pairs]).reshape(A.shape)


CASES = [
    *(Case(type, [A, B], by_element(type, A, B), id="rows") for type in LOGIC),
    *(
        Case(type, [A, B[:2].copy()], by_element(type, A, B[:2, None]), {"broadcast": 1, "axis": 0}, id="under")
        for type in LOGIC
    ),
    *(Case(type, [A > 2, A < 9], by_element(type, A > 2, A < 9) > 0, id="bool") for type in LOGIC),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("BitwiseAnd", [A, B[:2]], {}, ShapeError, "B"),
    ("BitwiseOr", [A, B.astype(np.int32)], {}, DTypeError, "B is int32"),
    ("BitwiseXor", [A.astype("f"), B.astype("f")], {}, DTypeError, "float32"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
