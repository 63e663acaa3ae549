"""LpNorm and its gradient, against sums in float64 and by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tazza.errors import ArgumentError, ShapeError, TazzaError
from tazza.operator import run_op
from tests.check import Case, check_op, on_all_engines

X = np.random.default_rng(5).standard_normal((2, 3, 5)).astype(np.float32)
ONES = [math.fsum(abs(x) for x in X.ravel().tolist())]
SQUARES = [math.fsum(x * x for x in X.ravel().tolist())]
MEAN: dict[str, Any] = {"average": True}
HAND = np.array([[1, -2], [3, 0]], np.float32)
TWO = np.array([2], np.float32)

CASES = [
    Case("LpNorm", [X], np.array(SQUARES)),
    Case("LpNorm", [X], np.array(ONES), {"p": 1}, id="p 1"),
    Case("LpNorm", [X], np.array(SQUARES) / 30, MEAN, id="mean of squares"),
    Case("LpNorm", [X], np.array(ONES) / 30, {"p": 1, **MEAN}, id="mean"),
    Case("LpNorm", [np.array(-3, np.float32)], np.array([9.0]), id="rank 0"),
    Case("LpNormGradient", [HAND, TWO], np.array([[4.0, -8], [12, 0]])),
    Case("LpNormGradient", [HAND, TWO], np.array([[2.0, -2], [2, 0]]), {"p": 1}, id="p 1"),
    Case("LpNormGradient", [HAND, TWO], np.array([[1.0, -2], [3, 0]]), MEAN, id="mean of squares"),
]


@on_all_engines(CASES)
def test_norm(case: Case, engine: str) -> None:
    check_op(case, engine)


def test_tiny_numbers_have_no_sign() -> None:
    given = np.array([1e-12, -1e-12, 2e-12], np.float32)
    assert run_op("LpNormGradient", given, TWO, p=1).tolist() == [0, 0, 2]


REFUSED: list[tuple[str, list[Any], dict[str, Any], type[TazzaError], str]] = [
    ("LpNorm", [X], {"p": 3}, ArgumentError, "argument 'p' = 3 is not one of 1, 2"),
    ("LpNorm", [X[:0]], MEAN, ShapeError, "the average of no elements"),
    ("LpNormGradient", [X, TWO[:0]], {}, ShapeError, "dY has the shape (0), it must be (1)"),
]


@pytest.mark.parametrize(("type", "inputs", "arguments", "error", "text"), REFUSED)
def test_refused(type: str, inputs: list[Any], arguments: dict[str, Any], error: type[TazzaError], text: str) -> None:
    with pytest.raises(error) as caught:
        run_op(type, *inputs, **arguments)
    assert text in str(caught.value)
