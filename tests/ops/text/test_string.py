"""StringPrefix, StringSuffix, StringStartsWith, StringEndsWith, StringEquals: by regular expressions and by hand."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tazza.errors import ArgumentError, DTypeError, GradientError
from tazza.operator import find_schema, gradient_for_op, operator_def, run_op
from tests.check import Case, check_op, on_all_engines

Array = NDArray[Any]

TEXTS = np.array([[b"rain", b"", b"in\0in"], ["ä€".encode(), b"\xff\xfe", b"b"]], object)


def found(pattern: bytes) -> Callable[[Array], Array]:
    """Return what answers whether a pattern is in a text."""
    return lambda texts: np.reshape([re.search(pattern, x, re.DOTALL) is not None for x in texts.flat], texts.shape)


def cut(pattern: bytes) -> Callable[[Array], Array]:
    """Return what gives the part of a text that is a pattern."""

    def parts(texts: Array) -> Array:
        one = [re.search(pattern, x, re.DOTALL) for x in texts.flat]
        return np.array([b"" if x is None else x[0] for x in one], object).reshape(texts.shape)

    return parts


CASES = [
    Case("StringPrefix", [TEXTS], cut(rb"\A.{0,2}"), {"length": 2}),
    Case("StringPrefix", [TEXTS], cut(rb"\A.{0,3}"), id="three bytes"),
    Case("StringPrefix", [TEXTS[0]], cut(rb"\A"), {"length": 0}, id="none"),
    Case("StringSuffix", [TEXTS], cut(rb".{0,2}\Z"), {"length": 2}),
    Case("StringSuffix", [TEXTS], cut(rb".{0,3}\Z"), id="three last bytes"),
    Case("StringSuffix", [TEXTS[1]], cut(rb"\Z"), {"length": 0}, id="none of them"),
    Case("StringStartsWith", [TEXTS], found(rb"\Ain"), {"prefix": "in"}),
    Case("StringStartsWith", [TEXTS], found(rb"\A\xff"), {"prefix": b"\xff"}, id="bytes that are no text"),
    Case("StringStartsWith", [TEXTS], np.ones((2, 3), bool), id="with nothing"),
    Case("StringEndsWith", [TEXTS], found(rb"in\Z"), {"suffix": "in"}),
    Case("StringEndsWith", [TEXTS[:, 0]], np.ones(2, bool), id="ends with nothing"),
    Case("StringEquals", [TEXTS], found(rb"\Arain\Z"), {"text": "rain"}),
    Case("StringEquals", [TEXTS], found(rb"\A\Z"), id="empty"),
    Case("StringEquals", [np.array(b"b", object)], np.array(True), {"text": "b"}, id="rank 0"),
]


@on_all_engines(CASES)
def test_cases(case: Case, engine: str) -> None:
    check_op(case, engine)


@pytest.mark.parametrize("type", sorted({case.type for case in CASES}))
def test_refused(type: str) -> None:
    with pytest.raises(DTypeError, match=f"{type}.*strings"):
        run_op(type, np.zeros(3))
    with pytest.raises(GradientError, match="texts have no derivative"):
        gradient_for_op(find_schema(type).view(operator_def(type, ["x"], ["y"])), ["dy"])


@pytest.mark.parametrize("type", ["StringPrefix", "StringSuffix"])
def test_a_length_is_a_number_of_bytes(type: str) -> None:
    with pytest.raises(ArgumentError, match=f"{type}.*length"):
        run_op(type, TEXTS, length=-1)
