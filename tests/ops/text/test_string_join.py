"""StringJoin: numbers as C prints them, rows and columns; what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

TEXTS = np.array([[b"a", b"", b"c\0"], [b"\xff", "ä".encode(), b","]], object)
NUMBERS = np.array([[1e6, 123456789, 1e5], [0.1, -0.0, 1e-5], [np.inf, -np.inf, 1 / 3], [3e20, np.nan, -2.5]])
AS_TEXT = ["1e+06 1.23457e+08 100000 ", "0.1 -0 1e-05 ", "inf -inf 0.333333 ", "3e+20 nan -2.5 "]


def texts(*values: bytes | str) -> Array:
    """Return texts as a tensor has them."""
    return np.array([value.encode() if isinstance(value, str) else value for value in values], object)


CASES = [
    Case("StringJoin", [TEXTS], texts(b"a,,c\0,", b"\xff,\xc3\xa4,,,")),
    Case("StringJoin", [TEXTS], texts(b"a<>\xff<>", b"<>\xc3\xa4<>", b"c\0<>,<>"), {"axis": 1, "delimiter": "<>"}),
    Case("StringJoin", [TEXTS[0]], texts("a;", ";", b"c\0;"), {"delimiter": ";"}, id="rank 1"),
    Case("StringJoin", [NUMBERS], texts(*AS_TEXT), {"delimiter": " "}),
    Case("StringJoin", [NUMBERS[1:].astype("f")], texts(*AS_TEXT[1:]), {"delimiter": " "}, id="float32"),
    Case("StringJoin", [np.array([[-1, 2**40]])], texts("-1", "1099511627776"), {"axis": 1, "delimiter": ""}),
    Case("StringJoin", [np.array([[True, False]])], texts("1,0,"), id="truth"),
    Case("StringJoin", [np.array([[44, 0, 65]], np.uint8)], texts(b",,\0,A,"), id="bytes"),
    Case("StringJoin", [np.array([[-1, 66]], np.int8)], texts(b"\xff,B,"), id="signed bytes"),
    Case("StringJoin", [np.array([[-1, 66]], np.int16)], texts("-1,66,"), id="two bytes"),
    Case("StringJoin", [np.zeros((2, 0))], texts("", ""), id="no columns"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


REFUSED: list[tuple[Array, dict[str, Any], type[TazzaError], str]] = [
    (TEXTS[None], {}, ShapeError, "input has rank 3, it is 1 or 2"),
    (np.array(1.5), {}, ShapeError, "input has rank 0"),
    (TEXTS[0], {"axis": 1}, ShapeError, "axis = 1 of an input of rank 1, it has no columns"),
    (TEXTS, {"axis": 2}, ArgumentError, "axis"),
    (TEXTS, {"axis": -1}, ArgumentError, "axis"),
    (np.zeros((2, 3), np.float16), {}, DTypeError, "float16"),
]


@pytest.mark.parametrize(("input", "arguments", "error", "text"), REFUSED)
def test_refused(input: Array, arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error, match=text):
        run_op("StringJoin", input, **arguments)
