"""Mod: against Python, which follows the divisor, and against what is left of X; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

X = np.array([[7, -7, 0], [9, -9, 8]], np.int32)
LARGE = np.array([2**62 + 5, -(2**62)])
ENDS = np.array([-(2**63), 2**63 - 1, -(2**63) + 1, 2**52, 2**52 - 1, -(2**52), 2**53 + 1, 3 * 2**50 - 1, -1, 0])
"""About where float64 no longer holds whole numbers, and those of int64 end."""


def python_mod(divisor: int) -> Array:
    """Return what Python says of ENDS, which divides whole numbers of any size."""
    return np.array([int(x) % divisor for x in ENDS])


def follows(divisor: int) -> Array:
    """Return X modulo the divisor, as Python has it."""
    return np.array([[x % divisor for x in row] for row in X.tolist()])


CASES = [
    *(Case("Mod", [X], follows(n), {"divisor": n, "sign_follow_divisor": 1}, id=f"of {n}'s sign") for n in (3, -4)),
    *(Case("Mod", [X], np.sign(X) * (np.abs(X) % 4), {"divisor": n}, id=f"by {n}") for n in (4, -4)),
    Case("Mod", [LARGE], np.array([5, 0]), {"divisor": 2**40}, id="int64"),
    Case("Mod", [X], X, {"divisor": 2**40}, id="a divisor beyond int32"),
    *(
        Case("Mod", [ENDS], python_mod(n), {"divisor": n, "sign_follow_divisor": 1}, id=f"ends by {n}")
        for n in (1, -7, 2**31 - 1, 2**52 - 1)
    ),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("Mod", [X], {}, ArgumentError, "divisor"),
    ("Mod", [X], {"divisor": 0}, ArgumentError, "divisor = 0"),
    ("Mod", [X.astype("f")], {"divisor": 3}, DTypeError, "float32"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op(type, *inputs, **arguments)
